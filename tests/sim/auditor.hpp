// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <unordered_map>
#include <unordered_set>

#include "broker/core/broker.hpp"
#include "tests/sim/model.hpp"
#include "tests/sim/watcher.hpp"

namespace lanemq::sim {

/// What advance() may be late: the tick of its timers.
inline constexpr Duration kTick = std::chrono::milliseconds(1);
/// From when on a turn does what falls due then: from the end of that millisecond.
inline TimePoint acts_at(TimePoint due) {
  return due == core::kNever ? due : std::chrono::ceil<std::chrono::milliseconds>(due);
}

/// Watches everything that goes into a broker and comes out of it, and throws Violation at the first broken
/// promise.
///
/// Knows what must happen from a picture of its own. Where the broker may choose (how long a retry waits,
/// what a bounded store evicts) it accepts what is within the choice. A step is one call of handle() or
/// advance(): announce it, report what was sent, end it with step_over().
///
/// Requires: every client request carries a ref that no other one has, and every submit of new content a body
/// that no other one has.
class Auditor final : public Watcher {
 public:
  /// `edit` is what operators of the broker change settings with.
  Auditor(const core::Options& options, core::OptionEditor edit, const core::Broker& broker);

  void client_says(const std::string& address, const wire::ClientRequest& request, std::string_view body,
                   std::size_t envelope, TimePoint now) override;
  void worker_says(const std::string& address, const wire::WorkerReport& report, std::string_view body,
                   TimePoint now) override;
  void worker_disconnected(const std::string& address, core::WorkerDisconnected::Process process,
                           TimePoint now) override;
  void client_unreachable(const std::string& address, TimePoint now) override;
  void drain_asked(TimePoint now) override;
  void operator_asks(const wire::AdminQuery& query, TimePoint now) override;
  /// The configuration was read again.
  void reloaded(const core::Options& options, TimePoint now) override;
  void stands_still(TimePoint until) override { stands_until_ = std::max(stands_until_, until); }
  void stood_still(Duration how_long, TimePoint now) override;
  void running_given_up(TimePoint now) override;
  void advancing(TimePoint now) override;

  void noticed(const core::Notice& notice) override;
  void sent_to_client(const std::string& address, const wire::ClientReply& reply,
                      std::string_view body) override;
  void sent_to_worker(const std::string& address, const wire::WorkerCommand& command,
                      std::string_view body) override;
  void sent_to_operator(const wire::ClientReply& reply) override;
  void step_over() override;

  /// After a turn, which sent so many bytes: what the broker holds, as it is measured, follows from what it
  /// accounts for and from how many things it knows.
  void check_memory(std::size_t sent);
  /// Nothing is owed to anybody.
  void check_all_answered() const;
  /// The broker holds nothing any more: no job, no result, no worker, no byte.
  void check_all_returned() const;
  /// Long after its last job every bucket is full and every window empty.
  void check_all_restored(core::Budgets& budgets);

  std::size_t jobs() const override { return jobs_.size(); }
  std::size_t dispatches() const override { return dispatches_; }
  std::size_t open_jobs() const;

 private:
  struct Cancel {
    std::string address;
    wire::Lease lease;
    bool operator<(const Cancel& other) const {
      return std::tie(address, lease.job, lease.attempt) <
             std::tie(other.address, other.lease.job, other.lease.attempt);
    }
  };

