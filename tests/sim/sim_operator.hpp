// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/world.hpp"

namespace lanemq::sim {

/// An operator: runs dead jobs again, or has them forgotten.
class SimOperator {
 public:
  explicit SimOperator(Stage& stage);

 private:
  void think();
  void act();
  void look_at_dead();

  Stage& stage_;
};

}  // namespace lanemq::sim
