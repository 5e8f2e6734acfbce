// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace lanemq::http {

/// The thread that does all of a server's work that is not large; and its clock.
class Loop {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Runs something once, unless it is destroyed or cancelled before. Belongs to the loop's thread.
  class Timer {
   public:
    Timer() = default;
    virtual ~Timer() = default;
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    /// Sets the time; the `then` of an earlier call is dropped.
    virtual void after(std::chrono::milliseconds pause, std::function<void()> then) = 0;
    virtual void cancel() = 0;
  };

  /// Watches a descriptor while it lives. Belongs to the loop's thread.
  class Watch {
   public:
    Watch() = default;
    virtual ~Watch() = default;
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
  };

  Loop() = default;
  virtual ~Loop() = default;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs `work` on the loop's thread, in the order of the calls, never inside this call. Thread-safe.
  virtual void post(std::function<void()> work) = 0;
  virtual std::unique_ptr<Timer> timer() = 0;
  /// Calls `readable` as long as `fd` is readable. The caller owns the descriptor, which outlives the watch.
  virtual std::unique_ptr<Watch> watch(int fd, std::function<void()> readable) = 0;
  /// The threads beside the loop: for large texts, which need CPU; for pieces of files, which wait for a
  /// disk; and for whole large files, which take seconds.
  enum class Side : unsigned char { texts, disk, files };
  static constexpr std::size_t kSides = 3;
  /// Runs `work` on that side's thread, one after the other, then `then` on the loop's; both are destroyed on
  /// the loop's thread, and not called once the loop has ended. `work` must not throw. From the loop's
  /// thread.
  virtual void aside(Side side, std::function<void()> work, std::function<void()> then) = 0;
  virtual TimePoint now() const = 0;
};

}  // namespace lanemq::http