  // ---- clients (auditor_clients.cpp)
  void on(const std::string& address, const wire::Submit& submit, std::string_view body,
          std::size_t envelope);
  void on(const std::string& address, const wire::Cancel& cancel);
  void on(const std::string& address, const wire::StatusQuery& query);
  void on(const std::string& address, const wire::Fetch& fetch, std::size_t envelope);
  ModelRequest& request(const std::string& address, const char* op, wire::Raw ref, std::string_view id);
  ModelJob* known(std::string_view id);
  /// What a client that gave no name is called by, before its address.
  static constexpr std::string_view kConnection = "connection at ";
  enum class TooLarge { no, perhaps, yes };
  static TooLarge too_large_of(const wire::Submit& submit);
  static std::string client_of(const std::string& address, const wire::Submit& submit);
  const core::ClientOptions& options_of(const std::string& client) const;
  std::size_t lane_index(std::string_view name) const;
  void may_be_refused(ModelRequest& asked, const ModelJob& job);
  void may_find_no_room(ModelRequest& asked, const ModelJob& job);
  bool leaves_to_others(const ModelJob& job, const std::string& whose) const;
  void add_waiter(ModelJob& job, std::uint64_t ref);
  void accept_pending();
  void take(ModelJob& job);
  ModelStream& stream_of(const ModelJob& job);
  void add_owner(ModelJob& job, const std::string& address);
  void drop_owner(ModelJob& job, const std::string& address);
  void drop_owners(ModelJob& job);
  void shows_itself(const std::string& address);
  bool ran_before(std::string_view id) const;
  void count_going(ModelJob& job, bool over);
  void heard_no_room(ModelRequest& asked, std::uint64_t ref);
  bool may_be_orphaned(const ModelJob& job) const;
  ModelRequest& asked_with(const std::string& address, wire::Raw ref);
  void heard_accepted(ModelRequest& asked, const wire::Accepted& accepted);
  void heard_status(ModelRequest& asked, const wire::StatusReply& status);
  void heard_statuses(ModelRequest& asked, const wire::StatusReply& status);
  void heard_end(ModelRequest& asked, std::uint64_t ref, const std::string& code, std::string_view answer,
                 std::string_view id, std::int64_t attempts, std::int64_t chunks);
  void heard_refusal(ModelRequest& asked, std::string_view code);
  std::string state_of(const ModelJob& job) const;
  std::vector<std::string> known_once(std::string_view id) const;

  // ---- groups, and who follows them (auditor_groups.cpp)
  static bool begins_anew(const ModelGroup& group, std::int64_t size);
  bool group_refuses(const ModelJob& job) const;
  void join_group(const ModelJob& job, bool again);
  void leave_group(const ModelJob& job);
  void on(const std::string& address, const wire::Watch& watch);
  bool is_of_watch(const std::string& address, wire::Raw ref) const;
  void seen_by(const std::string& address, const wire::Seen& seen);
  void heard_event(const std::string& address, const wire::JobEvent& event);
  void check_groups();

  // ---- operators (auditor_operator.cpp)
  /// What an operator asked in this step, and how it must be answered.
  struct Order {
    std::string verb, what, name, id, lane, service, client, code;
    std::vector<std::string> refusals;  ///< codes with which it may be refused
    bool must_refuse = false;
    bool changes = false;    ///< of workers and settings: whether it does
    core::Options wanted{};  ///< how settings are to stand
    std::size_t limit = 0;
    bool dry_run = false;
    bool due = false;
  };
  struct Answer;
  static Answer read(const wire::ClientReply& reply);
  bool means(const Order& order, const ModelJob& job) const;
  std::vector<ModelJob*> dead_jobs(const Order& order, const std::vector<std::string>& ids);
  void asked_to_move();
  void asked_to_pause();
  void heard_paused(const Answer& answer, bool pause);
  void heard_moved(const Answer& answer);
  bool drains() const { return order_.verb == "drain" || order_.what == "worker"; }
  bool sets() const { return order_.verb == "limit" || order_.verb == "lane"; }
  bool is_meant(const ModelWorker& worker) const;
  void asked_to_drain();
  void heard_drained(const Answer& answer);
  void asked_to_set(const wire::AdminQuery& query);
  void heard_set(const Answer& answer);
  void configure(ModelBudget& budget, const core::BudgetOptions& options);
  void adopt(const core::Options& options);
  bool is_paused(const std::string& what, const std::string& name) const;
  bool is_paused(const ModelStream& stream) const;
  void heard_redriven(const Answer& answer);
  void heard_purged(const Answer& answer);
  bool redrive(ModelJob& dead, std::optional<std::string>& first_code);

