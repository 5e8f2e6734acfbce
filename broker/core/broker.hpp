// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <lanemq/codec.hpp>
#include <lanemq/result.hpp>

#include "broker/core/base/event.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/outbox.hpp"
#include "broker/core/base/pauses.hpp"
#include "broker/core/base/refusal.hpp"
#include "broker/core/base/stats.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/base/timer_wheel.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/estimates.hpp"
#include "broker/core/jobs/gone_ids.hpp"
#include "broker/core/jobs/job_table.hpp"
#include "broker/core/jobs/kept_result.hpp"
#include "broker/core/scheduler/clients.hpp"
#include "broker/core/scheduler/connections.hpp"
#include "broker/core/scheduler/lanes.hpp"
#include "broker/core/scheduler/parking.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

struct StoredResult;

class DocumentMap;
class StoredDecoder;
struct StoredEntry;

/// The broker's decisions, without a clock, a socket, a file, a thread or a log: it is told what happened and
/// says what is wanted. Equal options, seed and events give equal answers.
///
/// A turn is: handle() for each thing that happened, advance() once, take the outbox, send it, clear it.
/// Times must not go back from call to call.
class Broker {
 public:
  /// Requires: at least one lane, at most kLanesMax, and one default lane.
  Broker(Options options, std::uint64_t seed);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // What was known when the broker stopped, as it had put it into the outbox's writes: notes first, then
  // jobs, then results, then restored(). All before the first handle(). An error says what cannot be read.
  /// By how much the wall clock has been set since the store began, whose times go on as if it had not.
  /// Before anything else of it.
  void restore_clock(Duration shift) { stored_shift_ = shift; }
  Result<void> restore_note(std::string_view name, std::string_view record);
  /// `body`: none where it stays in the store, with `body_bytes`.
  Result<void> restore_job(std::uint64_t number, std::string_view state, std::string_view record,
                           std::optional<std::string_view> body, std::size_t body_bytes, TimePoint now);
  Result<void> restore_result(std::uint64_t number, std::string_view record,
                              std::optional<std::string_view> body, std::size_t body_bytes, TimePoint now);
  /// Everything is back: jobs stand in their old order, and those that ran wait for their workers to say so.
  /// What it puts into the outbox's writes has to be on disk before the first handle(): jobs that wait for no
  /// disk get numbers that the next life must not use again.
  struct Restored {
    std::size_t queued = 0, delayed = 0, running = 0, dead = 0, results = 0;
    std::size_t without_lane =
        0;  ///< jobs whose lanes are not configured any more: they are in the default one
  };
  Result<Restored> restored(TimePoint now);
  /// Adds to the outbox's writes what has changed besides jobs and results: once for each commit. True if
  /// notes_saved() is to be called when that is on disk.
  bool write_notes();
  bool has_notes() const;
  /// Something that is to be sent waits for the notes: they are written in this turn.
  bool needs_notes() const { return options_.store_durable && budgets_.must_save(); }
  void notes_saved() { budgets_.saved(); }
  /// Nothing is handed over any more: the notes that are written next are the last ones.
  void end_notes() { budgets_.end_leases(); }

  /// Something happened. Never dispatches: that is advance()'s.
  void handle(const Event& event, TimePoint now);
  /// Brings everything up to `now`: expires, wakes, then hands out what can run. The only place that does.
  /// Of very much that comes due at once it does a part: next_wakeup() is then over already.
  void advance(TimePoint now);
  /// When advance() wants to be called even if nothing happens.
  std::optional<TimePoint> next_wakeup() const;
  /// What is to be sent. The caller sends it in order and clears it.
  Outbox& outbox() { return outbox_; }

  /// Draining, and nothing runs any more.
  bool drained() const { return draining_ && running() == 0; }
  /// Ends what still runs with `draining`; for when the time to finish is over.
  void give_up_running(TimePoint now);

