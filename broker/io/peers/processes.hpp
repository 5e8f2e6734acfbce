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

/// Tells when a worker's process ends that runs on this machine, by the name the worker gave (see
/// lanemq/process_name.hpp). Asks the system and not the connection: a cut connection looks like an ended
/// process. A worker that names another process harms only itself.
///
/// Not thread-safe; belongs to the loop.
class Processes {
 public:
  /// Processes beyond these are not watched; their workers are waited for like those on other machines.
  static constexpr std::size_t kProcessesMax = 1024, kAddressesMax = 16384;

  /// Throws std::system_error where the system has no room for it.
  Processes();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Watches the process `name` of the worker at `address`. `is_known`: whether an address still belongs to a
  /// worker; asked where room is needed.
  void watch(std::string_view name, std::string_view address,
             const std::function<bool(const std::string&)>& is_known);
  core::WorkerDisconnected::Process of(std::string_view address) const;
  void forget(std::string_view address);
  /// Reads the events; to be called when descriptor() is readable.
  void read();
  int descriptor() const { return poll_; }
  /// The addresses of processes that have ended since; for the caller to handle and clear.
  std::vector<std::string>& ended() { return ended_; }

 private:
  struct Process {
    int descriptor = -1;  // pidfd: readable when the process has ended
    std::vector<std::string> addresses;
  };
  void forget_unknown(const std::function<bool(const std::string&)>& is_known);
  void close(int number);

  const std::string own_;
  int poll_ = -1;
  absl::flat_hash_map<int, Process> processes_;  // the living ones, by number
  absl::flat_hash_map<std::string, int, core::StringHash, core::StringEqual>
      by_address_;  // number; 0: the process has ended
  std::vector<std::string> ended_;
};

}  // namespace lanemq::io
