// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lanemq::costs {

/// A way through the product whose instructions are counted: a row of tests/costs.toml.
///
/// All is done in one thread, and nothing is asked of the world: no socket, no file, no clock and no random
/// device that differ from run to run. So each run takes the same instructions.
struct Path {
  std::string name;  ///< of the row
  int times;         ///< operations that are counted, behind as many that are not, so that tables have grown
  /// Sets it up. Each call of what it returns is one operation.
  std::function<std::function<void()>()> make;
};

/// A round trip, a batch, a decision.
std::vector<Path> core_paths();
/// Each common message, written and read.
std::vector<Path> wire_paths();
/// Jobs that are kept in a store.
std::vector<Path> durable_paths();
/// A chat through the gateway: from the bytes of its request to those of its answer.
std::vector<Path> gateway_paths();
/// A chat through the worker: from its offer to its outcome.
std::vector<Path> worker_paths();

}  // namespace lanemq::costs
