// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/caller_ledger.hpp"
#include "tests/sim/world.hpp"

namespace lanemq::sim {

/// The gateways of a run, which share the limits of their callers' keys by `spend` as docs/protocol/client.md
/// says it. They take slices ahead, let calls through and say what these used. They die without a word and
/// come back as another session, change connections, repeat what they said, some of it late, and hear of
/// changed limits. All chance is their own: jobs beside them go as they would without.
class SimGateways {
 public:
  /// `ledger`: judges them and the broker; it outlives them.
  SimGateways(Stage& stage, CallerLedger& ledger, std::uint64_t seed);
  ~SimGateways();

  /// What they had has come back: a stranger who asks for all of each key is given that. Requires: it is a
  /// minute and a silent session's time since the run began to heal.
  void ask_for_all();

 private:
  struct Limits {
    std::int64_t requests = 0, tokens = 0, places = 0;  ///< 0: none
  };
  class Gateway;

  void draw_limits(Limits& limits);
  void start_trouble();
  void make_trouble();

  Stage& stage_;
  CallerLedger& ledger_;
  Random random_;
  std::vector<Limits> keys_;
  std::vector<std::unique_ptr<Gateway>> gateways_;
  std::uint64_t sessions_ = 0;
  // What this run's gateways are like.
  Duration arrive_max_{}, call_max_{}, trouble_max_{};
  std::int64_t slices_ = 1, tokens_max_ = 1;
  bool changes_ = false, repeats_ = false;
};

}  // namespace lanemq::sim
