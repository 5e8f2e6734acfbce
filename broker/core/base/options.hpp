// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/limits.hpp>
#include <lanemq/result.hpp>
#include <lanemq/shards.hpp>

#include "broker/core/base/amounts.hpp"
#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// One priority lane. Lanes are listed highest first.
struct LaneOptions {
  std::string name;
  Duration timeout = std::chrono::seconds(300);  ///< of a job that states none, queueing included
  std::size_t depth_max = 20000;                 ///< queued and delayed jobs
  std::size_t bytes_max = 0;       ///< bytes of queued and delayed jobs; 0: only the total bounds them
  std::size_t reserved_slots = 0;  ///< places of each service held for this lane and those above
  bool is_default = false;         ///< takes jobs that name no lane
  int reserve = 0;                 ///< thousandths of each budget's burst that lower lanes leave
  int share_min = 0;               ///< thousandths of what a service hands over that this lane gets at least
  /// After a worker's first progress: how long its job may be without progress and chunk; 0: for ever.
  Duration stall_timeout{};
  Duration boost_after{};  ///< a job that waited so long is treated as one of the next higher lane; 0: never
  bool durable = true;     ///< its jobs outlive the broker, where the store does

  bool operator==(const LaneOptions&) const = default;
};

/// How an upstream counts.
enum class WindowKind : std::uint8_t {
  sliding,    ///< any window of a period: the limit holds in every one
  bucket,     ///< a bucket that refills continuously
  automatic,  ///< as sliding until its words show a bucket; of a budget that shards share as sliding
};
/// As in the configuration.
std::string_view name_of(WindowKind window);

/// One limit of a budget: so much of a resource in a period.
struct RateOptions {
  std::string name;  ///< as configured: requests_per_minute, ...
  std::int64_t limit = 0;
  Duration period{};
  std::int64_t capacity = 0;  ///< the burst; 0: a tenth of the limit, at least 1
  Resource resource = Resource::requests;
  bool open = false;  ///< nobody knows the limit: what the upstream states or shows counts, which is lower
  std::int64_t guess = 0;  ///< of an open one: what was sent in the last period before it began to count

  bool operator==(const RateOptions&) const = default;
};

/// A kind of limit: `requests_per_minute`, `input_tokens_per_day`, ...
struct RateKind {
  std::string_view name;
  Resource resource;
  Duration period;
};
/// All kinds there are.
std::span<const RateKind> rate_kinds();
/// The kind of that name, null when there is none.
const RateKind* rate_kind(std::string_view name);

/// The units that an upstream counts as the output of a call.
enum class OutputCount : std::uint8_t {
  used,   ///< the answer's tokens
  bound,  ///< the request's max_tokens, if it states them
};

/// One of an upstream's keys. The secret is the workers'; the broker knows the name.
struct KeyOptions {
  static constexpr std::uint32_t kWeightMax = 100;

  std::string name;
  std::string quota_group{};         ///< keys of one account upstream share its limits; empty: one of its own
  std::uint32_t weight = 1;          ///< 1..kWeightMax: its share where keys have equal room
  std::vector<RateOptions> rates{};  ///< of the key alone, or of its group: then the same for the whole group
  std::int64_t concurrency = 0;      ///< likewise; 0: no limit
  bool draining = false;             ///< given to no job any more

  /// The name of the account whose limits it has: its group's, or its own.
  const std::string& account() const { return quota_group.empty() ? name : quota_group; }

  bool operator==(const KeyOptions&) const = default;
};

/// An upstream's limits, shared by all workers. Patterns are globs; an empty one matches everything.
struct BudgetOptions {
  std::string name;
  std::string service, model, client, lane;
  std::string tenant{};  ///< of a job's client; a client without tenant matches the empty pattern alone
  std::vector<RateOptions> rates;
  std::int64_t concurrency = 0;  ///< jobs at once; 0: no limit
  WindowKind window = WindowKind::automatic;
  OutputCount output = OutputCount::used;
  std::vector<KeyOptions> keys{};  ///< a job gets one of them; empty: workers have the only one
  bool per_shard = false;          ///< where it counts jobs of several shards: each has so much for itself
  /// Several shards share it by a bank (Bank). So many thousandths of each limit the bank grants nobody: each
  /// of `shared_by` shards has an equal part of these, whether the bank is there or not.
  bool shared = false;
  int offline_share = 0;
  std::size_t shared_by = 0;

  static constexpr int kOfflineShareMax = 500;  ///< so that the bank has something to grant

  bool operator==(const BudgetOptions&) const = default;
};

/// How one client, or each whose name matches a glob, shares with others. The client's own name wins over a
/// glob, and a longer glob over a shorter one.
struct ClientOptions {
  static constexpr std::uint32_t kWeightMax = 100;

  std::string name;               ///< or a glob
  std::uint32_t weight = 1;       ///< 1..kWeightMax: its share of what clients of one lane get
  std::size_t in_flight_max = 0;  ///< jobs at workers; 0: no bound
  std::size_t depth_max = 0;      ///< queued and delayed jobs; 0: only the lanes' bounds
  std::string lane_max{};         ///< the highest lane it may use; empty: any
  std::string tenant{};           ///< whose it is, with whose clients it shares; empty: it is its own
};

/// One of several owners side by side: what it takes, and where its brokers are. Patterns are globs.
struct ShardOptions {
  std::string name;
  std::vector<std::string> services{}, tenants{};  ///< of the jobs that it takes; empty: any
  std::vector<std::string> clients{}, workers{};   ///< endpoints, as clients and workers reach its brokers

  bool operator==(const ShardOptions&) const = default;
};