  const Options& options() const { return options_; }
  const Stats& stats() const { return stats_; }
  const std::vector<std::unique_ptr<Lane>>& lanes() const { return lanes_; }
  const Workers& workers() const { return workers_; }
  const Clients& clients() const { return clients_; }
  const Connections& connections() const { return connections_; }
  Budgets& budgets() { return budgets_; }
  const Budgets& budgets() const { return budgets_; }
  const JobTable& jobs() const { return jobs_; }
  const Pauses& pauses() const { return pauses_; }
  std::size_t running() const;
  std::size_t kept_results() const { return kept_.size(); }
  std::size_t kept_bytes() const { return kept_.bytes(); }
  std::size_t dead_jobs() const { return kept_.dead_size(); }
  std::size_t dead_bytes() const { return kept_.dead_bytes(); }
  /// Of kept results: what they take in the store, about.
  std::size_t kept_stored_bytes() const { return kept_.stored_bytes(); }
  Duration ids_good_for(TimePoint now) const;
  /// Bytes of all jobs, of who waits for them and of kept results, as the bounds count them.
  std::size_t memory_bytes() const { return bytes_ + waiters_bytes_ + kept_.bytes() + kept_.dead_bytes(); }
  /// Bytes of bodies that were read back from the store for workers that have not said that they have them.
  std::size_t lent_bytes() const { return lent_bytes_; }
  /// What those may be, and one body more.
  std::size_t lent_bytes_max() const { return options_.memory_max / kLentShare; }
  /// What keeps jobs from a service's upstream, because of how calls ended: for reports, views of what is
  /// there.
  struct ShownBreaker {
    std::string_view model{};  ///< it is about that one alone; empty: about all
    std::string_view
        client{};  ///< it is about that one's jobs alone, or failed for them alone; empty: for all
    std::string_view state{};  ///< the breaker's, or `others_first`: others try before that client
    TimePoint until{};  ///< when one job may go, if nothing happens before; kNever where it is tried now
  };
  std::vector<ShownBreaker> breakers_of(const Service& service) const;
  /// By lane: the age of the job that has been queued longest.
  std::vector<Duration> oldest(TimePoint now) const;

 private:
  /// Where more than one part in so many of results_bytes_max could be left to the store, the oldest is.
  static constexpr std::size_t kLooseShare = 4;

  /// Beside memory_max, one part in so many of it may be lent.
  static constexpr std::size_t kLentShare = 8;

  enum class Requeue : std::uint8_t { costs_attempt, free };

