// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "broker/core/base/options.hpp"
#include "tests/sim/random.hpp"

namespace lanemq::sim {

/// What one run is like. Every seed draws its own mixture and leaves some things out altogether, so that runs
/// differ in kind and not only in detail (Groce et al., "Swarm Testing", 2012).
struct Swarm {
  core::Options options;

  std::vector<std::string> services, models, names;
  int clients = 1, workers = 1;
  std::size_t worker_capacity_max = 1;

  core::Duration delay_min{}, delay_max{};  ///< of a link, one way
  core::Duration loop_lag{};                ///< from a message's arrival to the turn that reads it, at most
  core::Duration think_min{}, think_max{};  ///< between two requests of a client
  core::Duration work_min{}, work_max{};    ///< a worker needs for a job
  core::Duration trouble_min{}, trouble_max{};  ///< between two faults
  int body_bytes_max = 8;
  std::size_t pending_max = 50;  ///< jobs that a client waits for

  // What jobs cost, where anything counts tokens.
  bool states_costs = false;
  bool states_bounds = false;  ///< of answers in their bodies, in place of a stated output
  std::int64_t input_max = 0, output_max = 0;
  int usages = 0,
      misestimates = 0;  ///< per mille of attempts that say what they used, and of those that differ

  // Weights of what a client does besides new submits, in per mille of its requests.
  int duplicates = 0, conflicts = 0, cancels = 0, queries = 0, unnamed = 0, nonsense = 0;
  bool short_timeouts = false, forgetful = false;
  int delays = 0;                     ///< per mille of jobs that are to wait before they are queued
  core::Duration submit_delay_max{};  ///< for so long at most
  int durables = 0;                   ///< per mille of jobs that say whether they are to be kept on disk
  int orphans = 0;  ///< per mille of jobs that are to be cancelled when their client is gone

  int streams = 0;            ///< per mille of jobs that ask for a streamed answer
  int stream_chunks_max = 0;  ///< of one answer
  int chunk_bytes_max = 0;
  core::Duration chunk_pause_max{};  ///< between two of them
  int silent_readers = 0;            ///< per mille of readers that never say what they have taken
  core::Duration seen_after_max{};   ///< when the others do

  int said_limits = 0;  ///< per mille of attempts whose upstream says what it allows in a minute

  // Weights of how jobs end, in per mille; the rest succeed.
  int retries = 0, limited = 0, permanents = 0, released = 0;
  bool keys_are_refused = true;  ///< some of the permanent ones are about the account

  /// What the upstreams are like that workers call.
  struct Upstream {
    /// How what they allow compares with what is configured.
    enum class Fit : std::uint8_t {
      matches,
      wider,    ///< they allow more
      tighter,  ///< they allow less, and refuse
      shared,   ///< somebody else uses the accounts
    };
    /// What they say of their limits, and of the time that a refusal holds.
    enum class Says : std::uint8_t { nothing, truth, late, absurd };
    Fit fit = Fit::matches;
    int fit_percent = 100;
    Says retry_after = Says::truth, headers = Says::nothing;
    bool says_remaining = false;
    int absurd_usages = 0;  ///< per mille of attempts that say so
    int dead_keys = 0;      ///< per mille of keys that are refused from some time on
  };
  Upstream upstream;
  std::string failing_model;     ///< whose calls fail for so long, after as long of health and before
  core::Duration failing_for{};  ///< as long again; 0: none does
  int free_jobs = 0;             ///< per mille of jobs that say that they cost nothing
  bool limit_changes = false;    ///< the configuration is read again with limits and keys that come and go
  core::Duration stand_still_max{};  ///< of a broker that is stopped now and then; 0: none is

  // What few seeds have, drawn apart from all else.
  int large_texts = 0;  ///< per mille of jobs whose meta, trace and x- fields are as large as a header
  std::size_t envelope_bytes_max = 2;               ///< in front of what comes from REQ sockets
  core::Duration retain_max{};                      ///< some jobs are kept for so long; 0: none asks for that
  core::Duration retry_after_max = kRetryAfterMax;  ///< that upstreams say
  int words = 0;  ///< per mille of calls whose workers say how far they are, in lanes with a stall_timeout
  int hangs = 0;  ///< per mille of these that fall silent and end only when they are told to
  core::Duration word_pause_max{};  ///< between two words
  bool batches = false;             ///< every job is one of a batch, which is a group
  bool notifies = false;            ///< of batches: every end is told, of every other batch that of each job
  int groups = 0;                   ///< per mille of jobs that are of a group
  bool returns_late =
      false;              ///< upstreams fail behind a restart, and a worker comes back when they may be tried
  bool gateways = false;  ///< some share the limits of their callers' keys
  int client_names = 0, service_names = 0;  ///< besides those that there are; nobody serves these

  /// What an upstream says that is longer is probed, and the model apart for which it is said.
  static constexpr core::Duration kRetryAfterMax = std::chrono::minutes(1);

  // Which faults there are.
  bool crashes = false, stalls = false, reconnects = false, leaves = false, vanishing_clients = false;
  bool restarts = false;               ///< of the broker, which forgets everything
  int lies = 0;                        ///< per mille of what workers say
  bool tells_unreachable = false;      ///< the transport notices when it sends to nobody
  core::Duration outage{};             ///< of every upstream, after twice as long of health; 0: none
  bool outages_refuse = false;         ///< there is no connection at all then
  bool redrives = false;               ///< an operator runs dead jobs again, and forgets some
  bool pauses = false, moves = false;  ///< or pauses and resumes, or moves jobs to other lanes
  bool lane_settings = true;           ///< lanes too, where settings are changed
  bool settings = false, drained_workers = false;  ///< or changes limits and lanes, or drains workers
  core::Duration operator_max{};                   ///< between two things that an operator does
  bool drains = false;                             ///< the run ends with a drain instead of in peace
};

Swarm draw_swarm(Random& random);
/// What few seeds have besides. `follows`: somebody knows what the broker decides, and has to be able to.
void draw_rarities(Random& random, Swarm& swarm, bool follows);
/// Workers that say how far their jobs are, in few seeds; drawn behind all else.
void draw_words(Random& random, Swarm& swarm);
/// Makes some clients a tenant's, in few seeds; drawn behind all else.
void draw_tenants(Random& random, Swarm& swarm);
/// Gives budgets pools of keys.
void draw_keys(Random& random, core::Options& options);
/// Other limits and keys than these, which the configuration may say just as well; budgets stay those that
/// they are.
core::Options draw_other_limits(Random& random, const core::Options& options);
/// In a few lines, for whoever reads a trace.
std::string describe(const Swarm& swarm);
std::string describe_limits(const core::Options& options);

}  // namespace lanemq::sim
