// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <lanemq/result.hpp>

#include "broker/core/budgets/shared/slice.hpp"

namespace lanemq::io {

/// Where the banks of shared budgets keep their rows: one place that all shards reach. One thread uses it.
class BankRows {
 public:
  virtual ~BankRows() = default;

  /// Computes a row's new content. `row`: as it is, empty where there is none yet. `clock`: the place's. An
  /// error leaves the row as it is.
  using Change = std::function<Result<std::string>(std::string_view row, const core::BankClock& clock)>;

  /// Changes the budget's row, which nobody else reads or writes meanwhile. An error says that it was not
  /// changed, or that nobody knows. The call may last as long as the place does not answer, a few seconds at
  /// most.
  virtual Result<void> change(const std::string& budget, const Change& change) = 0;
  /// Whether rows could be changed now: connects where there is no connection, and makes what it lacks. May
  /// last as long as change().
  virtual Result<void> look() = 0;
  /// For people, without secrets.
  virtual std::string name() const = 0;
};

/// Opens the place that `specification` names, postgres:CONNINFO, with the rows in one of its schemas. Does
/// not connect yet. An error (bad_request) tells what is wrong with the specification.
Result<std::unique_ptr<BankRows>> open_bank(const std::string& specification, const std::string& schema);

/// Refuses (bad_request) what draws would be refused for: its place, or the rights of its role. Changes
/// nothing. Returns for people what could not be looked at, since no database was reached; empty: nothing.
Result<std::string> check_bank(const std::string& specification, const std::string& schema);

}  // namespace lanemq::io
