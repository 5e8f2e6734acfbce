// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/support/upstream/call_log.hpp"
#include "tests/support/upstream/draws.hpp"
#include "tests/support/upstream/exchange.hpp"
#include "tests/support/upstream/leaks.hpp"
#include "tests/support/upstream/limiter.hpp"
#include "tests/support/upstream/model_faults.hpp"
#include "tests/support/upstream/peak.hpp"
#include "tests/support/upstream/rate_refusal.hpp"
#include "tests/support/upstream/script.hpp"
#include "tests/support/upstream/stats.hpp"

namespace lanemq::upstream {

/// A key that calls may carry.
struct ApiKey {
  std::string name;    ///< In /stats, the log and the admin path.
  std::string secret;  ///< The bearer token, or the x-api-key.
};

struct UpstreamOptions {
  Quota quota{};  ///< Of each key.
  LatencyRange latency{};
  Duration token_gap{};  ///< Between the deltas of a stream.
  FaultRates faults{};
  Duration stall = std::chrono::seconds(30);
  std::uint64_t seed = 1;
  std::vector<ApiKey> keys{};  ///< Empty: any key, or none, is welcome, and all calls are one account.
  SdkHeaders sdk_headers = SdkHeaders::refused;
  Tongue speaks = Tongue::by_endpoint;
  Tells tells = Tells::all;
  Duration started_unix{};  ///< The wall clock at the start, since 1970.
};

/// One request on its way: what to answer, when, and what to do wrong about it.
struct Call {
  Reply reply{};
  /// From arrival to the first byte. A stall or a reset without a script is no answer at all: until the
  /// connection is closed or reset.
  Duration delay{};
  Fault fault = Fault::none;
  TimePoint arrived{};
  bool held = false;                   ///< No byte goes out before released().
  std::string model{};                 ///< By whose name it is released; empty: it never waits for that.
  bool releases = false;               ///< Others may go on now: see released().
  std::unique_ptr<Script> script{};    ///< How the body is sent; null: reply.body, as a whole.
  Duration stall{};                    ///< How long a script's silence lasts until the connection is closed.
  Limiter* limiter = nullptr;          ///< Under which it is under way until finish(); null: it is not.
  std::optional<CallRecord> record{};  ///< Present for paths that take work: only those are logged.
};

/// How a call ended, as the transport saw it.
enum class Ending {
  answered,  ///< All was done that Call asked for.
  hung_up,   ///< The client went away before; one that closes its sending side alone is taken for gone.
  cut,       ///< The double was stopped before.
};

/// The upstream double without its sockets: OpenAI's and Anthropic's APIs with strict limits and deliberate
/// faults.
///
/// What takes work (see api.hpp) is refused with 401, 400 or 413 before the limits are asked and with 429 by
/// them; none of these counts against the limits. What is accepted counts from its arrival on, whatever
/// becomes of it, with ModelRequest::charge() tokens that are never given back. GET /v1/models,
/// /v1/models/{id}, /healthz and /stats are free. Every reply to work tells the limits of its key as they
/// were at its arrival, in the words of UpstreamOptions::speaks, as far as `tells` lets it.
///
/// What a gateway must keep to itself is a violation, logged by name and refused with 400: a top-level
/// parameter that the API does not know, a model's name with `@`, header fields x-lanemq-* (but -job and
/// -attempt), x-priority and x-stainless-*.
///
/// Equal prompts get equal answers, byte for byte, from one double and from doubles with one seed that were
/// started in the same second.
///
/// POST /admin/keys/NAME says what becomes of a key: `{"dead":true}` has its calls answered 401 from then on,
/// `{"dead":"quota"}` 429 with `insufficient_quota`, `{"dead":false}` as usual again.
///
/// POST /admin/release, `{"model":"m+hold"}`, lets all calls for this model go on that were held or paused by
/// its name, and those to come are neither.
///
/// Pure: `now` and the seed come in. Not thread-safe. Each Call that receive() or receive_oversized()
/// returned must be handed to finish() exactly once.
class Upstream {
 public:
  using Log = std::function<void(const CallRecord&)>;

