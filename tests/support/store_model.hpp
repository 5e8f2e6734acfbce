// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "broker/core/broker.hpp"
#include "broker/core/desks/restorer.hpp"

namespace lanemq {

/// What a durable store holds, as maps; for tests of what the core writes and reads back. Strict: a write
/// that does not fit what is there throws std::logic_error. A copy is what was committed at its time.
class StoreModel {
 public:
  struct Job {
    std::string state, record, body;
    bool operator==(const Job&) const = default;
  };
  struct Result {
    std::string record, body;
    bool operator==(const Result&) const = default;
  };
  /// Bodies above this are left in the store when it is read.
  static constexpr std::size_t kBodyReadMax = 1024;

  void apply(const core::Writes& writes);
  /// Tells a new broker all of it, as an adapter does, and restored(). Throws std::logic_error where it
  /// cannot read something.
  core::Restorer::Restored restore(core::Broker& broker, core::TimePoint now,
                                   core::Duration clock_set = {}) const;
  std::optional<Blob> body(std::uint64_t number) const;
  /// What a broker hears that asks for a result. A view of the model.
  core::ResultRead result(std::uint64_t number) const;

  const std::map<std::uint64_t, Job>& jobs() const { return jobs_; }
  const std::map<std::uint64_t, Result>& results() const { return results_; }
  const std::map<std::string, std::string>& notes() const { return notes_; }

 private:
  std::map<std::uint64_t, Job> jobs_;
  std::map<std::uint64_t, Result> results_;
  std::map<std::string, std::string> notes_;
};

}  // namespace lanemq
