// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <lanemq/messages.hpp>

#include "tests/sim/counting_window.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/swarm.hpp"

namespace lanemq::sim {

class Trace;

/// What a worker asks of an upstream for one attempt of a job. What it will use is settled when it begins.
struct UpstreamCall {
  std::uint64_t job = 0;
  std::int64_t attempt = 0;
  std::string service, model, client, lane, key;
  std::int64_t input_expected = 0, output_expected = 0;  ///< as the offer says; the output at most
  std::int64_t input_used = 0, output_used = 0;          ///< in truth
};

/// What the upstream says to that.
struct UpstreamVerdict {
  bool served = true;
  bool key_refused = false;  ///< for good: it is not the limits
  std::optional<core::Duration> retry_after;
  std::optional<wire::UpstreamLimits> limits;
};

/// The upstreams of a run. They see the calls that workers begin and nothing else of the broker: a call
/// counts from its beginning on, whatever becomes of the worker, its connection or the job. Each account
/// counts in windows of its own, by rules drawn by the seed, and refuses what is over.
///
/// Their judgement, where what is configured is what they allow (Swarm::upstream.fit) and no worker lies: at
/// no call does any window hold more than its limit, so that none ever has to be refused. A call counts in it
///
/// * when it arrived, but at most a hundredth of a period after the broker decided to hand it over: what
/// disks,
///   links and workers delay for longer is not the broker's to foresee;
/// * with what it used, but at most what it was expected to until the broker has acknowledged what it was
/// told
///   of it, and at most that from then on;
/// * in a bucket only where nothing is ever given back: late, that may be more than there was room for;
/// * from the beginning of the broker's memory on: a broker without a store that is started again knows
///   nothing, one with a store nothing of jobs that waited for no disk within a note of its death;
/// * against the limit that was configured when it was decided: what operators change and a configuration
/// says
///   anew counts from then on. A bucket whose limit is changed is full.
///
/// A key that the upstream refused is given to nobody once the broker has acknowledged that, for its first
/// rest at least or until the configuration is read again; but the word of a job that two keys refused is not
/// taken.
class UpstreamWorld {
 public:
  UpstreamWorld(const Swarm& swarm, Random& random, Trace* trace);

  // What workers do.
  UpstreamVerdict begin(const UpstreamCall& call, core::TimePoint now);

  // What the judgement has to know of the broker: what left it and came to it.
  void offered(const wire::JobOffer& offer, bool durable, core::TimePoint decided_at, core::TimePoint now);
  void told(wire::Lease lease, const std::optional<wire::Usage>& usage, bool key_refused,
            core::TimePoint now);
  void acknowledged(wire::Lease lease);
  /// Other limits and keys count from now on. `read_again`: the whole configuration, which forgives keys.
  void configured(const core::Options& options, bool read_again, core::TimePoint now);
  /// Everything up to `noted_at` is on disk; the rest the broker has forgotten.
  void broker_died(core::TimePoint noted_at, core::TimePoint now);
  /// The broker remembers nothing of what was before.
  void memory_is_void();

  std::size_t calls() const { return calls_.size(); }
  std::size_t refusals() const { return refusals_; }
  std::string describe() const;

 private:
  struct Call {
    UpstreamCall what;
    core::TimePoint decided_at{}, arrived_at{};
    bool durable = false;
    bool served = true;
    bool excused = false;  ///< the broker's memory of it is gone
    std::optional<wire::Usage> told;
    core::TimePoint told_at = core::kNever;
    bool known = false;  ///< what it was told was acknowledged
  };
  struct Limit {
    core::TimePoint since{};
    std::int64_t limit = 0, burst = 0;
  };
  /// One limit of one account.
  struct Rule {
    std::string budget, account, name;
    std::string service, model, client, lane;
    std::set<std::string> keys;  ///< empty: whatever the key
    core::Resource resource = core::Resource::requests;
    bool bound = false;  ///< of answers it counts what they were allowed
    CountingWindow window;
    std::vector<Limit> limits;  ///< judged by: as configured, over time
    core::TimePoint since{};    ///< what was decided up to then does not count
    bool fresh = false;         ///< `since` is when it was configured, not the beginning
    bool gone = false;
    std::int64_t job_max = 1;        ///< as large as a job may be
    std::vector<std::size_t> calls;  ///< by when they count where it is judged
    std::vector<Counted> arrived;    ///< all that the upstream counted, in its order

    bool matches(const UpstreamCall& call) const;
    std::int64_t amount(std::int64_t requests, std::int64_t input, std::int64_t output) const;
  };
  struct Offer {
    core::TimePoint decided_at{};
    bool durable = false, excused = false;
  };
  struct Account {
    std::string budget, name;
    std::vector<const core::KeyOptions*> keys;
  };

  void add_rules(const core::BudgetOptions& budget, core::TimePoint now, bool fresh);
  void add_rule(const core::BudgetOptions& budget, const std::string& account, std::set<std::string> keys,
                const core::RateOptions& rate, core::TimePoint now, bool fresh);
  static std::vector<Account> accounts_of(const core::BudgetOptions& budget);
  void fit(Rule& rule, const core::RateOptions& rate, core::WindowKind window);
  std::int64_t counted(const Rule& rule, const Call& call) const;
  std::int64_t judged(const Rule& rule, const Call& call, core::TimePoint decided_at) const;
  void add_others(core::TimePoint now);
  static core::TimePoint counts_at(const Rule& rule, const Call& call);
  void judge(const Rule& rule, std::size_t last) const;
  void judge_from(const Rule& rule, core::TimePoint from) const;
  void check_key(const wire::JobOffer& offer, core::TimePoint decided_at) const;
  UpstreamVerdict refuse(const Rule& rule, std::int64_t amount, core::TimePoint now);
  std::optional<wire::UpstreamLimits> say_limits(const UpstreamCall& call, core::TimePoint now);
  bool judges(const Rule& rule) const;

  const Swarm& swarm_;
  Random& random_;
  Trace* trace_;
  std::vector<Rule> rules_;
  std::vector<Call> calls_;
  std::map<std::pair<std::uint64_t, std::int64_t>, Offer> offers_;
  std::map<std::pair<std::uint64_t, std::int64_t>, std::size_t> call_of_;
  std::map<std::string, core::TimePoint> dies_at_;  // keys
  struct KeyTold {
    std::string key;
    core::TimePoint at;
  };
  std::map<std::pair<std::uint64_t, std::int64_t>, KeyTold> key_told_;
  core::TimePoint died_at_{};  // the broker, the last time
  std::map<std::string, std::vector<std::pair<std::string, core::TimePoint>>>
      refused_clients_;                                              // by key: whose jobs were, and when
  std::map<std::string, std::vector<core::TimePoint>> key_told_at_;  // by key: when it was said, in order
  std::map<std::uint64_t, std::string> client_of_;                   // of jobs that were handed over
  std::set<std::uint64_t> told_a_key_;                               // jobs that found a key refused
  core::TimePoint others_until_{}, read_again_at_{};
  std::map<std::string, wire::UpstreamLimits> said_before_;
  std::size_t refusals_ = 0;
};

}  // namespace lanemq::sim
