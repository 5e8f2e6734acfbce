// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/quota.hpp"

namespace lanemq::core {

/// A model whose jobs wait apart, since an upstream refused it, or its calls failed, while others were
/// answered.
struct ModelApart {
  /// After a pause of all models, and at each probe, a refused model goes this much later: the answer to
  /// another model tells the two apart.
  static constexpr Duration kOthersFirst = std::chrono::milliseconds(100);
  /// After the model's own pause the second job goes kFirstHold after the first one, the third after half
  /// that time, and so on, until a hold would be shorter than kLeastHold; or as soon as a call is answered.
  static constexpr Duration kFirstHold = std::chrono::seconds(1), kLeastHold = kFirstHold / 8;

  /// A pause of a budget, or of an account of its keys: places as of Budgets::Part.
  struct Pause {
    std::size_t budget = 0, account = 0;
    TimePoint until{};
    TimePoint began{};       ///< or was last lengthened
    Probe probe{};           ///< while it lasts
    TimePoint held_until{};  ///< after `until`: set by the last job that went
    Duration hold{};         ///< by the next one; 0: jobs go as they come

    /// When a job may go; no time after `now`: it may now.
    TimePoint opens_at(TimePoint now) const { return now < until ? std::min(until, probe.at) : held_until; }
    /// Whether the pause may be over any moment: a job is under way that finds out, or the pause has ended
    /// and the first jobs go.
    bool is_tried(TimePoint now) const { return now >= until || probe.tried_since != kNever; }
    /// Requires: `to` is later than `until`.
    void lengthen(TimePoint to, TimePoint now);
    /// A job goes. Requires: it may.
    void take(TimePoint now);
    /// A call that was handed over at that time was answered. True if jobs waited for that.
    bool answered(TimePoint taken_at, TimePoint now);
    /// Ends it. True if it still was.
    bool lift(TimePoint now);
  };

  std::string name, client;  ///< the model; and the client whose job was refused first
  std::vector<Pause> pauses;

  /// Null: there was none.
  Pause* pause_of(std::size_t budget, std::size_t account);
  const Pause* pause_of(std::size_t budget, std::size_t account) const {
    return const_cast<ModelApart*>(this)->pause_of(budget, account);
  }
  bool is_over(TimePoint now) const;
};

}  // namespace lanemq::core
