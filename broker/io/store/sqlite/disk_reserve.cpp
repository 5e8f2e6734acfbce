// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/sqlite/disk_reserve.hpp"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace lanemq::io {
namespace {

/// The reserve is at most this part of what the store has and could have.
constexpr std::uint64_t kShareOfDisk = 4;

/// So much more must be free before a full disk is called good again, so that it does not change often.
constexpr std::uint64_t kMargin = 8;

}  // namespace

std::optional<std::uint64_t> Disk::free_bytes(const std::string& path) const {
  struct statvfs disk {};
  if (statvfs(path.c_str(), &disk) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
}

std::uint64_t Disk::file_bytes(const std::string& path) const {
  struct stat file {};
  return stat(path.c_str(), &file) == 0 ? static_cast<std::uint64_t>(file.st_size) : 0;
}

bool Disk::allocate(const std::string& path, std::uint64_t bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const int refused = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  const bool done = refused == 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0;
  ::close(file);
  if (!done) remove(path);
  return done;
}

void Disk::remove(const std::string& path) {
  ::unlink(path.c_str());
}

DiskReserve::DiskReserve(Disk& disk, std::string store, std::uint64_t bytes_max)
    : disk_(disk), store_(std::move(store)), path_(store_ + ".reserve") {
  // The reserve of an earlier run may still be there.
  const std::uint64_t kept = disk_.file_bytes(path_);
  const std::uint64_t mine = kept + store_bytes();
  bytes_ = std::min(bytes_max,
                    (disk_.free_bytes(store_).value_or(bytes_max * kShareOfDisk) + mine) / kShareOfDisk);
  if (bytes_ == 0) {
    disk_.remove(path_);
    return;
  }
  // The earlier run had taken this room already, so as much again is not needed.
  held_ = kept > 0 && disk_.allocate(path_, bytes_);
  if (!held_) hold();
}

bool DiskReserve::hold() {
  if (held_ || bytes_ == 0) return true;
  const auto free = free_bytes();
  if (free && *free < 2 * bytes_ + bytes_ / kMargin) return false;
  held_ = disk_.allocate(path_, bytes_);
  return held_;
}

bool DiskReserve::is_low(std::uint64_t room) const {
  return room < bytes_;
}

bool DiskReserve::has_again(std::uint64_t room) const {
  return room >= bytes_ + bytes_ / kMargin;
}

void DiskReserve::release() {
  if (held_) disk_.remove(path_);
  held_ = false;
}

}  // namespace lanemq::io
