// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/world.hpp"

namespace lanemq::sim {

/// An operator: runs dead jobs again, or has them forgotten, pauses things for a while, moves jobs, drains
/// workers, changes settings and takes that back.
class SimOperator {
 public:
  explicit SimOperator(Stage& stage);
  /// Nothing stays paused, drained or changed.
  void settle();

 private:
  void think();
  void act();
  void look_at_dead();
  void pause_something();
  void resume(std::size_t which);
  void move_job();
  void drain_workers();
  void set(std::string_view verb, std::string_view name, std::string_view setting, std::string_view value);
  void set_lane();
  void set_limit();

  Stage& stage_;
  std::vector<std::pair<std::string, std::string>> paused_;  // what, and its name; drained workers too
};

}  // namespace lanemq::sim
