// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <lanemq/result.hpp>

#include "broker/core/moves/move_plan.hpp"
#include "broker/io/base/options.hpp"

namespace lanemq::io {

/// What goes from where to where.
struct MoveOrder {
  StoreOptions from, to;
  core::MoveScope scope;
  std::string what;          ///< the scope for people: `tenant "acme"`
  std::string command;       ///< that says the order again, for people
  std::size_t rows_max = 0;  ///< jobs and results that the target's broker may have (jobs_max)
  std::string shard{};       ///< whose store the source is said to be; empty: nobody says
  /// The shards that may have jobs of the scope by its rules; empty: there are no rules.
  std::vector<std::string> shards{};
};

/// What has gone.
struct MoveSummary {
  core::MovePlan::Counts counts;
  bool went_on = false;  ///< an earlier try had decided it already
};

/// Moves jobs, results and groups of the scope from one store to another, of any kinds. Both are opened as a
/// broker would, so no broker may have them.
///
/// What goes counts in one store or in the other, whatever ends the process: as MoveNote says. Said again
/// after such an end it goes on: before the move was decided anew, with what the source has by then, and
/// after that with what was decided. Where stores note whose they are, nothing goes to one whose jobs others
/// are by the rules. A scope of which neither store has anything is an error (bad_request): its name is
/// misspelt. An error (conflict) is from before that; then neither store has changed,
/// but for what an earlier try has left in the target, which is erased.
///
/// Holds 32 MiB of rows on their way, what MovePlan holds, and state and record of jobs and results with
/// large bodies.
Result<MoveSummary> move_rows(const MoveOrder& order);

}  // namespace lanemq::io
