// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <lanemq/result.hpp>

#include "broker/core/moves/move_plan.hpp"
#include "broker/io/base/options.hpp"

namespace lanemq::io {

/// The scope of a move, its source and its target.
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

/// The rows that have moved.
struct MoveSummary {
  core::MovePlan::Counts counts;
  bool went_on = false;  ///< an earlier try had decided it already
};

/// Moves jobs, results and groups of the scope from one store to another, of any kinds. Both are opened as a
/// broker would, so no broker may have them.
///
/// Each moved row counts in one store or in the other, whenever the process ends, as MoveNote describes.
/// Running the same move again resumes it: before the decision, with the source's rows of that time; after
/// the decision, with the rows decided. Where stores note their shard, no job moves to a store whose shard
/// does not own it by the rules. A scope that matches nothing in either store is an error (bad_request): its
/// name is misspelt. An error (conflict) comes before the decision; then neither store has changed, except
/// that rows left in the target by an earlier try are erased.
///
/// Holds 32 MiB of rows on their way, what MovePlan holds, and state and record of jobs and results with
/// large bodies.
Result<MoveSummary> move_rows(const MoveOrder& order);

}  // namespace lanemq::io
