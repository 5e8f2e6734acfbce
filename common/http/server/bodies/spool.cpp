// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/bodies/spool.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace lanemq::http {
namespace {

/// Opens a file without a name; some file systems cannot, so the file is created and unlinked there.
int open_nameless(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string path = folder + "/upload-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

Spool::~Spool() {
  if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
  if (fd_ >= 0) ::close(fd_);
}

void Spool::refuse(int error) {
  problem_ = folder_ + ": " + std::system_category().message(error);
}

void Spool::append(std::string_view bytes) noexcept {
  if (!problem_.empty()) return;
  if (fd_ < 0) fd_ = open_nameless(folder_);
  if (fd_ < 0) return refuse(errno);
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return refuse(errno);
    bytes_ += static_cast<std::size_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

Blob Spool::look() noexcept {
  if (!problem_.empty() || bytes_ == 0) return {};
  mapped_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    refuse(errno);
    return {};
  }
  return Blob::own(shared_from_this(), std::string_view(static_cast<const char*>(mapped_), bytes_));
}

}  // namespace lanemq::http
