// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/messages.hpp>

#include "tests/sim/model_rate.hpp"

namespace lanemq::sim {

/// A promise that was broken; what() says which and about what.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void violated(const std::string& what);

// The auditor's own picture of a broker, kept as simply as can be: everything is searched, nothing is clever.
// It shares no code with broker/core but the options.

struct ModelJob;
struct ModelWorker;

/// Budgets that match a job, a bit each.
using BudgetMask = std::uint32_t;

/// What a job asks of its budgets: so much, and so many thousandths of their bursts left to the lanes above.
struct ModelClaim {
  core::Amounts amounts;
  int hold = 0;
  bool leaves_hold = false;  ///< that must be left also by what is more than the burst
};

/// The pause of one model, which waits apart; and what follows it: each of the first jobs holds the next one
/// back, for a second, and then for half as long each time.
struct ModelPause {
  TimePoint until{}, began{};
  TimePoint probe_at = core::kNever;  ///< as of a ModelBudget
  Duration probe_after{};
  const ModelJob* probe = nullptr;
  TimePoint held_until{};
  Duration hold{};

  TimePoint opens_at(TimePoint now) const { return now < until ? std::min(until, probe_at) : held_until; }
  /// Whether it may be over any moment.
  bool is_tried(TimePoint now) const { return now >= until || probe != nullptr; }
  void lengthen(TimePoint to, TimePoint now);
  void take(const ModelJob& job, TimePoint now);
  void answered(TimePoint called_at, TimePoint now);
};

/// What an upstream allows: a budget's own limits, or those of an account of its keys.
struct ModelBudget {
  core::BudgetOptions options;
  std::vector<ModelRate> rates;
  std::int64_t running = 0;
  std::int64_t at_once = 0;  ///< of `concurrency`, what the upstream has borne of late
  std::int64_t answers = 0;  ///< since `at_once` changed
  TimePoint overloaded_at{};
  TimePoint paused_until{}, paused_at{};
  /// A pause of more than a minute: when one job may find out whether it holds, and how long after it
  /// another.
  TimePoint probe_at = core::kNever;
  Duration probe_after{};
  const ModelJob* probe = nullptr;           ///< in this pause, the last job that finds out and is not over
  std::map<std::string, ModelPause> models;  ///< that it refused
  std::map<std::string, TimePoint> answered_at, refused_at;  ///< models, when last
  /// The job that it refused last, and what it has answered since it first refused that one and no other.
  /// The few jobs that the last refusals were of, by their serials, and how many had been answered by the
  /// first of each; and those that are refused whatever else is answered.
  std::map<std::uint64_t, int> refused_jobs;
  std::set<std::uint64_t> refused_alone;
  TimePoint refused_job_at{};
  int answered_since = 0;

  struct Key {
    std::string name;
    ModelBudget* account;
    bool draining;
  };
  std::vector<Key> keys;            ///< of a pool; those that are gone are draining
  std::list<ModelBudget> accounts;  ///< likewise kept