  // ---- workers (auditor_workers.cpp)
  void on(const std::string& address, const wire::Ready& ready);
  void on(ModelWorker& worker, const wire::Outcome& outcome, std::string_view body);
  void on(ModelWorker& worker, const wire::Failure& failure, std::string_view body);
  void on(ModelWorker& worker, const wire::Progress& progress);
  void on(ModelWorker& worker, const wire::Heartbeat& heartbeat);
  TimePoint stalls_at(const ModelJob& job) const;
  void noticed_of_stall(const core::Notice& notice);
  void on_bye(ModelWorker& worker);
  void come_back(ModelWorker& worker, const std::string& address);
  void mend(ModelWorker& worker);
  void call_over(ModelJob& job, ModelUpstream::Said said);
  void model_call_over(ModelJob& job, ModelUpstream::Said said);
  void noticed_of_model(const core::Notice& notice);
  void go_apart(const std::string& model);
  ModelWorker* worker_at(const std::string& address);
  ModelJob* held(ModelWorker& worker, wire::Lease lease);
  void lose(ModelWorker& worker, bool dead);
  void clear_company(int company);
  void take_back_loss(ModelWorker& worker, const std::string& session);
  bool goes_on(ModelWorker& worker, ModelJob& job, std::int64_t attempt);
  void forget(ModelWorker& worker);
  void check_silence();
  void heard_word(const std::string& address, const std::string& word);
  void heard_acked(ModelWorker& worker, const wire::Acked& acked);
  void heard_refusal(const std::string& address, const wire::WorkerRefusal& refusal);

  // ---- streamed answers (auditor_streams.cpp)
  void on(ModelWorker& worker, const wire::Chunk& chunk, std::string_view body);
  void on(const std::string& address, const wire::Seen& seen);
  bool has_live_reader(const ModelJob& job) const;
  void readers_changed(ModelJob& job);
  void add_reader(ModelJob& job, std::uint64_t ref, std::int64_t from_seq);
  void drop_reader(ModelJob& job, std::uint64_t ref);
  static bool chunk_gone(ModelRequest& asked, const ModelJob& job, std::int64_t from_seq);
  bool let_go(ModelJob& job, std::uint64_t ref);
  void heard_chunk(ModelRequest& asked, std::uint64_t ref, const wire::ChunkReply& chunk,
                   std::string_view body);
  void heard_slow(ModelRequest& asked, std::uint64_t ref, std::int64_t chunks);
  void heard_window(const std::string& address, const wire::Window& window);
  void check_chunks(const ModelRequest& asked, std::int64_t chunks) const;
  void check_streams();
  void check_kept_chunks(ModelJob& job);

  // ---- jobs (auditor.cpp)
  void free_place(ModelJob& job);
  /// What an attempt leaves behind: whether it counts, and whether it was its client's turn.
  enum class Requeue { costs_attempt, costs_turn, free };
  void requeue(ModelJob& job, Requeue how, TimePoint due_min, TimePoint due_max);
  void must_end(ModelJob& job, std::vector<std::string> codes);
  void end(ModelJob& job, const std::string& code, std::string_view answer);
  void queue_delayed();
  void end_silently();
  void end_shut_out_silently();
  bool ended_limited(const ModelJob& job) const;
  void expire_silently();
  bool is_due(TimePoint when) const { return acts_at(when) <= now_; }
  const core::Record* choice_about(const ModelJob& job) const;
  std::string chosen_end(const ModelJob& job) const;
  enum class Expires { no, perhaps, yes };
  Expires expires(const ModelJob& job) const;
  void check_counters() const;
  void check_kept();
  enum class Kept { result, dead };
  void make_way(Kept which, std::size_t left, std::vector<ModelJob*>& went);
  void settle_guesses(std::vector<ModelJob*>& went);
  std::size_t share_of_results() const;
  void make_way_by_share(const std::vector<ModelJob*>& all, std::size_t surplus,
                         std::vector<ModelJob*>& went);

