// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "broker/core/budgets/shared/slice.hpp"
#include "broker/io/bank/bank_rows.hpp"
#include "broker/io/base/transport_stats.hpp"

namespace lanemq::io {

/// The bank's answer to a draw.
struct BankAnswer {
  std::size_t budget = 0;              ///< as of its DrawWanted
  std::optional<core::Drawn> drawn{};  ///< none: the outcome is unknown, so the draw is not used
};

/// Carries draws to the bank, one after the other, on a thread of its own: the loop never waits for a
/// database. Each budget has one draw under way at most, so that no more wait here than there are budgets.
///
/// Looks at the bank before the first draw, and while there are none: it is known to be away before jobs wait
/// for it.
class BankDesk {
 public:
  /// The pauses between looks, while there are no draws.
  static constexpr std::chrono::seconds kLookEvery{10}, kLookEveryAway{1};

  /// So long it is told that another broker draws for this shard, or that a bank has lost draws, which shows
  /// now and then.
  static constexpr std::chrono::seconds kToldFor{10};

  /// Throws std::runtime_error where no descriptors are left.
  explicit BankDesk(std::unique_ptr<BankRows> rows);
  /// Waits for the draw under way: a few seconds at most.
  ~BankDesk();
  BankDesk(const BankDesk&) = delete;
  BankDesk& operator=(const BankDesk&) = delete;

  // For the loop's thread:
  void draw(std::vector<core::DrawWanted> draws);
  /// Appends the answers that have come; clears the descriptor. False: nothing has changed since the last
  /// call.
  bool take(std::vector<BankAnswer>& answers);
  /// Readable while there are answers, or a look has ended.
  int descriptor() const { return wake_; }
  BankFigures figures() const;
  std::string name() const { return rows_->name(); }

 private:
  void run();
  void look(std::unique_lock<std::mutex>& lock);
  void wake();
  BankAnswer ask(const core::DrawWanted& wanted);

  std::unique_ptr<BankRows> rows_;
  int wake_;
  mutable std::mutex mutex_;  // guards the seven below
  std::condition_variable asked_;
  std::deque<core::DrawWanted> draws_;
  std::vector<BankAnswer> answers_;
  BankFigures figures_;
  std::chrono::steady_clock::time_point told_until_{};
  bool looked_ = false;  // what is known of the bank comes from a look
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace lanemq::io
