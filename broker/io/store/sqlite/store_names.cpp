// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/sqlite/store_names.hpp"

#include <cerrno>
#include <utility>

#include <sys/stat.h>

namespace lanemq::io {

StoreNames::StoreNames(const std::string& store)
    : names_{Named{store}, Named{store + "-wal"}, Named{store + "-mark"}} {
  for (Named& named : names_) {
    struct stat at {};
    if (stat(named.path.c_str(), &at) != 0) continue;
    named.device = at.st_dev;
    named.file = at.st_ino;
  }
}

/// Empty: the name leads to the file. No other has its number while the store has it open. A disk that cannot
/// tell says nothing of the file.
std::string StoreNames::why_not(const Named& named) {
  struct stat at {};
  if (named.file == 0) return {};
  if (stat(named.path.c_str(), &at) != 0)
    return errno == ENOENT || errno == ENOTDIR ? named.path + " is not there any more" : "";
  const bool same = at.st_dev == named.device && at.st_ino == named.file;
  return same ? "" : named.path + " is another file";
}

bool StoreNames::look() {
  const auto now = Clock::now();
  if (now < due_) return false;
  due_ = now + kLookEvery;
  std::string trouble;
  for (const Named& named : names_)
    if (const std::string why = why_not(named); !why.empty()) trouble += (trouble.empty() ? "" : ", ") + why;
  const bool gone = !trouble.empty();
  {
    const std::lock_guard lock(mutex_);
    trouble_ = std::move(trouble);
  }
  return gone_.exchange(gone, std::memory_order_relaxed) != gone;
}

std::string StoreNames::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

}  // namespace lanemq::io
