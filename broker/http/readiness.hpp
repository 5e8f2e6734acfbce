// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "broker/http/access/operator_link.hpp"

namespace lanemq::admin {

/// The answer to a probe: whether it is good, and a line for each reason.
struct Verdict {
  bool good = true;
  std::string text;
};

/// The knowledge of a broker that waits for its store, or has just become its owner.
struct Candidacy {
  bool owns = false;                          ///< it is the owner, and loads its jobs
  std::string why{};                          ///< it serves nobody
  std::string instance{};                     ///< its own name
  std::string shard{};                        ///< that it owns or waits for; empty: there are none
  std::string owner{};                        ///< the owner's; empty: unknown
  std::int64_t epoch = 0;                     ///< of the store; 0: unknown
  std::chrono::milliseconds since_commit{0};  ///< of the owner, as far as this broker has seen
};

/// A loop that has not answered for so long does not go on.
inline constexpr std::chrono::milliseconds kSilenceMax{5'000};

/// Whether the loop goes on. `age`: how long ago it has answered.
Verdict health(std::chrono::milliseconds age);

/// Whether the broker takes work: the loop answers, it does not drain, and its store takes what is to be
/// kept. What else an operator should know is told and refuses nothing: other work goes on. `stats`: the last
/// statistics; null: there are none.
Verdict readiness(const Json* stats, std::chrono::milliseconds age);

/// The readiness of a broker that has no loop yet, which never is ready.
///
/// Both end with lines of `name: value` about this broker's part in a shared store: `role` (owner or
/// candidate), `instance`, `owner`, `epoch`, `since_commit_ms`, and `shard`. `lanemq cluster status` reads
/// these.
Verdict readiness(const Candidacy& candidacy);

}  // namespace lanemq::admin
