// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lanemq::http {

/// A thread beside the loop, for work that would hold the loop up. Callers bound the work that waits: each
/// request has a few pieces at most.
class SideThread {
 public:
  using Post = std::function<void(std::function<void()>)>;

  /// `post`: runs something on the loop's thread; outlives this.
  explicit SideThread(Post post);
  /// Waits for the present work; drops what has not begun.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  /// Runs `work` here, in the order of the calls, then `then` on the loop's thread, where both are destroyed.
  /// `work` must not throw. From the loop's thread.
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

}  // namespace lanemq::http
