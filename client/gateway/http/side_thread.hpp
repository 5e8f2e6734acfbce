// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lanemq::gateway {

/// A thread beside the loop, for what would hold it up. How much waits for it is bounded by those who ask:
/// each request waits for at most a few things.
class SideThread {
 public:
  using Post = std::function<void(std::function<void()>)>;

  /// `post` has something done on the loop's thread, and lasts longer than this.
  explicit SideThread(Post post);
  /// Waits for what is being done; what has not begun is not.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  /// Does `work` here, in the order of the calls, and then `then` on the loop's thread, where both are let go
  /// of. `work` must not throw. From the loop's thread.
  void run(std::function<void()> work, std::function<void()> then);

 private:
  struct Task {
    std::function<void()> work, then;
  };
  void serve();

  const Post post_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lanemq::gateway