  // ---- clients (broker_clients.cpp)
  void on(const Submitted& event, TimePoint now);
  void on(const CancelAsked& event, TimePoint now);
  void on(const StatusAsked& event, TimePoint now);
  void on(const FetchAsked& event, TimePoint now);
  void on(const SeenSaid& event, TimePoint now);
  void on(const ClientUnreachable& event, TimePoint now);
  void on(const DrainAsked& event, TimePoint now);
  void on(const OptionsChanged& event, TimePoint now);
  void on(const BodyRead& event, TimePoint now);
  void on(const StoreFull& event, TimePoint) { store_full_ = event.full; }
  void on(const StoreBehind& event, TimePoint) { store_behind_ = event.behind; }
  void on(const StoreStalled& event, TimePoint now);
  void on(const ResultRead& event, TimePoint now);
  void on(const StoodStill& event, TimePoint now);
  std::optional<Refusal> invalid(const Submitted& event) const;
  static std::optional<Refusal> unreadable_as_offer(const Submitted& event);
  Lane* lane_named(std::string_view name) const;
  std::string lane_names() const;
  std::optional<Refusal> too_large_for(BudgetSet budgets, std::string_view model, std::string_view client,
                                       const Blob& body, const std::optional<wire::Cost>& cost,
                                       Estimate& estimate);
  void fit(BudgetSet budgets, const std::optional<wire::Cost>& stated, Estimate& estimate) const;
  std::size_t last_part(std::size_t bound, std::size_t least) const;
  ResultShare share_of_results() const;
  std::optional<Refusal> over_share(const Client& client, const Lane& lane, std::size_t bytes) const;
  std::optional<Refusal> lane_full(const Lane& lane, std::size_t bytes) const;
  std::optional<Refusal> no_room(const Lane& lane, std::size_t bytes, TimePoint now);
  /// Whether a body is left to the store: of those that it has, while much is in memory.
  bool spills(std::size_t bytes, std::size_t body_bytes) const;
  std::optional<Refusal> not_allowed(const Client& client, const Lane& lane) const;
  Refusal full(const Lane& lane, ErrorCode code, std::string limiter, const std::string& holds) const;
  void join(Record& known, const Submitted& event, ReplyMode mode, TimePoint now);
  /// What a submit that is taken leads to.
  struct Admission {
    Lane* lane = nullptr;
    Client* client = nullptr;
    Connection* connection = nullptr;  ///< whom the answer goes to; null for nobody
    Service* service = nullptr;
    BudgetSet budgets{};
    Estimate estimate{};
    bool durable = false, spilled = false;
    bool redriven = false;                     ///< the store has it already, where it is durable
    std::optional<std::uint64_t> body_hash{};  ///< of what it was submitted with first, where redriven
    std::optional<std::size_t> body_bytes{};   ///< likewise, where that is in the store alone
  };
  std::optional<Refusal> admit(const Submitted& event, Admission& to, TimePoint now);
  std::optional<Refusal> shut_out(const wire::Submit& fields, const Admission& to, TimePoint now);
  bool room_for_services(std::size_t count);
  void make_room_in_store(TimePoint now);
  Job& accept(const Submitted& event, const Admission& admission, ReplyMode mode, TimePoint now);
  void refuse(const Origin& to, wire::Raw ref, std::string_view id, const Refusal& why);
  bool refused_for_disk(const Origin& to, wire::Raw ref, std::string_view id);
  Refusal not_known(std::string_view id) const;
  Refusal ran_before(std::string_view id) const;
  Refusal not_dead(std::string_view id) const;
  void say_accepted(std::string_view id, const Lane& lane, bool durable, std::optional<std::size_t> position,
                    std::optional<std::int64_t> eta_ms, const Origin& to, wire::Raw ref);
  void say_status(const Record& record, const Origin& to, wire::Raw ref, TimePoint now);
  void say_unknown(std::string_view id, const Origin& to, wire::Raw ref);
  void say_terminal(const Terminal& end, const Origin& to, wire::Raw ref);
  /// Who asked for a result that is read back from the store.
  struct Asking {
    std::string id, address, envelope, ref;
    std::optional<std::int64_t> from_seq;
  };
  void tell_end(const KeptResult& result, std::optional<std::int64_t> from_seq, const Origin& to,
                wire::Raw ref);
  template <class Message>
  void answer(const Origin& to, const Message& message, const Blob& body = {}) {
    Connection* const connection =
        to.grouping == nullptr && to.peer == Peer::client ? connections_.find(to.address) : nullptr;
    outbox_.add(to.peer, to.address, to.envelope, message, body,
                connection != nullptr ? &connection->grouping : to.grouping);
  }
  std::optional<Refusal> no_room_to_wait(const Origin& from, wire::Raw ref, TimePoint now);
  void add_waiter(Job& job, const Origin& from, wire::Raw ref, std::optional<TimePoint> until);
  void drop_waiter(Waiter& waiter);
  void drop_waiters(Job& job);
  void add_owner(Job& job, Connection& connection);
  void drop_owner(const Owner& owner);
  void drop_owners(Job& job);
  void leave_owned(Connection& connection, TimePoint now);
  void note_life(Connection& connection);
  std::string make_id(TimePoint now);
  /// What a queued job waits for. `until`: when it may go if until then nothing comes and nothing ends but
  /// time; none where that is not known, as of a job that has others before it.
  struct Wait {
    std::string what;
    std::optional<TimePoint> until;
  };
  bool waits_alone(const Job& job) const;
  bool may_be_passed(const Job& job, TimePoint by, TimePoint now);
  Wait wait_of(const Job& job, TimePoint now);
  void fill_status(wire::StatusReply& reply, Wait& wait, const Record& record, TimePoint now);
  void say_statuses(const StatusAsked& event, TimePoint now);
  bool same_content(const Record& known, const Submitted& event, const Lane& lane) const;

