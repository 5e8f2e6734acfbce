// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <sqlite3.h>

namespace lanemq::sqlite {

/// A file beside a database, through SQLite's own file layer, so that a test's disk has it, too. Calls return
/// SQLite's codes. Used by one thread at a time.
class File {
 public:
  enum class Mode : std::uint8_t { existing, create };

  File() = default;
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// To be called once. `vfs`: as for Database::open().
  int open(const std::string& path, Mode mode, const std::string& vfs);

  int size(std::uint64_t& bytes);
  /// Bytes after the end read as zeros, with the code SQLITE_IOERR_SHORT_READ.
  int read(std::uint64_t at, char* to, std::size_t count);
  int write(std::uint64_t at, std::string_view bytes);
  int sync();

 private:
  std::string name_;                ///< ends in two zeros; must live while the file is open
  std::unique_ptr<char[]> memory_;  ///< used by the layer
  sqlite3_file* file_ = nullptr;
};

/// Whether the file exists and is not empty.
bool has_content(const std::string& path, const std::string& vfs);

}  // namespace lanemq::sqlite
