// SPDX-License-Identifier: Apache-2.0
#include "common/json/line_reader.hpp"

#include <cerrno>
#include <system_error>

#include <unistd.h>

namespace lanemq {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} * 1024;

std::size_t read_some(int fd, char* to, std::size_t size, std::uint64_t offset) {
  while (true) {
    const ssize_t got = ::pread(fd, to, size, static_cast<off_t>(offset));
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "read");
  }
}

}  // namespace

bool LineReader::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t had = buffer_.size();
  buffer_.resize(had + kBlockBytes);
  const std::size_t got = read_some(fd_, buffer_.data() + had, kBlockBytes, read_up_to_);
  buffer_.resize(had + got);
  read_up_to_ += got;
  return got > 0;
}

bool LineReader::next(FileLine& line) {
  line = {.offset = offset_};
  std::size_t searched = 0;  // bytes of the line without a line end
  while (true) {
    const std::size_t end = buffer_.find('\n', begin_ + searched);
    if (end != std::string::npos) {
      const std::size_t size = end - begin_;
      line.too_long |= size > line_bytes_max_;
      if (!line.too_long) line.text = std::string_view(buffer_).substr(begin_, size);
      line.bytes += size + 1;
      line.complete = true;
      begin_ = end + 1;
      break;
    }
    searched = buffer_.size() - begin_;
    if (searched > line_bytes_max_) {  // drops them: a file without line ends costs no memory
      line.too_long = true;
      line.bytes += searched;
      begin_ = buffer_.size();
      searched = 0;
    }
    if (!fill()) {
      line.bytes += searched;
      if (!line.too_long) line.text = std::string_view(buffer_).substr(begin_, searched);
      begin_ = buffer_.size();
      break;
    }
  }
  offset_ += line.bytes;
  return line.bytes > 0;
}

void read_at(int fd, std::uint64_t offset, std::size_t size, std::string& text) {
  text.resize(size);
  std::size_t have = 0;
  while (have < size) {
    const std::size_t got = read_some(fd, text.data() + have, size - have, offset + have);
    if (got == 0) break;
    have += got;
  }
  text.resize(have);
}

}  // namespace lanemq