  // ---- operators (broker_admin.cpp)
  void on(const AdminAsked& event, TimePoint now);
  void answer(const AdminAsked& to, const DocumentMap& document);
  std::uint64_t hash_of(std::string_view body) const;
  std::optional<std::uint64_t> kept_hash_of(const Submitted& event, const Admission& admission) const;
  std::uint64_t body_hash_of(const Job& job) const;
  static bool packed(const Blob& body);
  static JobText::Parts texts_of(const wire::Submit& fields, std::string_view id, std::string_view envelope,
                                 const Blob& body, std::string& extras);
  void fill(Job& job, const wire::Submit& fields, const Blob& body);
  static LaneIndex lane_of(const Record& record) {
    return record.is_result ? record.result()->lane : record.job()->lane;
  }
  void list_jobs(const AdminAsked& event, TimePoint now);
  void show_job(const AdminAsked& event, TimePoint now);
  void list_lanes(const AdminAsked& event);
  void list_services(const AdminAsked& event, TimePoint now);
  void list_workers(const AdminAsked& event, TimePoint now);
  void list_clients(const AdminAsked& event);
  void list_budgets(const AdminAsked& event, TimePoint now);
  void list_pauses(const AdminAsked& event, TimePoint now);
  void pause(const AdminAsked& event, TimePoint now);
  void resume(const AdminAsked& event, TimePoint now);
  void drain_workers(const AdminAsked& event, bool drain);
  void move_job(const AdminAsked& event);
  void change_limit(const AdminAsked& event, TimePoint now);
  void change_lane(const AdminAsked& event);
  void answer_pause(const AdminAsked& event, bool paused, bool changed);
  std::optional<Refusal> not_there(PauseKind kind, std::string_view name) const;
  Budget* budget_named(std::string_view name);
  void set_paused(PauseKind kind, const std::string& name, bool paused);
  void update_flows(const FlowGroup& group);
  void update_flows();
  void update_flow(Flow& flow);
  std::string paused_by(const Job& job) const;
  void note_change(const AdminAsked& event, std::string_view what, std::string_view name, std::string how);

  // ---- workers (broker_workers.cpp)
  void on(const WorkerReady& event, TimePoint now);
  void on(const ChunkReported& event, TimePoint now);
  void on(const OutcomeReported& event, TimePoint now);
  void on(const FailureReported& event, TimePoint now);
  void on(const HeartbeatHeard& event, TimePoint now);
  void on(const WorkerLeaving& event, TimePoint now);
  void on(const WorkerHeard& event, TimePoint now);
  void on(const WorkerUnreachable& event, TimePoint now);
  void on(const WorkerDisconnected& event, TimePoint now);
  void come_back(Worker& worker, std::string_view address, TimePoint now);
  void tell_again(Worker& worker);
  void mend(Worker& worker);
  void say_welcome(Worker& worker);
  Worker* heard(std::string_view address, TimePoint now);
  void say_unknown_session(std::string_view address);
  void say_stale(Worker& worker, std::uint64_t number, std::int64_t attempt);
  void settle(Job& job, const std::optional<wire::Usage>& usage, TimePoint now);
  std::int64_t bounded(std::int64_t said, std::int64_t most, std::string_view what, const Job& job,
                       TimePoint now);
  Amounts used_by(const Job& job, const wire::Usage& usage, TimePoint now);
  static std::int64_t streamed_tokens(const Job& job);
  void learn(const Job& job, const wire::Usage& usage);
  Duration asked_pause(const Job& job, std::int64_t retry_after_ms, TimePoint now);
  Job* leased(Worker& worker, std::uint64_t number, std::int64_t attempt, TimePoint now);
  /// What a refused call has said of its key and budgets.
  struct Refused {
    bool key_left = false;  ///< quota: another key of the pool is good
    bool paused = false;    ///< limited: a budget or a key rests until then
    TimePoint until{};
  };
  void take_key(const Job& job, bool answered, TimePoint now);
  void rest(Worker& worker, TimePoint now);
  void end_rest(Worker& worker);
  Refused take_refusal(Job& job, ErrorClass error_class, const wire::Failure& fields, TimePoint now);
  bool has_jobs_apart(std::size_t model) const;
  bool waits_apart(std::size_t model) const;
  void take_failure(Job& job, ErrorClass error_class, const Refused& refused, const FailureReported& event,
                    TimePoint now);
  void retry_later(Job& job, const FailureReported& event, TimePoint now);
  void fail(Job& job, ErrorCode code, const FailureReported& event, TimePoint now,
            const std::string& why = {});
  void ack(Worker& worker, wire::Lease lease);
  void flush_acks(Worker& worker);
  void check_inventory(Worker& worker, const wire::Heartbeat& inventory, TimePoint now);
  void requeue_missing(Job& job, TimePoint now);
  void drop_stray(Worker& worker, wire::Lease lease);
  static bool outcome_came(const Worker& worker, wire::Lease lease, const Record* record);
  void lose(Worker& worker, TimePoint now);
  void tick(Worker& worker, TimePoint now);
  void note(Notice::Kind kind, const Worker& worker, std::size_t jobs) {
    outbox_.notices.push_back({kind, worker.name, worker.session, jobs});
  }
  template <class Message>
  void tell(Worker& worker, const Message& message, const Blob& body = {}) {
    outbox_.add(Peer::worker, worker.address, {}, message, body, &worker.grouping);
  }

