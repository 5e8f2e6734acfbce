// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include <lanemq/worker.hpp>

#include "common/service/commands.hpp"

namespace lanemq::worker {

/// Takes commands on a thread of its own: they stop the worker while there is one, whatever else the program
/// waits for.
class Obedience {
 public:
  struct Told {
    std::function<void()> stop;            ///< before it stops a worker
    std::function<void()> without_worker;  ///< in place of that, where there is none
  };

  /// `commands` outlives it. The functions are called on its thread. Throws std::runtime_error where no
  /// descriptors are left.
  Obedience(service::Commands& commands, Told told);
  ~Obedience();
  Obedience(const Obedience&) = delete;
  Obedience& operator=(const Obedience&) = delete;

  /// Who obeys from now on, and what a reload is; null: nobody.
  void obey(Worker* worker, std::function<void()> reload);

 private:
  void run();
  void take(service::Command command);

  service::Commands& commands_;
  const Told told_;
  std::mutex mutex_;  // guards the three below
  Worker* worker_ = nullptr;
  std::function<void()> reload_;
  bool reload_is_due_ = false;
  const int end_;       ///< an eventfd: readable at the end
  std::thread thread_;  // last: it uses the other members
};

}  // namespace lanemq::worker