  /// `log` takes the record of each call for work as it ends.
  Upstream(const UpstreamOptions& options, TimePoint now, Log log);

  Call receive(const Request& request, TimePoint now);
  /// A request whose body is larger than `body_bytes_max` and was therefore not read; it is answered 413.
  Call receive_oversized(const Request& request, std::uint64_t body_bytes_max, TimePoint now);
  /// Bytes that are no HTTP/1.1 request; they are answered 400.
  Call receive_malformed(TimePoint now);
  /// Whether a call that is held, or whose script is paused, may go on.
  bool released(const Call& call) const { return call.model.empty() || released_.contains(call.model); }
  /// Counts and logs the end of a call, of whose body `sent` bytes went out.
  void finish(const Call& call, Ending ending, std::uint64_t sent, TimePoint now);

  void connection_opened();
  void connection_closed();
  void connection_refused();

  const Stats& stats() const { return stats_; }
  /// Of all keys together.
  const PeakMeter& peak() const { return peak_; }

  /// Jobs remembered to find duplicates among; later ones are not compared any more.
  static constexpr std::size_t kJobsRememberedMax = 1'000'000;
  /// Bodies remembered that asked for a fault of the first calls; later ones get that fault always.
  static constexpr std::size_t kBodiesRememberedMax = 1'000'000;
  /// Models that may be released.
  static constexpr std::size_t kReleasedMax = 10'000;

 private:
  enum class Death { none, revoked, spent };

  /// What belongs to one key; without keys, to all calls.
  struct Account {
    Account(ApiKey account_key, const UpstreamOptions& options, TimePoint started)
        : key(std::move(account_key)),
          limiter(options.quota, started, options.started_unix),
          peak(meter(options)) {}
    ApiKey key;
    Limiter limiter;
    PeakMeter peak;
    KeyStats stats{};
    Death death = Death::none;
  };

  /// A call for work, as far as it got.
  struct Work {
    const Api& api;
    const Request& request;
    Call& call;
    Account* account = nullptr;
  };

  static PeakMeter meter(const UpstreamOptions& options);
  void receive_work(Work& work);
  void refuse(Work& work, unsigned status, const ApiError& error);
  void check(Work& work);
  Reply set_key(std::string_view name, std::string_view body);
  Reply release(std::string_view body);
  Reply models(const Request& request, std::string_view id) const;
  void limit(Work& work, const ModelRequest& asked, const ModelFaults& faults);
  void refuse_by_limits(Work& work, const ModelRequest& asked, const Verdict& verdict);
  void accept(Work& work, const ModelRequest& asked, const ModelFaults& faults);
  void answer(Work& work, const ModelRequest& asked, const ModelFaults& faults);
  void refuse_as_asked(Work& work, const ModelFaults& faults);
  bool still_first(const Work& work, const ModelFaults& faults);
  void add_headers(Work& work);
  CallRecord begin_record(const Work& work) const;
  Account* account_of(const Request& request);
  std::string request_id() const;
  std::string stats_reply(TimePoint now);
  Duration unix_time(TimePoint now) const { return options_.started_unix + (now - started_); }
  std::int64_t created_s() const { return options_.started_unix / std::chrono::seconds(1); }

  UpstreamOptions options_;
  TimePoint started_;
  Log log_;
  std::vector<Account> accounts_;  ///< One a key, in their order; one without a name where there are none.
                                   ///< Never more once it is made: calls point into it.
  PeakMeter peak_;
  Stats stats_;
  std::unordered_set<std::uint64_t> jobs_seen_;
  std::unordered_set<std::string> released_;
  std::unordered_map<std::uint64_t, std::uint64_t> calls_of_body_;
};

}  // namespace lanemq::upstream
