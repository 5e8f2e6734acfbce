// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <lanemq/result.hpp>

#include "broker/io/base/options.hpp"

namespace lanemq::io {

/// Held by the one process of this machine that has an instance's name, for as long as it lives: its owner
/// knows that an earlier process of that name is dead. A file that is locked, in the folder of this user's
/// state; the file remains, unlocked.
class InstanceLock {
 public:
  /// Takes over an open file that is locked.
  explicit InstanceLock(int file) : file_(file) {}
  ~InstanceLock();
  InstanceLock(InstanceLock&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  InstanceLock& operator=(InstanceLock&&) = delete;

 private:
  int file_ = -1;
};

/// Takes the lock for the options' instance and store. An error (bad_request): another process has it. None:
/// the store is not one that several brokers may wait for, or there is no folder for the file; nobody can
/// tell then.
Result<std::optional<InstanceLock>> lock_instance(const StoreOptions& options);

}  // namespace lanemq::io