/// The core's options. Durations are relative; every bound has its name in the options table.
struct Options {
  std::vector<LaneOptions> lanes;
  std::vector<BudgetOptions> budgets;
  std::vector<ClientOptions> clients;
  /// Several owners side by side, in the order of their rules; none: this broker takes all. `shard`: the name
  /// of the one that this broker owns.
  std::vector<ShardOptions> shards{};
  std::string shard{};
  /// The epoch of this owner of the shard: later owners have a greater one, so that banks know who is
  /// deposed.
  std::uint64_t shard_epoch = 0;

  /// Thousandths of a lane's depth and bytes, and of memory_max, that only tenants, and clients without one,
  /// may fill that hold less than that themselves or have a depth_max. Of results_max and results_bytes_max:
  /// a client that holds as much makes room among its own results. 0: nothing is set apart.
  int client_share = 0;

  std::size_t services_max = 1024;       ///< distinct services that jobs name; and as many with workers
  std::size_t clients_idle_max = 10000;  ///< addresses remembered without a job
  std::size_t workers_max = 10000;
  std::size_t watchers_max = 256;      ///< who follows jobs at the clients' endpoint
  std::string webhook_service{};       ///< of the jobs that tell ends; empty: there are none
  std::string webhook_lane{};          ///< theirs; empty: the default lane
  std::size_t webhooks_max = 100'000;  ///< of them that wait; they count in no lane's depth_max
  // Receivers are away for hours: the pauses add up to a day at least, and to more than a day and a half on
  // average.
  int webhook_attempts_max = 24;
  Duration webhook_backoff_base = std::chrono::seconds(5);
  Duration webhook_backoff_max = std::chrono::hours(4);
  Duration webhook_timeout = std::chrono::hours(72);       ///< from the end that is told on
  std::size_t groups_max = 100'000;                        ///< groups of jobs, those that are over included
  std::size_t jobs_max = 4'000'000;                        ///< jobs of all states, kept results included
  std::size_t memory_max = std::size_t{4} << 30;           ///< bytes of all jobs and kept results
  std::size_t results_max = 2'000'000;                     ///< kept results
  std::size_t results_bytes_max = std::size_t{512} << 20;  ///< of them in memory
  std::size_t results_disk_max = std::size_t{4} << 30;     ///< of them in the store, about
  /// Bytes of a streamed answer that are kept for later readers; at least limits::stream_bytes_max.
  std::size_t stream_kept_bytes_max = std::size_t{1} << 20;
  Duration retain = std::chrono::hours(24);           ///< how long a result stays fetchable
  std::size_t gone_max = 1'000'000;                   ///< ids remembered whose results are no longer kept
  Duration dead_retain = std::chrono::hours(24 * 7);  ///< how long a dead job is kept
  /// Bounds of dead jobs, which make no way for new work: so they are also bounded by a quarter of jobs_max
  /// and of memory_max. With dead_max 0 none are kept.
  std::size_t dead_max = 10000, dead_bytes_max = std::size_t{64} << 20;
  std::size_t body_bytes_max = limits::body_bytes_max;

  Duration heartbeat = std::chrono::seconds(1);
  Duration worker_grace = std::chrono::milliseconds(500);  ///< for a worker to reconnect in
  Duration session_keep = std::chrono::minutes(1);         ///< for a worker that was taken for lost
  int attempts_max = 3;
  int crash_max = 2;
  Duration backoff_base = std::chrono::milliseconds(500);
  Duration backoff_max = std::chrono::seconds(30);
  bool breaker = true;  ///< services whose upstreams fail are left alone for a time
  /// Limits of upstreams are learnt that no budget counts.
  bool learn_limits = true;
  Duration drain_timeout = std::chrono::seconds(10);

  std::int64_t media_tokens = 1600;   ///< what an image, a sound or a file in a body is taken to cost
  std::int64_t output_default = 512;  ///< tokens of an answer, of a model nobody has seen

  bool store_durable = false;  ///< what is written outlives the broker; else nothing is
  /// Another broker may go on from the store while this one does not know yet that it has to end.
  bool store_shared = false;
  /// Where clients and workers find each broker that may own the store; at most limits::endpoints_max of
  /// each.
  std::vector<std::string> client_endpoints{}, worker_endpoints{};
  bool tells_waits = false;  ///< the outbox gets a Wait for each wait of a job with a trace
  std::int64_t wall_ms = 0;  ///< Unix time in ms at the core's time zero, as the clock of the start has it

  /// Unix time in ms, by the wall clock as read at the start.
  std::int64_t unix_ms(TimePoint at) const { return wall_ms + to_ms(at.time_since_epoch()); }
};

/// The shard map for clients, and the one for workers, which need no rules.
ShardMap shards_for_clients(const Options& options);
ShardMap shards_for_workers(const Options& options);

/// One setting of a lane or of a budget, as a text of the configuration.
struct OptionEdit {
  enum class Of : std::uint8_t { lane, budget };
  Of of;
  std::string_view name;     ///< of the lane or budget, which is there
  std::string_view key;      ///< of the budget's keys, whose limit it is; empty: the budget's own
  std::string_view setting;  ///< depth_max, requests_per_minute, ...
  std::string_view value;    ///< 500, 30s, ...
};
/// The options with one setting changed, by the rules of the configuration, or why it cannot be. The core
/// does not know how a configuration is written.
using OptionEditor = std::function<Result<Options>(const Options&, const OptionEdit&)>;

/// The default lanes: critical, high, normal, low, batch.
std::vector<LaneOptions> default_lanes();
Options default_options();

/// client_share sets no part apart that is smaller than this.
inline constexpr std::size_t kSharedJobsMin = 16, kSharedBytesMin = std::size_t{16} << 20;
/// How much of a bound client_share sets apart; 0 where that would be less than `least`.
std::size_t last_part(std::size_t bound, const Options& options, std::size_t least);

}  // namespace lanemq::core
