// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lanemq {

/// One line of a file.
struct FileLine {
  std::string_view text{};   ///< without the line end; valid until the next line is read
  std::uint64_t offset = 0;  ///< of its first byte
  std::uint64_t bytes = 0;   ///< with its line end
  bool complete = false;     ///< has a line end
  bool too_long = false;     ///< over the bound; `text` is empty then
};

/// Reads a file from its start, line by line; holds one line and one block.
class LineReader {
 public:
  /// `fd` stays the caller's. Longer lines than `line_bytes_max` are skipped.
  LineReader(int fd, std::size_t line_bytes_max) : fd_(fd), line_bytes_max_(line_bytes_max) {}

  /// The next line; false: the end of the file. Throws std::system_error when the file cannot be read.
  bool next(FileLine& line);

 private:
  bool fill();

  int fd_;
  std::size_t line_bytes_max_;
  std::string buffer_;
  std::size_t begin_ = 0;         ///< offset in the buffer of what was not returned yet
  std::uint64_t offset_ = 0;      ///< its offset in the file
  std::uint64_t read_up_to_ = 0;  ///< in the file
};

/// Reads `size` bytes at `offset`, fewer at the end of the file. Throws std::system_error.
void read_at(int fd, std::uint64_t offset, std::size_t size, std::string& text);

}  // namespace lanemq