  static ModelBudget of(const core::BudgetOptions& options);
  /// The pool has these keys from now on.
  void read_keys(const std::vector<core::KeyOptions>& wanted, TimePoint now);
  /// Of what a job asks for, something is more than there ever is.
  bool never_has(const core::Amounts& amounts) const;
  bool leaves(const ModelClaim& claim) const;
  bool matches(const ModelJob& job, std::string_view lane) const;
  bool counts_tokens() const;
  bool full() const { return options.concurrency > 0 && running >= at_once; }
  /// Whether one job may go although its upstream asked to be left alone.
  bool may_probe(TimePoint now) const { return now < paused_until && now >= probe_at; }
  bool is_paused_by_refusals(std::size_t rate) const;
  /// Whether there is a limit that a pause is not about.
  bool counts_longer() const;
  /// A job goes; what the rates say counts only outside of a pause.
  void take(const ModelJob& job, int hold, TimePoint now);
  void call_over(const ModelJob& job);
  /// Whether its pause may be over any moment: a job finds out.
  bool is_probed(TimePoint now) const { return now < paused_until && probe != nullptr; }
  /// When it is over, or a job may find out whether it is, as far as that is known.
  TimePoint open_from(TimePoint now) const {
    return is_probed(now) ? TimePoint{} : std::min(paused_until, probe_at);
  }
  /// A call that was made at `called_at` was answered, or found the upstream overloaded.
  void answered(const std::string& model, TimePoint called_at, TimePoint now);
  /// Whether others were answered since it refused the model, so that what it says of the rest of a limit,
  /// where it refuses, is about that model.
  bool tells_apart(const std::string& model, TimePoint now) const;
  const ModelPause* pause_of(const std::string& model) const;
  /// Whether another one was refused, and what it answered since was long ago or of this one: so it means
  /// all.
  bool refuses_others(const std::string& model, TimePoint now) const;
  void overloaded(TimePoint called_at, TimePoint now);
  /// The upstream says what it allows in a minute.
  void learn(const wire::UpstreamLimits& said, TimePoint now);
  /// The upstream refused, and did not say what it allows.
  void cut(TimePoint now);
  /// Whether a model waits apart after a refusal, and whether alone.
  enum class Apart { no, with_all, alone };
  /// The upstream refused, and asks to be left alone until then; `cuts`: it did not say what it allows. The
  /// model may be empty. Requires: where there is one, it says that nothing is left of what all models share.
  Apart limited(const std::string& model, bool cuts, TimePoint until, TimePoint now);
  /// It refused the job: whether that is about this job alone, as it answers others.
  bool refuses_alone(const ModelJob& job, TimePoint now);
  void pause_all(TimePoint until, TimePoint now);
  /// An operator has other limits count from now on.
  /// Where limits change, what the upstream said of the old ones is forgotten.
  void configure(const core::BudgetOptions& changed, TimePoint now);
  /// Whether its upstream said or showed something that counts, and that an operator takes that back.
  bool is_lowered(TimePoint now);
  bool may_be_lowered(TimePoint now) const {
    return std::any_of(rates.begin(), rates.end(),
                       [&](const ModelRate& rate) { return rate.may_be_lowered(now); });
  }
  void lift(TimePoint now);
  void lift_models(TimePoint now);
  bool surely_affordable(const ModelClaim& claim, TimePoint now);
  /// When that may be, if nothing ends before; kNever: not known.
  TimePoint affordable_at(const ModelClaim& claim, TimePoint now);
};

/// What is known of a service's upstream: how many retries are left, and whether its calls fail.
struct ModelUpstream {
  enum class Said { success, failure, unreachable, refusal, nothing };

  int retry_parts = 100;             ///< ten are a retry
  std::deque<std::string> retries;   ///< taken and not refilled, by client
  std::map<std::string, int> saved;  ///< by client: of what it has earned since any was taken; likewise
  bool take_retry(const std::string& client, const std::string& tenant);
  void succeeded(const std::string& client);

  bool closed = true;
  TimePoint closed_at{}, open_until{}, top_lane_from{};
  struct Call {
    TimePoint at;
    bool failed = false;
    std::string client;
  };
  std::deque<Call> calls;  ///< the last ones
  /// For which client alone it failed, and whose trial failed, or passed, last; empty: several, or none.
  std::string only, failed_last, passed_last;
  /// A client for which it may not have failed has a job: when it was tried with that is not known.
  std::string failed_client;  ///< the last, as the auditor names it
  bool vague = false;
  std::set<std::string> models;  ///< that jobs named; of several one may be left alone by itself
  std::uint64_t times_barred = 0;
  std::map<std::string, TimePoint> bars;  ///< until when a client may have to leave it to others
  std::vector<std::string> unreachable;   ///< in a row, by client
  int openings = 0;                       ///< since it was closed
  std::uint64_t opening = 0;              ///< which one, of all
  int trials_out = 0, trials_passed = 0;
  TimePoint trial_at{};

