// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/base/side_thread.hpp"

#include <memory>
#include <utility>

namespace lanemq::http {

SideThread::SideThread(Post post) : post_(std::move(post)), thread_([this] { serve(); }) {}

SideThread::~SideThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void SideThread::run(std::function<void()> work, std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({.work = std::move(work), .then = std::move(then)});
  }
  changed_.notify_one();
}

void SideThread::serve() {
  while (true) {
    std::shared_ptr<Task> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::make_shared<Task>(std::move(tasks_.front()));
      tasks_.pop_front();
    }
    task->work();
    Task* const done = task.get();
    post_([task = std::move(task), done] { done->then(); });
  }
}

}  // namespace lanemq::http
