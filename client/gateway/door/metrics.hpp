// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lanemq/client.hpp>

#include "client/gateway/apis/http_words.hpp"
#include "common/http/server/server.hpp"
#include "common/metrics/durations.hpp"
#include "common/metrics/families.hpp"

namespace lanemq::gateway {

struct BatchFigures;

inline constexpr std::array<double, 14> kRequestBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                       0.25,  0.5,    1,     2.5,  10,    60,   600};

/// Counters since the gateway's start. Belongs to the loop's thread.
struct Metrics {
  std::uint64_t jobs = 0;          ///< submitted, fall-backs included
  std::uint64_t streams_open = 0;  ///< now
  std::uint64_t chunks = 0;        ///< of streams, sent to callers
  std::uint64_t keep_alives = 0;
  std::uint64_t fall_backs = 0;
  std::uint64_t joined = 0;     ///< requests that joined a running job
  std::uint64_t replayed = 0;   ///< requests answered by their Idempotency-Key
  std::uint64_t cancelled = 0;  ///< jobs whose callers hung up
  std::uint64_t caller_limits_hit = 0;
  std::uint64_t spans_sent = 0, spans_lost = 0;
  std::uint64_t unserved = 0;  ///< refused since no worker served them

  std::map<std::string, std::uint64_t, std::less<>>
      refused{};  ///< requests by the reason of their refusal; a fixed set of reasons

  /// Notes how long a request took until its answer.
  void took(std::chrono::nanoseconds time) { durations_.add(time); }
  /// Shards, and whether a broker of each answers; the name is empty where there are no shards.
  using Connected = std::vector<std::pair<std::string, bool>>;
  /// All metrics in Prometheus' text format. `batches`: null where there are none.
  std::string text(const ServerCounters& server, const ClientCounters& client, std::size_t pending,
                   const BatchFigures* batches, const Connected& connected) const;

 private:
  void add_requests(const ServerCounters& server, metrics::Families& families) const;

  metrics::Durations<kRequestBounds> durations_;
};

}  // namespace lanemq::gateway