  // ---- bounds (auditor_bounds.cpp)
  void check_bounds() const;

  // ---- bytes (auditor_memory.cpp)
  /// What something counts for in the bounds of bytes: at least, and at most.
  struct Bytes {
    std::size_t least = 0, most = 0;
    Bytes& operator+=(const Bytes& other) {
      least += other.least;
      most += other.most;
      return *this;
    }
  };
  static std::size_t texts_of(const wire::Submit& submit, std::size_t envelope);
  Bytes bytes_of(const ModelJob& job) const;
  Bytes bytes_of_jobs() const;
  /// What a group may count for besides its name.
  static constexpr std::size_t kGroupMost = 1024;
  Bytes bytes_of_groups() const;
  Bytes bytes_of_lane(std::size_t lane) const;
  Bytes bytes_kept(Kept which) const;
  std::size_t table_size() const;
  bool may_make_way(Kept which, std::size_t count, const std::vector<ModelJob*>& went) const;
  void check_account() const;
  /// The most there was so far: what was needed once may be held for the next time.
  struct Peak {
    std::size_t accounted = 0, records = 0, names = 0, sent = 0;
  };
  Peak peak_;
  const std::int64_t bytes_at_start_;
  std::set<std::string> addresses_;  // of clients that spoke

  // ---- budgets (auditor_budgets.cpp)
  void expect(ModelJob& job, const std::optional<wire::Cost>& stated);
  bool counts_tokens(BudgetMask budgets) const;
  void appraise(ModelJob& job);
  const ModelBudget* pool_of(BudgetMask budgets) const;
  ModelBudget* account_for(const ModelJob& job, std::string_view key);
  void for_limits_of(const ModelJob& job, const std::function<void(ModelBudget&)>& tell);
  bool unsatisfiable(const ModelJob& job) const;
  /// Until when its upstreams are not even asked whether they take somebody again.
  TimePoint shut_until(const ModelJob& job) const;
  TimePoint model_shut_until(const ModelJob& job) const;
  bool waits_in_vain(const ModelJob& job) const;
  void settle(ModelJob& job, const std::optional<wire::Usage>& usage);
  void learn(const ModelJob& job, const std::optional<wire::UpstreamLimits>& said, bool refused = false);
  void give_back(const ModelJob& job);
  void count(const ModelJob& job, const core::Amounts& used);

  // ---- fairness (auditor_fairness.cpp)
  bool forgets_clients() const;
  bool still_waits(const ModelStream& stream) const;
  bool begin_to_wait(ModelStream& stream);
  bool surely_takes_turns(const ModelStream& stream) const;
  void add_tenant(const ModelStream& stream);
  std::vector<ModelStream*> turns_of(const ModelJob& job);
  void for_others_of(const ModelStream& stream, const std::function<void(ModelStream&)>& tell);
  std::vector<ModelJob*> waiting_of(const ModelStream& stream) const;
  void look_at_others(ModelStream& stream);
  void check_turn(const ModelJob& job);
  void check_turn(const ModelJob& job, ModelStream& served);
  void charge(ModelJob& job);
  void charge(ModelStream& stream, std::int64_t cost);
  void correct(ModelJob& job, std::int64_t more);
  void correct(ModelStream& stream, std::int64_t more);