  // ---- streamed answers (broker_streams.cpp)
  void refuse_chunk(Worker& worker, const wire::Chunk& chunk, const std::string& why);
  void take_chunk(Job& job, std::int64_t seq, const Blob& body, TimePoint now);
  void make_room_in(AnswerStream& stream, TimePoint now);
  enum class Worth : std::uint8_t { half, any };
  void say_window(Job& job, Worth worth = Worth::half);
  void say_windows(Worker& worker);
  static bool has_live_reader(const AnswerStream& stream);
  static Origin origin_of(const StreamReader& reader);
  static Refusal chunk_gone(std::string_view id, std::int64_t seq, std::int64_t first);
  /// Who reads a stream from where on.
  struct Reading {
    Origin from;
    wire::Raw ref;
    std::int64_t from_seq = 0;
    TimePoint until = kNever;
    bool waits = false, joined = false;
  };
  StreamReader& add_reader(Job& job, const Reading& reading, TimePoint now);
  void send_chunk(StreamReader& reader, std::int64_t seq, TimePoint now);
  void remove_reader(StreamReader& reader);
  void remove_readers(Job& job);
  void readers_changed(Job& job);
  void refuse_readers_before(Job& job, std::int64_t first);
  bool let_go_of_far_behind(Job& job, TimePoint now);
  void cut_off(StreamReader& reader, const std::string& why, TimePoint now);
  void check_reader(StreamReader& reader, TimePoint now);
  void end_reading(StreamReader& reader, TimePoint now);
  void take_seen(StreamReader& reader, std::int64_t seq, TimePoint now);
  std::unique_ptr<AnswerStream> take_answer(Job& job);
  void replay(const Terminal& end, const AnswerStream* stream, std::int64_t from_seq, const Origin& to,
              wire::Raw ref);

  // ---- dead jobs (broker_dead.cpp)
  void remember_attempt(Job& job, std::string_view cause, std::string_view code, std::string_view message,
                        TimePoint now);
  bool evict_dead();
  bool dies(const Job& job, JobState state) const;
  void bury(Job& job, KeptResult& result, TimePoint now);
  std::optional<Refusal> redrive(KeptResult& result, TimePoint now);
  bool is_meant(const KeptResult& result, const wire::AdminQuery& filter) const;
  template <class Take>
  std::optional<std::uint64_t> for_each_dead(const wire::AdminQuery& filter, Take take);
  void list_dead(const AdminAsked& event, TimePoint now);
  void redrive_dead(const AdminAsked& event, TimePoint now);
  void purge_dead(const AdminAsked& event);
  void add_history(DocumentMap& document, const History& history, TimePoint now) const;

  // ---- what outlives the broker (broker_store.cpp)
  /// The core's time zero by the store's clock.
  std::int64_t epoch_us() const { return options_.wall_ms * 1000 - stored_shift_.count(); }
  std::int64_t stored_us(TimePoint when) const { return when.time_since_epoch().count() + epoch_us(); }
  TimePoint time_of(std::int64_t stored_us) const { return TimePoint(Duration(stored_us - epoch_us())); }
  void write_state(const Job& job, bool dead = false);
  void note_numbers();
  void write_numbers();
  void write_accepted(const Job& job, const wire::Submit& fields, const Blob& body);
  void write_renamed(const Job& job, JobNumber stored_as);
  void write_changed(const Job& job);
  void write_ended(const Job& job, const Terminal& how, const KeptResult* result, TimePoint due, bool died,
                   TimePoint now);
  void write_forgotten(const KeptResult& result);
  struct Restoring;
  Restoring& restoring();
  Lane& restored_lane(std::string_view name) const;
  Terminal terminal_of(const StoredResult& stored, const Ending* ending, Blob body) const;
  bool adopt(Worker& worker, wire::Lease lease, TimePoint now);
  void read_ahead(const Job& job);
  void lend(Job& job);
  void take_back(Away& away);
  void hold_bodies(bool held);
  static bool is_durable(const Record& record);

