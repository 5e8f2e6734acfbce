// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lanemq::settings {

/// A file of this program's that is open to others of this machine.
struct ExposedFile {
  std::string path;
  std::string what;  ///< who may do what with it, and what to do: `others than ... may read it; chmod 600 it`

  bool operator==(const ExposedFile&) const = default;
};

/// Notes a file with secrets, if others than this process's user and group may read or write it. A file of
/// mode 0640 whose group is this process's is fine: services are given their secrets so; and so are the
/// folders in which containers are, /run/secrets.
void note_secret_file(const std::string& path);
/// Notes a file whose text says what this program runs, if everybody may write it.
void note_program_file(const std::string& path);

/// All that were noted since the program's start, each once; at most kExposedFilesMax of them. Thread-safe,
/// as the notes are.
std::vector<ExposedFile> exposed_files();
inline constexpr std::size_t kExposedFilesMax = 64;

/// Whether everybody on this machine may write the file.
bool is_everybodys(const std::string& path);

}  // namespace lanemq::settings