  // ---- guards (auditor_guards.cpp)
  std::size_t level_of(const ModelJob& job) const;
  ModelClaim claim_of(const ModelJob& job) const;
  std::size_t lowest_level(const ModelStream& stream) const;
  void for_next_of(const ModelStream& stream, const std::function<void(const ModelJob&)>& tell) const;
  bool surely_affordable_when_owed(const ModelStream& stream);
  struct Unit {
    std::int64_t least = 1, most = 1;
  };
  Unit unit_cost_of(const ModelJob& job) const;
  void note_expected(const ModelJob& job);
  ModelClaim owed_claim_of(const ModelJob& job) const;
  bool leaves_hold(const ModelJob& job) const;
  bool may_be_owed(const ModelJob& job) const;
  bool boosted_before(const ModelStream& stream, const ModelJob& job, std::size_t level) const;
  void check_shares(const ModelJob& job);
  void share_out(const ModelJob& job);

  // ---- dispatch (auditor_dispatch.cpp)
  void heard_offer(const std::string& address, const wire::JobOffer& offer, std::string_view body);
  void check_order(const ModelJob& job, const ModelWorker& worker);
  bool may_go_beside(const ModelJob& job, const ModelWorker& worker) const;
  void check_place(const ModelJob& job, const ModelWorker& worker) const;
  bool has_place(const ModelWorker& worker, const std::string& service, std::size_t lane) const;
  bool is_served(const std::string& service, std::size_t lane) const;
  bool surely_takes_jobs(const ModelWorker& worker) const;
  std::size_t free_general(const std::string& service, bool surely) const;
  std::size_t held_for_higher(const std::string& service, std::size_t lane) const;
  bool at_limit(const std::string& client) const;
  bool surely_at_limit(const std::string& client) const;
  bool names_nobody(const std::string& client) const;
  std::string told_apart(const std::string& client) const;
  bool has_place(const std::string& service, std::size_t lane) const;
  std::uint64_t times_at_limit(const std::string& client) const;
  struct Waiting {
    const ModelStream* stream;
    std::size_t level;
    ModelClaim claim;
  };
  std::vector<Waiting> whoever_is_next() const;
  TimePoint key_free_at(const ModelBudget& pool, const ModelClaim& claim, bool alone) const;
  TimePoint surely_runs_at(BudgetMask budgets, std::size_t level, const std::vector<Waiting>& next);
  bool is_top(std::size_t lane) const { return lane == 0 && options_.lanes.size() > 1; }
  bool lower_waits(const ModelStream& stream) const;
  void check_trial(const ModelJob& job);
  bool others_wait(const ModelJob& job) const;
  void check_nothing_idles();
  void check_wakeup();

  core::Options options_;
  const core::OptionEditor edit_;
  const core::Broker& broker_;
  TimePoint now_{}, last_turn_{}, stands_until_{};
  bool advancing_ = false, draining_ = false, ended_silently_ = false;

