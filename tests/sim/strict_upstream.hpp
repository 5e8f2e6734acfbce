// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/base/amounts.hpp"
#include "broker/core/base/options.hpp"
#include "tests/sim/counting_window.hpp"

namespace lanemq::sim {

/// What an upstream counts of a budget: each call when it arrives, whatever becomes of whoever made it, in
/// each window, and how many there are at once; of all keys together, and of each key's account. Throws
/// Violation at the first call that it has to refuse. Shares no rule with the broker.
class StrictUpstream {
 public:
  explicit StrictUpstream(const core::BudgetOptions& budget);
  /// The account for which it counts calls with the key.
  static std::string account_of(const core::KeyOptions& key);

  /// A call of an account (empty: without a key) uses so much. Calls come by time, the earliest first.
  void take(const core::Amounts& used, const std::string& account, core::TimePoint now);
  /// It runs until end().
  void begin(const std::string& account, core::TimePoint now);
  void end(const std::string& account, core::TimePoint now);
  /// Others use a request of the account. They are never refused.
  void use_as_others(core::TimePoint now);

  /// What it says of its limits in an answer.
  wire::UpstreamLimits said(core::TimePoint now);
  /// The greatest part of a limit that was used from then to then, and of the places up to the last call.
  double use(core::TimePoint from, core::TimePoint to) const;
  double places_use() const;
  std::string describe() const;

 private:
  struct Limit {
    CountingWindow window;
    core::Resource resource;
    std::string account;  ///< whose calls it counts; empty: all
    std::vector<Counted> counted{};
    std::size_t first = 0;       ///< of those that are in the window
    std::int64_t in_window = 0;  ///< the sum of these
    std::deque<core::TimePoint> foreign{};

    std::int64_t of_others(core::TimePoint now);
    void drop(core::TimePoint now);
  };
  /// Calls at once.
  struct Places {
    std::string account;  ///< as above
    std::int64_t most = 0, running = 0;
    core::Duration busy{};  ///< of all places together, up to `at`
    core::TimePoint at{};

    std::int64_t change(std::int64_t by, core::TimePoint now);
  };

  void allow(const std::string& account, const std::vector<core::RateOptions>& rates,
             std::int64_t concurrency);

  std::vector<Limit> limits_;
  std::vector<Places> places_;
};

}  // namespace lanemq::sim