  /// Whether the broker must open it, or open it again, or close it; or may.
  enum class Due { nothing, open, close, may };
  Due over(Said said, const ModelJob& job, TimePoint now);
  /// It was opened and is to be tried again after `wait`. Throws Violation when that is too soon or too late.
  void open(Duration wait, TimePoint now);
  bool fails_without_any_client() const;
  void close(TimePoint now);
  /// A client has a job that waits.
  void waits(const std::string& client);
  /// Whether a call may be made now.
  bool may_call(bool top_lane, TimePoint now) const;
  /// Whether it is certain that one must be made, if there is a job for it; and since when.
  bool surely_calls(bool top_lane, TimePoint now) const;
};

/// A request that reads a streamed answer.
struct ModelReader {
  std::uint64_t ref = 0;
  std::int64_t seen = -1;  ///< the last chunk that it has taken
  std::uint64_t seen_bytes = 0;
  TimePoint silent_since{};  ///< while it was sent more
};

/// A streamed answer: all of it, and how much of it the broker is to have kept.
struct ModelAnswer {
  std::vector<std::string> bodies;
  std::vector<std::uint64_t> ends;  ///< bytes up to the end of each
  std::int64_t first = 0;           ///< that is kept
  std::int64_t taken = -1, said = -1;
  std::uint64_t taken_bytes = 0, said_bytes = 0;

  std::int64_t next() const { return static_cast<std::int64_t>(bodies.size()); }
  /// Of what is forgotten, all bytes.
  std::uint64_t bytes_until(std::int64_t seq) const;
  void take(std::int64_t seq);
  bool full() const;
  /// The same, by what the worker was told: it waits for that.
  bool keeps_waiting() const;
  void trim(std::size_t bytes_max);
};

struct ModelJob {
  enum class State { queued, delayed, running, ended };

  std::uint64_t serial = 0;  ///< order of acceptance
  std::string id, service, model, body;
  std::string client;  ///< as the submit named it, or else a connection
  std::string group;   ///< as the submit named it
  std::int64_t group_size = 0;
  std::string
      caller;  ///< the same, as the broker names it: a connection that it has forgotten is another one
  std::size_t lane = 0;
  std::size_t submitted_lane = 0;  ///< before an operator moved it
  BudgetMask budgets = 0;
  core::Amounts expected;    ///< as stated; nothing where no budget counts it
  std::int64_t cost = 1;     ///< what it counts for where jobs share: tokens, or one where nobody counts them
  std::int64_t charged = 0;  ///< to its client, for the attempt under way or the last one
  bool counts_tokens = false;
  bool named = false, timeout_stated = false;
  TimePoint accepted_at{};  ///< or when the delay that it was submitted with is over
  TimePoint deadline{}, ended_at{}, dispatched_at{};
  Duration timeout{};       ///< stated, or its lane's
  TimePoint delay_over{};   ///< of the delay that it was submitted with; the beginning of time: none
  TimePoint queued_at{};    ///< after its delay: the turn that queued it
  Duration retain{};        ///< from its end on
  Duration retain_asked{};  ///< as stated, or the usual one: dead jobs are kept for longer
  std::optional<wire::Cost> stated_cost;
  int attempts_max = 0;
  std::size_t texts = 0;         ///< bytes of what it was submitted with, besides its body
  std::size_t envelope = 0;      ///< of these, in front of its answer
  std::set<std::string> owners;  ///< addresses: when the last of them goes, it is cancelled; empty: never

  State state = State::queued;
  TimePoint due_min{}, due_max{};  ///< delayed: when it may, and when it must, be queued again
  std::uint64_t number = 0;        ///< 0: not handed over so far
  std::int64_t attempt = 0;
  std::int64_t attempts_before = 0;  ///< in the lives before this one, which its history tells of
  int attempts = 0, crashes = 0, missing = 0;
  int shared_deaths = 0;  ///< of workers that held others, too
  bool attempts_spent() const { return attempts >= attempts_max + shared_deaths; }
  int company = 0;      ///< with whom it was when a worker was lost
  bool alone = false;   ///< it goes out alone, since it or one of these may be why; at a worker: it did
  bool missed = false;  ///< a hand-over of it never arrived
  /// Its worker has said how far it is: when something was heard of it last, or the worker was let go on.
  std::optional<TimePoint> alive_at;
  bool window_due = false;         ///< its worker has come back, and is to be told how far it may go
  std::int64_t refused = -1;       ///< the last chunk of this attempt that was refused
  ModelBudget* account = nullptr;  ///< of the key that it got for this attempt; null: it got none
  ModelWorker* place = nullptr;    ///< whose place it holds; an ended job may hold one
  std::uint64_t trial = 0;         ///< of which opening of its upstream's breaker its call is a trial
  std::uint64_t model_trial = 0;   ///< likewise of its model's
  bool at_reserved = false;        ///< that worker took only some lanes when it took the job
  bool ran_apart = false;          ///< when it was handed over its model waited apart

