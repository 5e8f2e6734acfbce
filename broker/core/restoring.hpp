// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "broker/core/broker.hpp"
#include "broker/core/jobs/stored.hpp"

namespace lanemq::core {

/// What is needed while a store's content comes back, and no longer.
struct Broker::Restoring {
  StoredDecoder decoder;
  std::vector<Job*> jobs;
  /// What is left of dead jobs, until their results come.
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<DeadJob>> dead;
  std::map<std::string, std::vector<StoredEntry>> budgets;  ///< by name: of all notes of each
  std::uint64_t arrival = 0;
  Restored count;
  bool seeded = false;
};

}  // namespace lanemq::core
