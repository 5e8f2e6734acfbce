// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "broker/http/operator_link.hpp"
#include "common/http/server/loop.hpp"

namespace lanemq::admin {

/// Asks the loop for its services, which the metrics need besides samples, when somebody asks for metrics.
/// All who ask meanwhile, or soon after, share the answer. Belongs to the thread of `loop`.
class Scrapes {
 public:
  /// Rows of the verb `services`; null: the loop did not answer.
  using Rows = std::shared_ptr<const std::vector<Json>>;
  using Then = std::function<void(const Rows& services)>;
  /// An answer serves for so long.
  static constexpr std::chrono::milliseconds kFreshFor{1'000};

  Scrapes(OperatorLink& link, http::Loop& loop) : link_(link), loop_(loop) {}

  /// Calls `then` once; may call it at once.
  void ask(Then then);

 private:
  void end(Rows services);

  OperatorLink& link_;
  http::Loop& loop_;
  std::vector<Then> waiting_;
  std::vector<Json> growing_;
  Rows last_;
  http::Loop::TimePoint fresh_until_{};
};

}  // namespace lanemq::admin
