// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/support/upstream/answers.hpp"
#include "tests/support/upstream/call_log.hpp"
#include "tests/support/upstream/draws.hpp"
#include "tests/support/upstream/limiter.hpp"
#include "tests/support/upstream/peak.hpp"

namespace lanemq::upstream {

/// A key that calls may carry.
struct ApiKey {
  std::string name;    ///< In /stats, the log and the admin path.
  std::string secret;  ///< The bearer token.
};

struct UpstreamOptions {
  Quota quota{};  ///< Of each key.
  LatencyRange latency{};
  FaultRates faults{};
  Duration stall = std::chrono::seconds(30);
  std::uint64_t seed = 1;
  std::vector<ApiKey> keys{};       ///< Empty: any key, or none, is welcome, and all calls are one account.
  std::int64_t started_unix_s = 0;  ///< The wall clock at the start, for the `created` fields.
};

/// A request as it arrived. The views must live through receive() only.
struct Request {
  std::string_view method;
  std::string_view target;  ///< The path, perhaps with a query, which is ignored.
  std::string_view authorization;
  std::string_view job;  ///< The header `x-lanemq-job`.
  std::string_view body;
};

struct Reply {
  unsigned status = 200;
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};  ///< Beside content-type and content-length.
};

/// One request on its way: what to answer, when, and what to do wrong about it.
struct Call {
  Reply reply{};
  Duration delay{};  ///< From arrival to the answer (for a stall: to the closing of the connection).
  Fault fault = Fault::none;
  TimePoint arrived{};
  std::optional<CallRecord>
      record{};  ///< Present for POST /v1/chat/completions alone: only those are logged.
};

/// How a call ended, as the transport saw it.
enum class Ending {
  answered,  ///< All was done that Call asked for.
  hung_up,   ///< The client went away before; one that closes its sending side alone is taken for gone.
  cut,       ///< The double was stopped before.
};

/// The upstream double without its sockets: an OpenAI-shaped service with strict limits and deliberate
/// faults.
///
/// POST /v1/chat/completions is refused with 401, 400 or 413 before the limits are asked and with 429 by
/// them; none of these counts against the limits. What is accepted counts from its arrival on, whatever
/// becomes of it, with ChatRequest::charge() tokens that are never given back. GET /v1/models, /healthz and
/// /stats are free. Every reply to a chat request tells the limits of its key in x-ratelimit-* headers, as
/// they were at its arrival.
///
/// POST /admin/keys/NAME says what becomes of a key: `{"dead":true}` has its calls answered 401 from then on,
/// `{"dead":"quota"}` 429 with `insufficient_quota`, `{"dead":false}` as usual again.
///
/// Pure: `now` and the seed come in. Not thread-safe. Each Call that receive() or receive_oversized()
/// returned must be handed to finish() exactly once.
class Upstream {
 public:
  using Log = std::function<void(const CallRecord&)>;

  /// `log` takes the record of each chat call as it ends.
  Upstream(const UpstreamOptions& options, TimePoint now, Log log);

  Call receive(const Request& request, TimePoint now);
  /// A request whose body is larger than `body_bytes_max` and was therefore not read; it is answered 413.
  Call receive_oversized(const Request& request, std::uint64_t body_bytes_max, TimePoint now);
  /// Bytes that are no HTTP/1.1 request; they are answered 400.
  Call receive_malformed(TimePoint now);
  /// Counts and logs the end of a call.
  void finish(const Call& call, Ending ending, TimePoint now);

  void connection_opened();
  void connection_closed();
  void connection_refused();

  const Stats& stats() const { return stats_; }
  /// Of all keys together.
  const PeakMeter& peak() const { return peak_; }

  /// Jobs remembered to find duplicates among; later ones are not compared any more.
  static constexpr std::size_t kJobsRememberedMax = 1'000'000;

 private:
  enum class Death { none, revoked, spent };

  /// What belongs to one key; without keys, to all calls.
  struct Account {
    Account(ApiKey account_key, const Quota& quota) : key(std::move(account_key)), limiter(quota) {}
    ApiKey key;
    Limiter limiter;
    PeakMeter peak{};
    KeyStats stats{};
    Death death = Death::none;
  };

  void receive_chat(Call& call, const Request& request);
  Reply set_key(std::string_view name, std::string_view body);
  void limit(Call& call, const ChatRequest& chat, Account& account);
  void accept(Call& call, const ChatRequest& chat, Account& account);
  void answer(Call& call, const ChatRequest& chat);
  void add_headers(Call& call, const Account* account) const;
  CallRecord begin_record(const Call& call, const Request& request, const Account* account) const;
  Account* account_of(std::string_view authorization);
  std::string stats_reply(TimePoint now) const;
  std::int64_t unix_seconds(TimePoint now) const;

  UpstreamOptions options_;
  TimePoint started_;
  Log log_;
  std::vector<Account> accounts_;  ///< One a key, in their order; one without a name where there are none.
  PeakMeter peak_;
  Stats stats_;
  std::unordered_set<std::uint64_t> jobs_seen_;
};

}  // namespace lanemq::upstream