  bool streams = false;  ///< it asked for a streamed answer
  ModelAnswer parts;
  std::vector<ModelReader> readers;    ///< who is owed it and its end, the longest first
  std::uint64_t submit_ref = 0;        ///< who submitted it and is owed the end; 0: nobody
  std::vector<std::uint64_t> waiters;  ///< who else is owed it, the longest first
  std::vector<std::string> must_end;   ///< how it must end in this step: `result` or one of these codes
  std::string code, answer;            ///< how it ended
  bool id_told = false;                ///< its client chose its id, or knows it
  bool kept = false;                   ///< it has ended, and who asks is told how
  bool dead = false;                   ///< it ended so that it can run again
  bool made_way = false;               ///< its result went before its time
  bool purged = false;                 ///< an operator had it forgotten
  /// Where it is no longer kept: its place among all that went as it may have is above the one and at most
  /// the other.
  struct Going {
    std::uint64_t after = 0, until = 0;
    bool possible = false;
  };
  Going went, went_promised;  ///< the latter: it succeeded, and made way before its time

  bool ended() const { return state == State::ended; }
  bool somebody_waits() const { return submit_ref != 0 || !waiters.empty() || !readers.empty(); }
  bool waits() const { return state == State::queued || state == State::delayed; }
  /// Not so at its deadline: it may have been dropped a moment ago.
  bool surely_queued(TimePoint now) const {
    const bool due = state == State::delayed && due_max + std::chrono::milliseconds(1) <= now;
    return (state == State::queued || due) && now < deadline && !alone;
  }
  /// Before it was ever queued.
  bool in_own_delay() const { return state == State::delayed && attempt == 0; }
  /// Which of the two came first is not known: one turn queued both, after delays that were over in one tick.
  bool came_with(const ModelJob& other) const;
  bool may_be_queued(TimePoint now) const {
    return state == State::queued || (state == State::delayed && due_min <= now);
  }
  std::string name() const;
};

/// Jobs that are counted together: those of the group's present life.
struct ModelGroup {
  std::int64_t open = 0, size = 0;
  std::int64_t succeeded = 0, failed = 0, cancelled = 0, expired = 0, died = 0;
  bool over = false;
  TimePoint changed_at{};

  std::int64_t ended() const { return succeeded + failed + cancelled + expired; }
};

/// Who follows jobs.
struct ModelWatch {
  std::string group;  ///< it follows that alone; empty: all
  std::int64_t next = 0, taken = -1;
  bool late = false;                        ///< it came when its group was over
  bool full = false;                        ///< something may have been left out in this step
  std::map<std::string, ModelGroup> heard;  ///< in this step: groups that are over
};

struct ByAge {
  bool operator()(const ModelJob* a, const ModelJob* b) const { return a->serial < b->serial; }
};

struct ModelStream;

/// What a client was served of what it shares with the other clients of its stream, in cost.
struct ModelTurns {
  std::int64_t served = 0;      ///< in all: what was charged, and what was corrected
  std::int64_t ahead = 0;       ///< by which its next turn comes later than that of who was never served
  std::int64_t ahead_max = 0;   ///< the same, if it had nothing to do for a while
  std::int64_t given_back = 0;  ///< since it was last served
  double passed = 0;            ///< the most that a job of another has cost, for its weight
  std::uint64_t changes = 0;    ///< of `served`
  /// A job that has waited since then without a break, so that the client has; null: it may not have.
  const ModelJob* witness = nullptr;
  std::int64_t witness_attempt = 0;
  std::uint64_t times_at_limit = 0;
  bool waited = false;  ///< without a break, until its job that is being handed over
  struct Then {
    std::int64_t served = 0;
    std::uint64_t changes = 0;
    double behind = 0;  ///< at most so far, for its weight, its turn came before who measures it
  };
  std::map<const ModelStream*, Then> others;  ///< what each other client had been served by then
};

/// The waiting jobs of one client that need the same of everything.
struct ModelStream {
  std::size_t lane = 0;
  std::string service;
  BudgetMask budgets{};
  std::string client;
  std::string model;  ///< that waits apart; empty: it is for the others
  std::set<ModelJob*, ByAge> waiting;
  ModelTurns turns;
  bool mixed = false;  ///< some of what it was served was counted in tokens, and some was not
  std::string
      circle;  ///< with whom it takes turns: clients of that tenant; empty: tenants, and clients of none

