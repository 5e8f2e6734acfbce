// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <sys/epoll.h>
#include <sys/types.h>

#include <lanemq/worker.hpp>

#include "worker/handlers/exec/child.hpp"
#include "worker/handlers/exec/descriptor.hpp"

namespace lanemq::worker {

/// Runs the programs of a worker's exec handlers, hundreds at once, in the worker's loop: pipes and guards
/// are watched by one epoll descriptor. guard.hpp has the processes and why they are there. Any number of
/// handlers share one host.
///
/// Starts its keeper with the first program, and another when that was killed. Guards are kept and used
/// again, as many as programs have run at once. Not thread-safe; no call but the destructor blocks.
///
/// Requires: the process ignores SIGPIPE, and does not wait for children that it does not know.
class ProcessHost {
 public:
  /// One turn reads for this long, and one program's output more.
  static constexpr std::chrono::milliseconds kTurnTime{5};

  /// Throws std::runtime_error where the system cannot keep guards, or has no descriptor left.
  ProcessHost();
  /// Kills what still runs and waits until all of it is gone, 2 s at most. Requires: no Child is left.
  ~ProcessHost();
  ProcessHost(const ProcessHost&) = delete;
  ProcessHost& operator=(const ProcessHost&) = delete;

  /// Starts a program; `variables` come behind its own. Whether it could be started shows at its end. Null:
  /// the worker has no descriptor, memory or process left for it; `problem` says what.
  std::unique_ptr<Child> start(const Program& program, const std::vector<std::string>& variables,
                               ChildOwner& owner, std::string& problem);

  // For the loop, by way of a handler: see Handler.
  int descriptor() const { return epoll_.get(); }
  void on_readable();
  /// Whether advance() has something to do.
  bool is_due() const { return !finishing_.empty(); }
  void advance();

  /// Guards there are, busy and idle; for tests.
  std::size_t guards() const { return guards_.size(); }

 private:
  friend class Child;
  static constexpr std::size_t kEventsPerTurn = 64;
  static constexpr std::size_t kReadBytes = std::size_t{64} * 1024;

  /// Behind a descriptor's event.
  enum class Source : std::uint64_t { keeper, guard, input, output, errors };
  struct Guard {
    Descriptor socket;
    Child* child = nullptr;  ///< null: idle
  };

  /// Of the last epoll_wait().
  struct Ready {
    std::array<epoll_event, kEventsPerTurn> events;
    std::size_t count = 0, next = 0;  ///< next: the first one that was not handled
  };

  bool start_keeper(std::string& problem);
  std::uint64_t idle_guard(std::string& problem);
  void on_keeper();
  void on_guard(std::uint64_t id);
  void on_child(std::uint64_t id, Source source);
  void drop_guard(std::uint64_t id);
  void forget_keeper();
  bool watch(int descriptor, std::uint32_t events, Source source, std::uint64_t id) const;
  void unwatch(int descriptor) const;

  Descriptor epoll_, keeper_;
  pid_t keeper_process_ = 0;
  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, Guard> guards_;     ///< at most kGuardsMax
  std::vector<std::uint64_t> idle_;                     ///< of guards_
  std::unordered_map<std::uint64_t, Child*> children_;  ///< at most one a guard, and those that are read on
  std::vector<std::uint64_t> finishing_;  ///< children that ended while their output was paused, and go on
  Ready ready_;
  std::array<char, kReadBytes> buffer_;
  std::array<char, kGuardRequestBytesMax> request_;
};

}  // namespace lanemq::worker
