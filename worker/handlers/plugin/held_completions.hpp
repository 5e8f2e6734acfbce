// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>

#include <lanemq/worker.hpp>

namespace lanemq::worker {

/// The completions of jobs that plugins do, under numbers. A plugin may answer twice, after its handler's
/// end, or with a number of its own making, so it never holds an address. Numbers are not used again.
/// Thread-safe.
class HeldCompletions {
 public:
  /// What belongs to one job; it holds at most the worker's capacity of them.
  struct Held {
    Completion done;
    Blob body;  ///< the plugin reads it until it has answered
    const void* owner = nullptr;
    std::size_t answer_bytes_max = 0;
    bool stream = false;
  };

  /// Of the process: a number says nothing of its handler, which may be gone.
  static HeldCompletions& of_process();

  std::uint64_t hold(Held held);
  /// Calls `use` with what is held; false: nothing is held under the number. One call at a time for a number.
  bool with(std::uint64_t number, const std::function<void(Held&)>& use);
  /// Takes it out and calls `use`; false: nothing is held under the number.
  bool take(std::uint64_t number, const std::function<void(Held&)>& use);
  /// Lets all go that belong to `owner`.
  void drop(const void* owner);

 private:
  /// Threads of plugins answer different jobs without waiting for each other.
  static constexpr std::size_t kShards = 16;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, Held> held;  ///< under mutex
  };

  Shard& shard_of(std::uint64_t number) { return shards_[number % kShards]; }

  std::atomic<std::uint64_t> last_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace lanemq::worker