  ModelJob* head(TimePoint now) const;
  /// Whichever of its jobs may be the client's next: the first that is surely queued, and those before it
  /// that may be. Those of a model that waits apart come to its stream by and by: any of them may.
  std::vector<ModelJob*> candidates(TimePoint now) const;
  bool shares_with(const ModelStream& other) const {
    return lane == other.lane && budgets == other.budgets && service == other.service && model == other.model;
  }
};

/// A job that a worker had when it was taken for lost.
struct ModelLost {
  ModelJob* job = nullptr;
  std::int64_t attempt = 0;
  bool counted = false;  ///< as a death
  TimePoint dispatched_at{};
};

struct ModelWorker {
  std::string address, session, name;
  std::set<std::string> services;
  std::set<std::size_t> lanes;  ///< empty: every lane
  std::size_t capacity = 0;
  std::set<ModelJob*, ByAge> held;
  TimePoint heard_at{};
  bool awaits_inventory = false, draining = false;
  bool resumes = false;              ///< it comes back with its session
  bool cut = false;                  ///< its connection is lost
  TimePoint lost_at = core::kNever;  ///< cut: when it is given up at the latest
  TimePoint returned_at{};           ///< by another connection
  int handed_back = 0;               ///< jobs one after the other, untouched; those of a rest not counted
  Duration rest{};                   ///< the last one
  TimePoint rests_until{};           ///< it is given no job
  bool rests = false;
  std::vector<wire::Lease> strays;  ///< that it was told to cancel, and holds until it says otherwise
  std::vector<std::pair<wire::Lease, TimePoint>> acks_owed;
  std::vector<ModelLost> lost;  ///< what it had when it was taken for lost, until it says which it has

  bool reserved() const { return !lanes.empty(); }
  std::size_t free() const {
    const std::size_t taken = held.size() + strays.size();
    return awaits_inventory || draining || cut || rests || taken >= capacity ? 0 : capacity - taken;
  }
  /// Of one after the other that it hands back, the first is nothing to speak of.
  void hands_back(TimePoint now) {
    if (rests || ++handed_back == 1) return;
    rest = handed_back == 2 ? std::chrono::milliseconds(10)
                            : std::min<Duration>(rest * 2, std::chrono::seconds(1));
    rests = true;
    rests_until = std::chrono::ceil<std::chrono::milliseconds>(now + rest);
  }
  void takes_jobs() {
    rests = false;
    handed_back = 0;
  }
  bool serves(const std::string& service, std::size_t lane) const {
    return services.count(service) != 0 && (lanes.empty() || lanes.count(lane) != 0);
  }
};

/// Bounds of bytes above this are never reached by a run, which has so few of them.
inline constexpr std::size_t kBytesNeverReached = 10'000'000;

/// Who may wait for one job besides its submitter; the longest waiter makes way.
inline constexpr std::size_t kWaitersMax = 64;

/// A client's request and what it is still owed.
struct ModelRequest {
  std::string address, op, id;
  ModelJob* job = nullptr;
  bool accepted_due = false, terminal_due = false, status_due = false, duplicate = false;
  std::size_t envelope = 0;              ///< bytes
  std::int64_t delay_ms = 0;             ///< of a submit
  TimePoint status_from = core::kNever;  ///< a fetch that waits: until then
  std::vector<std::string> refusals;     ///< codes it may be refused with
  bool must_refuse = false, refused = false;
  bool owns = false;                 ///< it made who asks one of the job's clients
  bool waits = false;                ///< for a job that was submitted before: there may be no room for that
  bool reads = false, told = false;  ///< the chunks of a stream; and got the first
  std::int64_t taken_before = -1;    ///< of that stream, before who asks said that it has a part of it
  std::uint64_t taken_bytes_before = 0;
  std::int64_t next_chunk = 0;
  std::string state;                                        ///< that a status must say; empty: any
  std::vector<std::pair<std::string, std::string>> states;  ///< the same of many jobs, by id

  bool open() const { return accepted_due || terminal_due || status_due; }
};

}  // namespace lanemq::sim
