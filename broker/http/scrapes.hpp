// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "broker/http/access/operator_link.hpp"
#include "broker/http/metrics.hpp"
#include "common/http/server/base/loop.hpp"

namespace lanemq::admin {

/// Asks the loop for what the metrics need besides samples, when somebody asks for metrics. All who ask
/// meanwhile, or soon after, share the answer. Belongs to the thread of `loop`.
class Scrapes {
 public:
  /// Null: the loop did not answer.
  using Rows = std::shared_ptr<const MetricsRows>;
  using Then = std::function<void(const Rows& rows)>;
  /// An answer serves for so long.
  static constexpr std::chrono::milliseconds kFreshFor{1'000};

  /// `clients`: how many of them have series.
  Scrapes(OperatorLink& link, http::Loop& loop, std::size_t clients)
      : link_(link), loop_(loop), clients_(clients) {}

  /// Calls `then` once; may call it at once.
  void ask(Then then);

 private:
  using Fields = decltype(Question::fields);
  void ask_rows(const char* verb, Fields fields, std::vector<Json> MetricsRows::*rows,
                std::function<void()> then);
  void end(Rows rows);

  OperatorLink& link_;
  http::Loop& loop_;
  std::size_t clients_;
  std::vector<Then> waiting_;
  MetricsRows growing_;
  Rows last_;
  http::Loop::TimePoint fresh_until_{};
};

}  // namespace lanemq::admin