  // ---- the life of a job (broker.cpp)
  void apply_guards();
  void appraise(Job& job);
  void reappraise();
  void enqueue(Job& job);
  void leave_queue(Job& job);
  void take_place(Job& job, Worker& worker);
  void leave_place(Job& job, Verdict verdict, TimePoint now);
  void erase(Job& job, std::size_t bytes);
  /// What a job does not wait for because its client has somewhere else to go.
  struct Elsewhere {
    bool when_limited = false, when_spent = false;
  };
  Budgets::UpstreamPause shut_until(BudgetSet set, TimePoint deadline, Elsewhere elsewhere,
                                    TimePoint now) const;
  bool end_if_shut_out(Job& job, TimePoint now);
  void end_shut_out(TimePoint now);
  static Caller caller_of(const Job& job);
  void judge(const Job& job, Verdict verdict, TimePoint now);
  void judge(const Job& job, CircuitBreaker& breaker, std::size_t model, Verdict verdict, TimePoint now);
  void note_breaker(const Service& service, const CircuitBreaker& breaker, CircuitBreaker::State before,
                    std::string_view model, TimePoint now);
  bool others_wait(const Job& job, std::size_t model, TimePoint now) const;
  Service::FailedModel* leave_model(const Job& job, std::string_view model, std::uint64_t client,
                                    TimePoint now);
  void comes(const Job& job, TimePoint now);
  void try_now(Service& service, CircuitBreaker& breaker, std::size_t model, TimePoint now);
  void bar(Client& client, Service& service, std::size_t model, TimePoint until);
  void lift_bars(Service& service, TimePoint now);
  void forget_failed(Service& service, TimePoint now);
  void look_after(Service& service, TimePoint now);
  void set_timer(Service& service, TimePoint now);
  void requeue(Job& job, Requeue how, TimePoint due, TimePoint now);
  void end(Job& job, JobState state, std::unique_ptr<Ending> ending, const Blob& body, TimePoint now);
  void fail_broken_stream(Job& job, TimePoint now);
  /// Its stream is alive: where its client stated no time, it has its lane's anew.
  void let_go_on(Job& job, TimePoint now);
  void end_with(Job& job, JobState state, ErrorCode code, std::string message, TimePoint now);
  /// From acceptance, or the end of the delay, to the last hand-over; of a job that waits, until now.
  static std::uint32_t waited_ms(const Job& job, TimePoint now);
  enum class Forgotten : std::uint8_t { in_its_time, before_its_time };
  void forget(KeptResult& result, Forgotten why = Forgotten::in_its_time);
  void remove(KeptResult& result);
  bool pass_over_for(const KeptResult& result);
  bool evict_result(TimePoint now);
  void evict_results(TimePoint now);
  std::size_t loose_bytes_max() const { return options_.results_bytes_max / kLooseShare; }
  void expire(Job& job, TimePoint now);
  void fire(Timer& timer, TimePoint now);
  void set_timer(Job& job);
  void dispatch(TimePoint now);
  /// A job that can be handed over, and what it may take for that; no job: none can.
  struct Granted {
    Job* job = nullptr;
    Claim claim;
    explicit operator bool() const { return job != nullptr; }
  };
  enum class As : std::uint8_t { usual, owed };
  bool can_start(const FlowGroup& group);
  bool upstream_admits(const FlowGroup& group);
  Flow* next_in(LaneIndex level, TimePoint now);
  Job* dispatch_from(LaneIndex level, TimePoint now);
  Granted ask(Flow& flow, As as, TimePoint now);
  bool is_at_home(const Job& job);
  void go_home(Job& job, TimePoint now);
  TimePoint model_open_from(const Flow& flow, TimePoint now) const;
  bool waits_for_model(Flow& flow, TimePoint now);
  bool is_top(LaneIndex lane) const { return lane == 0 && lanes_.size() > 1; }
  LaneIndex level_of(LaneIndex lane, TimePoint accepted_at, TimePoint now) const;
  LaneIndex level_of(const Job& job, TimePoint now) const { return level_of(job.lane, job.accepted_at, now); }
  /// Requires: it is not empty.
  LaneIndex level_of(const Flow& flow, TimePoint now) const {
    return level_of(flow.lane().index(), flow.head_accepted_at(), now);
  }
  static std::uint16_t refused_key_of(const Job& job);
  Claim claim_of(const Job& job, TimePoint now) const;
  Rank rank_of(const Job& job, TimePoint now) const;
  bool is_owed(const Flow& flow) const;
  Claim owed_claim_of(const Job& job) const;
  bool top_is_ahead(std::size_t budget, const Claim& claim);
  Granted ask_as_owed(const Flow& flow, TimePoint now);
  static Duration saving_time(const std::vector<Stall>& stalls);
  void rest_from_saving(FlowGroup& group, TimePoint now);
  Granted owed_lower(const Flow& next, TimePoint now);
  Granted owed_elsewhere(const Flow& next, TimePoint now);
  void share_out(const Job& job);
  Job* hand_over(const Granted& granted, TimePoint now);
  void offer(Job& job, const Blob& body, TimePoint now);

