// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "broker/core/base/event.hpp"
#include "broker/core/base/string_hash.hpp"

namespace lanemq::io {

/// Tells when the processes of workers end that run on this machine, by what workers say of themselves (see
/// lanemq/process_name.hpp). The system is asked, not the connection: one that is cut looks as if its process
/// had ended. A worker that names another process harms itself alone.
///
/// Not thread-safe; belongs to the loop.
class Processes {
 public:
  /// More are not watched: their workers are waited for as those on other machines are.
  static constexpr std::size_t kProcessesMax = 1024, kAddressesMax = 16384;

  /// Throws std::system_error where the system has no room for it.
  Processes();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// The worker at `address` says that it is the process `name`. `is_known` tells which addresses are still
  /// anybody's, where room is needed.
  void watch(std::string_view name, std::string_view address,
             const std::function<bool(const std::string&)>& is_known);
  core::WorkerDisconnected::Process of(std::string_view address) const;
  void forget(std::string_view address);
  /// Reads what there is to know; for when descriptor() becomes readable.
  void read();
  int descriptor() const { return poll_; }
  /// The addresses whose processes have ended since; for the caller to handle and clear.
  std::vector<std::string>& ended() { return ended_; }

 private:
  struct Process {
    int descriptor = -1;  // of the process, readable when it has ended
    std::vector<std::string> addresses;
  };
  void forget_unknown(const std::function<bool(const std::string&)>& is_known);
  void close(int number);

  const std::string own_;
  int poll_ = -1;
  absl::flat_hash_map<int, Process> processes_;  // by number, those that live
  absl::flat_hash_map<std::string, int, core::StringHash, core::StringEqual> by_address_;  // 0: it has ended
  std::vector<std::string> ended_;
};

}  // namespace lanemq::io
