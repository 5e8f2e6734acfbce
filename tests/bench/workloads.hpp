// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "tests/bench/rig.hpp"

namespace lanemq::bench {

/// What a figure is held against.
struct Goal {
  enum class Of { none, ratio, figure } of = Of::none;  ///< lanemq over raw, or lanemq's own figure
  enum class Bound { at_least, at_most } bound = Bound::at_least;
  double value = 0;

  bool met_by(double measured) const {
    return bound == Bound::at_least ? measured >= value : measured <= value;
  }
};

struct Figure {
  std::string_view name;
  std::string_view unit;
  int decimals = 0;
  Goal goal = {};
};

struct Workload {
  std::string_view name;
  std::vector<Figure> figures;
  /// Measures one run on a rig where nothing is started yet: one value for each figure, in their order.
  std::vector<double> (*run)(Rig& rig);
};

/// All of them, in the order in which they run.
const std::vector<Workload>& workloads();

}  // namespace lanemq::bench
