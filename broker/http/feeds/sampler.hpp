// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/http/access/operator_link.hpp"
#include "common/http/server/base/loop.hpp"

namespace lanemq::admin {

/// The broker's statistics at one time, whole.
struct Sample {
  std::uint64_t number = 0;  ///< from 1, in the order of their times
  std::int64_t at_ms = 0;    ///< since 1970
  http::Loop::TimePoint at{};
  /// docs/protocol/operating.md, with the budgets and keys of all pages, and with what the verb `lanes` says
  /// of each lane; its `refused`, by code, is `refused_by` here.
  Json stats{};
};

/// Asks the loop for its statistics once a second, for all readers together. A sample has kPagesMax pages of
/// budgets, and of lanes. Belongs to the thread of `loop`.
class Sampler {
 public:
  using Take = std::function<void(const std::shared_ptr<const Sample>& sample)>;
  static constexpr std::chrono::milliseconds kEvery{1'000};

  Sampler(OperatorLink& link, http::Loop& loop);

  /// Calls `take` with each sample from now on.
  void on_sample(Take take) { takers_.push_back(std::move(take)); }
  void begin() { look(); }
  /// The last one; null: there is none yet.
  const std::shared_ptr<const Sample>& last() const { return last_; }
  /// How long ago the loop has answered last.
  std::chrono::milliseconds age() const;

 private:
  void look();
  void ask_statistics();
  void ask_lanes();
  void publish();

  OperatorLink& link_;
  http::Loop& loop_;
  std::unique_ptr<http::Loop::Timer> timer_;
  std::vector<Take> takers_;
  bool asking_ = false;
  Json growing_{};
  std::shared_ptr<const Sample> last_;
  std::uint64_t numbers_ = 0;
  const http::Loop::TimePoint began_;
};

}  // namespace lanemq::admin
