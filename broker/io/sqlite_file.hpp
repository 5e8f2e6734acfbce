// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <sqlite3.h>

namespace lanemq::sqlite {

/// A file beside a database, through the layer that SQLite itself uses, so that a test's disk has it too.
/// Calls return SQLite's codes.
///
/// One thread at a time.
class File {
 public:
  enum class Mode : std::uint8_t { existing, create };

  File() = default;
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Once. `vfs`: as Database::open's.
  int open(const std::string& path, Mode mode, const std::string& vfs);
  bool is_open() const { return file_ != nullptr; }

  int size(std::uint64_t& bytes);
  /// Bytes behind the end are zeros, and the code is SQLITE_IOERR_SHORT_READ.
  int read(std::uint64_t at, char* to, std::size_t count);
  int write(std::uint64_t at, std::string_view bytes);
  int sync();

 private:
  std::string name_;                ///< ends in two zeros, and stays while the file is open
  std::unique_ptr<char[]> memory_;  ///< of the layer's
  sqlite3_file* file_ = nullptr;
};

/// Whether there is such a file, with something in it.
bool has_content(const std::string& path, const std::string& vfs);

}  // namespace lanemq::sqlite
