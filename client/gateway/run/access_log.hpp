// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/door/access.hpp"
#include "common/http/server/base/loop.hpp"
#include "common/http/server/server.hpp"
#include "common/log/line_limit.hpp"

namespace lanemq::gateway {

/// The access log: a line for each request that is over, up to kLinesPerSecond. Belongs to the loop's thread.
class AccessLog {
 public:
  static constexpr std::uint64_t kLinesPerSecond = 1'000;

  /// `access` outlives it.
  explicit AccessLog(const Access& access) : access_(access) {}

  /// `trace`: the request's; empty: it has none.
  void note(const Answered& answered, std::string_view trace, Loop::TimePoint now);

 private:
  const Access& access_;
  log::LineLimit lines_{kLinesPerSecond};
};

}  // namespace lanemq::gateway