  std::vector<ModelBudget> budgets_;
  std::list<ModelJob> jobs_;
  std::list<ModelStream> streams_;
  std::list<ModelStream> tenants_;  // what the clients of each got together of what they share; without jobs
  std::map<std::string, ModelWorker> workers_;
  std::map<std::string, ModelUpstream> upstreams_;  // by service
  /// What is known of a model that fails while others are answered.
  struct FailingModel {
    ModelUpstream upstream;
    std::deque<std::string> callers;  ///< of its last two calls
    bool failed = false;              ///< one of its calls, since it was answered again
  };
  std::map<std::pair<std::string, std::string>, FailingModel> failing_;  // by service and model
  std::set<std::string> apart_;                                          // models that wait apart
  std::set<std::string> told_unknown_;
  std::unordered_map<std::string, ModelJob*> by_id_, by_body_;
  std::unordered_map<std::uint64_t, ModelJob*> by_number_;
  std::unordered_map<std::uint64_t, ModelRequest> requests_;
  struct Orphans {
    std::vector<ModelJob*> jobs;
    TimePoint cancel_at = core::kNever;  ///< since the connection seems gone
  };
  std::map<std::string, Orphans> orphans_;  // by address
  std::set<ModelJob*, ByAge> streaming_;    // that have sent chunks and not ended
  std::map<std::string, ModelGroup> groups_;
  std::map<std::pair<std::string, std::uint64_t>, ModelWatch> watches_;  // by address and ref
  std::set<std::string> unreachable_;  // clients' addresses that nothing waits for
  bool limits_fell_ = false;           // so that who waits may be unsatisfiable
  std::set<std::pair<TimePoint, ModelJob*>> deadlines_;
  std::set<std::pair<TimePoint, std::uint64_t>> fetches_;
  std::vector<ModelJob*> delays_;             // jobs that were not queued so far
  std::unordered_set<const ModelJob*> went_;  // that have ended
  std::list<ModelJob*> kept_;                 // that have ended and are kept, in the order of their ends
  /// Ids that were told and went so far, between two counts: of one it may not be known of which kind it is.
  struct Goings {
    std::uint64_t least = 0, most = 0;
  };
  Goings goings_, promised_goings_;
  std::vector<std::size_t> waiting_, running_;  // by lane
  std::vector<std::int64_t> moved_in_;          // likewise: jobs, less those that were moved out
  struct Counts {
    std::size_t waiting = 0, running = 0;
    std::uint64_t times_at_limit = 0;
  };
  std::map<std::string, Counts> clients_;  // of a tenant: when it was at its limit
  std::string party_of(const std::string& client) const;
  Counts counts_of(const std::string& party) const;
  std::set<std::pair<std::string, std::string>> paused_;  // by operators: what, and its name
  struct Owed {
    std::int64_t low = 0, high = 0;  ///< what it surely is, and what it may be
  };
  std::map<std::pair<std::string, std::size_t>, Owed> owed_;  // by service and lane
  std::map<std::string, std::int64_t> usual_costs_;           // by service, 16 times
  std::map<std::string, Unit> expected_costs_;                // by service: of jobs whose tokens are counted
  std::size_t dispatches_ = 0;
  std::uint64_t next_serial_ = 1;

  // Of the step under way.
  std::list<ModelJob> pending_;  // submitted and not yet refused
  std::uint64_t pending_ref_ = 0;
  bool large_envelopes_ = false;
  std::size_t incoming_ = 0;     // bytes that came in, which may be there for a moment only
  std::uint64_t immediate_ = 0;  // the request that this step must answer
  std::vector<ModelJob*> ending_, ended_;
  std::set<std::string> over_;      // groups that are over by what ended in it
  std::uint64_t watching_due_ = 0;  // the ref of a watch that is to be answered
  /// Results that made way, as it seemed: nobody knows their ids, and others like them may have gone in their
  /// place, while these are kept for their time.
  struct Guessed {
    std::string client;
    TimePoint over_at{};
  };
  std::vector<Guessed> guessed_;
  std::vector<Cancel> cancels_due_, cancels_optional_, cancels_heard_;
  std::vector<std::string> gone_;  // workers lost or left
  /// What workers had that were taken for lost, by their sessions, and until when they may come back.
  std::map<std::string, std::pair<TimePoint, std::vector<ModelLost>>> lost_;
  int companies_ = 0;  // jobs that were together when a worker was lost
  struct LostTogether {
    TimePoint since{};
    std::size_t ended = 0;  // at workers that live
  };
  std::map<int, LostTogether> lost_together_;
  std::string breaker_may_change_;  // the service whose breaker may have changed by what was heard last
  std::vector<std::pair<std::string, ModelUpstream::Due>> breakers_due_;  // that must be said
  std::vector<std::pair<std::string, std::string>> words_due_;  // to workers: address, and drain or welcome
  std::vector<std::uint64_t> slow_due_;                         // readers that must be let go
  std::string refusal_due_;  // that a worker must hear: `stale` or `unknown_session`
  std::string refusal_address_;
  Order order_;  // of an operator, to be answered
};

}  // namespace lanemq::sim