  Options options_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Lane* default_lane_ = nullptr;
  Workers workers_;
  Clients clients_;
  Connections connections_;
  Budgets budgets_;
  Parking parking_;
  std::vector<Stall> stalls_;  // of the head that is asked
  std::uint64_t claims_ = 0;
  TimePoint dispatched_at_{};  // the last time
  Estimates estimates_;
  std::uint64_t id_hash_seed_;
  JobTable jobs_;
  TimerWheel timers_;
  IntrusiveList<Away, &Away::hook> delayed_;  // jobs that wait for a retry
  KeptResults kept_;
  std::optional<TimePoint> evicted_at_;  // the last time that a result made way
  std::size_t passing_left_ = 0;  // bytes of results that may still move in this turn, so that one makes way
  bool making_way_ = false;       // and more have to
  GoneIds gone_;
  Pauses pauses_;
  std::size_t bytes_ = 0;  // of jobs
  std::size_t waiters_bytes_ = 0, lent_bytes_ = 0;
  bool bodies_held_ = false;    // as much is lent as may be
  bool turns_changed_ = false;  // and others have their turn now
  std::uint64_t body_hash_seed_;
  std::uint64_t next_arrival_ = 1;
  std::vector<std::string> told_unknown_;  // addresses that owe an inventory, a ring
  std::size_t told_unknown_next_ = 0;
  bool behind_ = false;           // more has come due than this turn has done
  std::size_t overdue_left_ = 0;  // jobs past their deadline that dispatch() may still expire in this turn
  // Upstreams are shut for longer than they were: all jobs are to be looked at.
  bool sweep_is_due_ = false;
  std::size_t sweep_from_ = 0;  // the place from which on it goes on
  TimePoint sweep_not_before_{};
  std::size_t moves_left_ = 1;  // jobs that it may still bring to where those of their model stand
  bool draining_ = false;
  bool store_full_ = false, store_behind_ = false, store_stalled_ = false;
  TimePoint make_room_at_{};             // on a full disk: when results may make way again
  std::uint64_t generations_noted_ = 0;  // of job numbers: another life of the broker begins there
  Duration stored_shift_{};
  std::unique_ptr<Restoring> restoring_;
  std::map<std::uint64_t, std::vector<Asking>> asking_;  // by number of the result that is read back
  std::size_t asking_count_ = 0;
  std::unique_ptr<StoredDecoder> decoder_;  // of what is read back
  bool trial_made_ = false;                 // a job was handed over to try an upstream that failed
  std::vector<int> hold_below_;           // by lane: thousandths of each burst that it leaves to those above
  bool boosts_ = false, shares_ = false;  // whether any lane has boost_after, share_min
  Stats stats_;
  TimePoint bounded_told_at_ = kNever;  // when it was last said that a word was out of bounds; kNever: never
  Outbox outbox_;
  Buffer scratch_, list_;
};

}  // namespace lanemq::core
