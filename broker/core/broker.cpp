// SPDX-License-Identifier: Apache-2.0
#include "broker/core/broker.hpp"

#include <algorithm>

#include "broker/core/base/check.hpp"
#include "broker/core/restoring.hpp"

// The life of a job: queued, handed over, ended, kept, forgotten; and the turn that moves all of them.

namespace lanemq::core {
namespace {

constexpr std::size_t kCacheLine = 64;
/// Of a kept result: what is read when it is forgotten.
constexpr std::size_t kResultLines = 2;
/// How much that has come due one turn takes: some 2 ms of work. The rest is for the next turns, which come
/// at once, so that whoever else wants something is served in between.
constexpr std::size_t kDueInATurn = 1000;
/// Bytes of kept results that move in a turn, so that others can make way: some thousand of them, or a large
/// one.
constexpr std::size_t kPassedOverInATurn = std::size_t{2} << 20;
/// What a body that is on disk alone is taken for at least: small ones are never left there.
constexpr std::uint32_t kStoredTokensLeast = 256;

}  // namespace

Broker::Broker(Options options, std::uint64_t seed)
    : options_(std::move(options)),
      random_(seed),
      workers_(options_.lanes),
      clients_(options_.clients, options_.clients_idle_max),
      connections_(clients_, options_.clients_idle_max),
      budgets_(options_.budgets),
      parking_(options_.budgets.size() + Budgets::kModelsApartMax,
               [this](const FlowGroup& group) { return can_start(group); }),
      estimates_(options_.media_tokens, options_.output_default),
      id_hash_seed_(
          random_()),  // one draw after the other: as two arguments their order would be the compiler's
      jobs_(options_.jobs_max, random_() >> 36, id_hash_seed_),
      kept_(options_.retain, share_of_results()),
      gone_(options_.gone_max, seed),
      body_hash_seed_(random_()) {
  LANEMQ_CHECK(!options_.lanes.empty() && options_.lanes.size() <= kLanesMax);
  for (const LaneOptions& lane : options_.lanes) {
    lanes_.push_back(std::make_unique<Lane>(lane, static_cast<LaneIndex>(lanes_.size())));
    lanes_.back()->appraise = [this](Job& job) { appraise(job); };
    if (lane.is_default) default_lane_ = lanes_.back().get();
  }
  apply_guards();
  LANEMQ_CHECK(default_lane_ != nullptr);
}

Broker::~Broker() = default;

/// What dispatch() asks of the options for each job, found out once.
void Broker::apply_guards() {
  hold_below_.clear();
  boosts_ = shares_ = false;
  int hold = 0;
  for (const LaneOptions& lane : options_.lanes) {
    hold_below_.push_back(hold);
    hold += lane.reserve;
    boosts_ = boosts_ || lane.boost_after.count() > 0;
    shares_ = shares_ || lane.share_min > 0;
  }
  hold_below_.push_back(hold);  // so that there is one below the top lane in any case
  // What a lane was owed is not kept for a time when it has a share again: nobody counts in between.
  for (const auto& [name, service] : workers_.services())
    for (std::size_t lane = 0; lane < options_.lanes.size(); ++lane)
      if (options_.lanes[lane].share_min == 0) service->owed[lane] = 0;
  for (std::size_t i = 0; i < budgets_.all().size(); ++i)
    parking_.set_width(i, std::max<std::size_t>(budgets_.all()[i].accounts.size(), 1));
}

void Broker::on(const OptionsChanged& event, TimePoint now) {
  const Options& changed = *event.options;
  LANEMQ_CHECK(changed.lanes.size() == lanes_.size());
  options_.lanes = changed.lanes;
  for (const auto& lane : lanes_)
    lane->configure(options_.lanes[lane->index()]);
  options_.budgets = changed.budgets;
  parking_.leave_all();
  budgets_.configure(options_.budgets, now);
  update_flows();
  reappraise();
  apply_guards();
  options_.clients = changed.clients;
  clients_.configure(options_.clients);
  sweep_is_due_ = true;
}

/// A job is estimated when it comes, if a budget of it counts tokens then. It may be another one that does
/// when its turn comes: since the configuration was read again, or in another life of the broker.
void Broker::appraise(Job& job) {
  const Expected expected = job.expected();
  const BudgetSet budgets = job.flow().budgets();
  const bool counted = budgets_.counts_tokens(budgets);
  if (counted == expected.is_estimated()) return;
  // A body that is on disk alone counts by what its bytes may be.
  const std::uint32_t stored_tokens = job.body_stored ? std::max(expected.raw_input, kStoredTokensLeast) : 0;
  if (!counted) return job.set_expected({.raw_input = stored_tokens});
  const std::string_view model = job.text.get(JobText::model), client = job.text.get(JobText::client);
  const std::optional<wire::Cost> cost = job.extra ? job.extra->cost : std::nullopt;
  Estimate estimate = job.body_stored ? estimates_.estimate(model, client, stored_tokens, cost)
                                      : estimates_.estimate(model, client, job.body().bytes(), cost);
  fit(budgets, cost, estimate);
  job.set_expected(expected_of(estimate));
}

void Broker::reappraise() {
  for (const auto& lane : lanes_)
    for (const auto& group : lane->groups())
      group->reappraise();
}

void Broker::handle(const Event& event, TimePoint now) {
  std::visit([&](const auto& what) { on(what, now); }, event);
}

void Broker::advance(TimePoint now) {
  // Expire before dispatch, so that a place that is freed is used in the same turn.
  std::size_t due = 0;
  for (Timer* timer = nullptr; due < kDueInATurn && (timer = timers_.pop_due(now)) != nullptr; ++due)
    fire(*timer, now);
  behind_ = due == kDueInATurn;
  end_shut_out(now);
  for (due = 0; due < kDueInATurn; ++due) {
    KeptResult* const oldest = kept_.oldest();
    if (oldest == nullptr || oldest->due > now) break;
    forget(*oldest);
  }
  passing_left_ = kPassedOverInATurn;
  if (making_way_)
    if (KeptResult* const next = kept_.next_to_go(); next == nullptr || pass_over_for(*next))
      evict_results(now);
  dispatch(now);
}

std::optional<TimePoint> Broker::next_wakeup() const {
  TimePoint wakeup = timers_.next_wakeup().value_or(kNever);
  // A budget that may have room at once is asked again in a tick: never a loop that does not move time.
  if (parking_.next_wakeup() != kNever)
    wakeup = std::min(wakeup, std::max(parking_.next_wakeup(), dispatched_at_ + TimerWheel::kTick));
  if (moves_left_ == 0 || making_way_ || sweep_from_ > 0)
    wakeup = std::min(wakeup, dispatched_at_ + TimerWheel::kTick);
  if (sweep_is_due_)
    wakeup = std::min(wakeup, std::max(sweep_not_before_, dispatched_at_ + TimerWheel::kTick));
  if (const KeptResult* oldest = kept_.oldest()) wakeup = std::min(wakeup, oldest->due);
  return wakeup == kNever ? std::nullopt : std::optional(wakeup);
}

std::size_t Broker::running() const {
  std::size_t running = 0;
  for (const auto& lane : lanes_)
    running += lane->running;
  return running;
}

std::vector<Duration> Broker::oldest(TimePoint now) const {
  std::vector<Duration> ages(lanes_.size());
  const auto& all = clients_.all();
  for (const Client* client = all.front(); client != nullptr; client = all.next(*client))
    for (const auto& queue : client->queues)
      if (const Job* job = queue->oldest())
        ages[job->lane] = std::max(ages[job->lane], now - job->accepted_at);
  return ages;
}

void Broker::fire(Timer& timer, TimePoint now) {
  switch (timer.owner) {
    case TimerOwner::worker:
      return tick(*static_cast<Worker*>(timer.object()), now);
    case TimerOwner::rest:
      return workers_.update(*static_cast<Worker*>(timer.object()));
    case TimerOwner::service:  // who may call now is found by dispatch()
      return look_after(*static_cast<Service*>(timer.object()), now);
    case TimerOwner::connection:
      return leave_owned(*static_cast<Connection*>(timer.object()), now);
    case TimerOwner::reader:
      return check_reader(*static_cast<StreamReader*>(timer.object()), now);
    case TimerOwner::result:
      return forget(*static_cast<KeptResult::Extra*>(timer.object())->apart);
    case TimerOwner::waiter: {
      // A fetch has waited long enough: it hears how far the job is.
      auto& waiter = *static_cast<Waiter*>(timer.object());
      Job& job = *waiter.job;
      auto& waiters = job.extra->waiters;
      const auto place = std::find_if(waiters.begin(), waiters.end(),
                                      [&](const auto& other) { return other.get() == &waiter; });
      LANEMQ_CHECK(place != waiters.end());
      say_status(job, {.address = waiter.connection->address, .envelope = waiter.envelope}, {waiter.ref},
                 now);
      drop_waiter(waiter);
      waiters.erase(place);
      return;
    }
    case TimerOwner::job:
      break;
  }
  Job& job = *static_cast<Job*>(timer.object());
  if (now >= job.deadline) return expire(job, now);
  LANEMQ_CHECK(job.state == JobState::delayed);
  if (job.has_content()) return fail_broken_stream(job, now);  // of an earlier life: its worker is gone too
  leave_queue(job);
  const TimePoint due = job.at_away().due;
  jobs_.come_back(job);
  job.state = JobState::queued;
  if (job.adoptable) {
    // Its worker is gone too, or never got it.
    job.adoptable = false;
    if (job.attempts > 0) --job.attempts;
  }
  if (job.attempt == 0) {
    // Its delay is over: it stands where a job would that is submitted now.
    job.arrival = next_arrival_++ & Job::kArrivalMax;
    if (job.timeout_stated) job.need_extra().delay = due - job.accepted_at;
    job.accepted_at = due;
  }
  enqueue(job);
  comes(job, now);
  set_timer(job);
  write_changed(job);
  end_if_shut_out(job, now);
}

void Broker::set_timer(Job& job) {
  timers_.set(job.timer,
              job.state == JobState::delayed ? std::min(job.at_away().due, job.deadline) : job.deadline);
}

void Broker::enqueue(Job& job) {
  Lane& lane = *lanes_[job.lane];
  const std::size_t bytes = job.bytes();
  lane.bytes += bytes;
  Client& client = job.queue->client();
  ++client.waiting;
  Client::Held& held = client.held_in(job.lane);
  ++held.jobs;
  held.bytes += bytes;
  if (job.state == JobState::delayed) {
    ++lane.delayed;
    delayed_.push_back(job.at_away());
    return;
  }
  ++lane.queued;
  if (job.attempt == 0 && job.queue->comes_last(job))
    job.flow().push(job);
  else
    job.flow().put_back(job);
}

void Broker::leave_queue(Job& job) {
  Lane& lane = *lanes_[job.lane];
  const std::size_t bytes = job.bytes();
  lane.bytes -= bytes;
  Client& client = job.queue->client();
  --client.waiting;
  Client::Held& held = client.held_in(job.lane);
  --held.jobs;
  held.bytes -= bytes;
  if (job.state == JobState::delayed) {
    --lane.delayed;
    delayed_.remove(job.at_away());
    return;
  }
  --lane.queued;
  job.flow().remove(job);
}

void Broker::take_place(Job& job, Worker& worker) {
  workers_.take_place(worker, job);
  Client& client = job.queue->client();
  ++client.running;
  if (client.at_limit()) update_turns(client);
}

/// The call that the job was handed over for is over, and this is what its end says of the upstream.
void Broker::leave_place(Job& job, Verdict verdict, TimePoint now) {
  Away& away = job.at_away();
  away.body_awaited = false;
  take_back(away);
  // A job that ended before its call did may be why the call failed.
  if (options_.breaker) judge(job, job.ended() ? Verdict::unknown : verdict, now);
  workers_.free_place(job);
  Client& client = job.queue->client();
  const bool was_at_limit = client.at_limit();
  --client.running;
  if (was_at_limit) update_turns(client);
  if (job.ended()) erase(job, job.bytes());
}

/// Nothing refers to the job any more. `bytes`: what it still counts for.
void Broker::erase(Job& job, std::size_t bytes) {
  bytes_ -= bytes;
  workers_.release(job.flow().service());
  clients_.leave(*job.queue);
  jobs_.erase(job);
}

void Broker::requeue(Job& job, Requeue how, TimePoint due, TimePoint now) {
  Lane& lane = *lanes_[job.lane];
  LANEMQ_CHECK(job.state == JobState::running && job.worker() == nullptr);
  if (job.has_content()) return fail_broken_stream(job, now);
  if (how == Requeue::free) {
    --job.attempts;
    job.flow().correct(*job.queue, -job.at_away().charged);  // it was not served
  }
  // While the broker drains nothing waits for another turn, but on disk: the client hears so now, and can ask
  // again.
  if (draining_ && !job.durable)
    return end_with(job, JobState::failed, ErrorCode::draining,
                    "the broker is stopping and the job would have to run again; submit it again in a moment",
                    now);
  --lane.running;
  ++lane.counters.requeued;
  if (due > now) {
    job.state = JobState::delayed;
    job.at_away().due = due;
  } else {
    jobs_.come_back(job);
    job.state = JobState::queued;
  }
  enqueue(job);
  if (job.state == JobState::queued) comes(job, now);
  set_timer(job);
  write_changed(job);
}

void Broker::expire(Job& job, TimePoint now) {
  if (job.worker() != nullptr) remember_attempt(job, name_of(ErrorCode::deadline), {}, {}, now);
  const std::string where = job.state == JobState::running
                                ? "while it ran"
                                : "while it waited in lane \"" + lanes_[job.lane]->options().name + "\"";
  if (job.has_content() && !job.timeout_stated)
    return end_with(job, JobState::expired, ErrorCode::deadline,
                    "nothing came of its stream for longer than lane \"" + lanes_[job.lane]->options().name +
                        "\" allows (its timeout, and a minute at least)",
                    now);
  end_with(job, JobState::expired, ErrorCode::deadline,
           "timeout_ms (" + std::to_string(to_ms(job.timeout())) + ") was over " + where, now);
}

std::uint32_t Broker::waited_ms(const Job& job, TimePoint now) {
  if (job.state == JobState::running) return job.at_away().queued_ms;
  const bool begins_later = job.state == JobState::delayed && job.attempt == 0;
  return begins_later ? 0 : to_ms32(now - job.accepted_at);
}

void Broker::end_with(Job& job, JobState state, ErrorCode code, std::string message, TimePoint now) {
  auto ending = std::make_unique<Ending>();
  ending->code = code;
  ending->message = std::move(message);
  if (error_info(code).says_when_to_retry) ending->retry_after = std::chrono::seconds(1);
  end(job, state, std::move(ending), {}, now);
}

/// A job whose client has a part of its answer is never run again: its worker cannot end it any more.
void Broker::fail_broken_stream(Job& job, TimePoint now) {
  end_with(job, JobState::failed, ErrorCode::worker_lost,
           "its worker was lost or gave it back when its answer had been sent up to chunk " +
               std::to_string(job.answer()->next() - 1) + ": it is not run again",
           now);
}

/// The one way in which a job ends: whoever waits for it is told, once, and its result is kept for those who
/// ask later. A job that ends while it runs keeps its place until its worker says so; any other is gone.
void Broker::end(Job& job, JobState state, std::unique_ptr<Ending> ending, const Blob& body, TimePoint now) {
  Lane& lane = *lanes_[job.lane];
  LANEMQ_CHECK(!job.ended());
  const std::size_t bytes = job.bytes();
  const Outbox::Waiting waiting(outbox_, job.durable);
  if (job.body_awaited()) {
    // Its worker has not heard of it.
    budgets_.release(job.at_away().reservation, now);
    leave_place(job, Verdict::unknown, now);
  }
  const bool ran = job.state == JobState::running;
  if (job.has_content()) {
    if (Away* const away = job.away()) away->streamed_bytes = job.answer()->bytes();
    if (!ending) ending = std::make_unique<Ending>();
    ending->chunks = job.answer()->next();
  }
  Terminal how{.id = job.id(),
               .client_named_it = job.client_named_it,
               .id_told = job.id_told(),
               .lane = job.lane,
               .state = state,
               .attempts = job.attempts,
               .queued_ms = waited_ms(job, now),
               .ran_ms = 0,
               .ending = ending.get(),
               .body = body};
  if (ran) {
    --lane.running;
    const Duration ran_for = now - job.at_away().dispatched_at;
    how.ran_ms = to_ms32(ran_for);
    lane.run.record(ran_for);
  } else {
    leave_queue(job);
  }
  if (Worker* const worker = job.worker(); worker != nullptr) {
    const Outbox::Waiting behind_offer(outbox_, job.durable || job.at_away().offer_waited);
    tell(*worker, wire::CancelJob{static_cast<std::uint64_t>(job.number), job.attempt,
                                  ending ? name_of(ending->code) : std::string_view{}});
  }
  ++(state == JobState::succeeded ? lane.counters.succeeded : lane.counters.failed);

  if (job.reply != ReplyMode::accepted && !job.streams)
    say_terminal(how,
                 {.address = job.connection->address,
                  .envelope = job.text.get(JobText::envelope),
                  .grouping = &job.connection->grouping},
                 {job.text.get(JobText::ref)});
  if (AnswerStream* const stream = job.answer(); stream != nullptr) {
    // What an earlier life of the broker has sent is not known any more: that is no whole answer.
    if (state == JobState::succeeded && !stream->placed()) refuse_readers_before(job, stream->next());
    for (const auto& reader : stream->readers)
      say_terminal(how, origin_of(*reader), {reader->ref});
  }
  if (job.extra)
    for (const auto& waiter : job.extra->waiters)
      say_terminal(how,
                   {.address = waiter->connection->address,
                    .envelope = waiter->envelope,
                    .grouping = &waiter->connection->grouping},
                   {waiter->ref});
  remove_readers(job);
  drop_waiters(job);
  drop_owners(job);
  if (job.connection != nullptr) connections_.drop_reference(*job.connection);
  job.connection = nullptr;
  timers_.clear(job.timer);

  job.state = state;
  KeptResult* dead = nullptr;
  std::unique_ptr<AnswerStream> answer = take_answer(job);
  if (!job.retain.nothing()) {
    const bool died = dies(job, state);
    Duration retain = std::chrono::milliseconds(job.retain.ms());
    if (died) retain = std::max(retain, options_.dead_retain);
    // Results kept for the usual time leave in the order in which they came: they need no timers of their
    // own.
    const bool apart = died || retain != options_.retain;
    KeptResult& result =
        kept_.add(KeptResults::of(job, job.flow().service(), job.queue->client().mark, body_hash_of(job)),
                  how, std::move(ending), apart, std::move(answer));
    result.due = TimerWheel::fires_at(now + retain);
    if (apart) {
      result.extra->ended_at = kept_.mark(now);
      timers_.set(result.extra->timer, result.due);
    }
    workers_.use(*result.service);
    write_ended(job, how, &result, now + retain, died, now);
    jobs_.replace(job, &result);
    if (died) {
      bury(job, result, now);
      dead = &result;
    }
  } else {
    if (how.id_told) gone_.remember(how.id);
    write_ended(job, how, nullptr, now, false, now);
    jobs_.replace(job, nullptr);
  }
  if (job.worker() == nullptr) {
    erase(job, bytes);
  } else {
    // How its call ends still says something of its model and its client.
    job.text.keep_names();
    job.extra.reset();
    bytes_ -= bytes - job.bytes();
  }
  evict_results(now);
  if (dead == nullptr || memory_bytes() <= options_.memory_max) return;
  // It is larger than its job was: what was streamed of it goes first, then older ones of its kind.
  kept_.shed_answer(*dead);
  while (memory_bytes() > options_.memory_max && evict_dead()) {
  }
}

/// Whether the result may go: what stands before it has moved. Much of that takes several turns.
bool Broker::pass_over_for(const KeptResult& result) {
  making_way_ =
      !kept_.pass_over_for(result, passing_left_, [this](KeptResult& moved) { jobs_.moved(moved); });
  return !making_way_;
}

/// The oldest result makes way: of those who hold more than their share, or else of all. False where there is
/// none, or none in this turn.
bool Broker::evict_result(TimePoint now) {
  KeptResult* const oldest = kept_.next_to_go();
  if (oldest == nullptr || !pass_over_for(*oldest)) return false;
  ++stats_.results_evicted;
  evicted_at_ = now;
  forget(*oldest, Forgotten::before_its_time);
  return true;
}

/// For how long an id means its job, as it looks at present: less than was promised while bounds bite.
Duration Broker::ids_good_for(TimePoint now) const {
  const KeptResult* const oldest = kept_.next_to_go();
  if (!evicted_at_ || *evicted_at_ + options_.retain <= now) return options_.retain;
  return oldest == nullptr ? Duration(0) : std::min(now - kept_.ended_at(*oldest), options_.retain);
}

void Broker::evict_results(TimePoint now) {
  // Much of what is kept is in the store, and read back for those who ask.
  while (kept_.loose_bytes() > loose_bytes_max() && kept_.unload_oldest()) {
  }
  // A result may be larger than its job was: what is kept makes way, and memory_max holds. Dead jobs stay:
  // they are bounded apart, and make way for their like alone.
  while (true) {
    const bool too_many =
        kept_.size() > options_.results_max || kept_.stored_bytes() > options_.results_disk_max;
    const bool too_large = kept_.bytes() > options_.results_bytes_max || memory_bytes() > options_.memory_max;
    if (!too_many && !too_large) break;
    if (!too_many && kept_.unload_oldest()) continue;
    if (!evict_result(now)) break;
  }
  // The next to go has not been touched for long: it is fetched while something else is done.
  if (const KeptResult* next = kept_.oldest())
    for (std::size_t byte = 0; byte < kResultLines * kCacheLine; byte += kCacheLine)
      __builtin_prefetch(reinterpret_cast<const char*>(next) + byte, 1);
}

void Broker::forget(KeptResult& result, Forgotten why) {
  // What succeeded is not to run again for as long as its client was told that it would be known.
  const bool promised = why == Forgotten::before_its_time && result.state == JobState::succeeded;
  if (result.id_told && promised)
    gone_.remember(result.id(), result.due);
  else if (result.id_told)
    gone_.remember(result.id());
  write_forgotten(result);
  remove(result);
}

/// Its id means nothing any more.
void Broker::remove(KeptResult& result) {
  if (result.apart()) timers_.clear(result.extra->timer);
  workers_.release(*result.service);
  jobs_.forget(result);
  kept_.remove(result);
}

void Broker::dispatch(TimePoint now) {
  dispatched_at_ = now;
  if (draining_) return;  // what is left waits on disk
  overdue_left_ = moves_left_ = kDueInATurn;
  for (const std::size_t budget : budgets_.take_eased())
    parking_.ease(budget);
  parking_.wake(now);
  parking_.make_way();
  do {
    // Where a lower lane has tried an upstream, there may be room for another trial by a lane above it.
    trial_made_ = false;
    for (std::size_t level = 0; level < lanes_.size();) {
      const Job* const handed_over = dispatch_from(static_cast<LaneIndex>(level), now);
      if (handed_over == nullptr) {
        ++level;
      } else {
        const Client& client = handed_over->queue->client();
        if (client.at_limit() && client.waiting > 0) {
          // Its jobs are passed over from now on: whose turn it is, is asked anew.
          level = 0;
        } else if (const Flow& flow = handed_over->flow(); boosts_ && !flow.empty()) {
          // The one behind may have waited longer, and compete higher.
          level = std::min<std::size_t>(level, level_of(flow, now));
        }
      }
      // So may those behind jobs whose bodies are held.
      if (std::exchange(turns_changed_, false)) level = 0;
      // And those who came to be asked.
      level = std::min<std::size_t>(level, parking_.take_highest_asked());
    }
  } while (parking_.pass_on() || trial_made_);
}

/// The lane in which a job competes: its own, or one higher for each boost_after that it has waited, but
/// never the top.
LaneIndex Broker::level_of(LaneIndex lane, TimePoint accepted_at, TimePoint now) const {
  const Duration boost_after = options_.lanes[lane].boost_after;
  if (boost_after.count() <= 0 || lane <= 1) return lane;
  const auto steps = (now - accepted_at) / boost_after;
  return static_cast<LaneIndex>(std::max<std::int64_t>(lane - steps, 1));
}

std::uint16_t Broker::refused_key_of(const Job& job) {
  return job.key_refused && job.extra ? job.extra->refused_key : Claim::kNoKey;
}

Claim Broker::claim_of(const Job& job, TimePoint now) const {
  return {.amounts = job.expected().amounts(),
          .hold = hold_below_[level_of(job, now)],
          .key_refused = job.key_refused,
          .refused_key = refused_key_of(job)};
}

/// What a head competes by. A boosted one competes as if its turn in the lane above had come.
Rank Broker::rank_of(const Job& job, TimePoint now) const {
  const LaneIndex level = level_of(job, now);
  const Lane& lane = *lanes_[level];
  return {.level = level,
          .turn = level == job.lane ? lane.turn_of(job.flow()) : lane.virtual_now(),
          .arrival = job.arrival};
}

/// Whether jobs of the group may be handed over now, where their budgets allow it.
bool Broker::can_start(const FlowGroup& group) {
  return workers_.find_place(group.service(), group.lane().index()) != nullptr && upstream_admits(group);
}

/// Whether the group's upstream may be called now. One that failed is tried with a job of the lowest lane
/// that has one that could run, never with an urgent one before that.
bool Broker::upstream_admits(const FlowGroup& group) {
  const Service& service = group.service();
  if (service.breaker.closed()) return true;
  const LaneIndex lane = group.lane().index();
  if (!service.breaker.admits(is_top(lane), dispatched_at_)) return false;
  return std::none_of(service.groups.begin(), service.groups.end(), [&](const FlowGroup* lower) {
    return lower->lane().index() > lane &&
           workers_.find_place(lower->service(), lower->lane().index()) != nullptr &&
           lower->any_of([&](const Flow& flow) {
             return model_open_from(flow, dispatched_at_) <= dispatched_at_ &&
                    !budgets_.obstacle(flow.budgets(), claim_of(*flow.head(), dispatched_at_),
                                       dispatched_at_);
           });
  });
}

/// The flow whose head is next in the lane, of those that may start and do not wait for a budget: the one
/// whose turn it is, or one that waited longer and was boosted from below. Null when there is none.
Flow* Broker::next_in(LaneIndex level, TimePoint now) {
  Lane& lane = *lanes_[level];
  Flow* next = nullptr;
  std::int64_t next_turn = 0;
  for (FlowGroup* group : lane.ready()) {
    Flow* const first = group->first();
    const std::int64_t turn = lane.turn_of(*first);
    if (next != nullptr &&
        (turn != next_turn ? turn > next_turn : first->head_arrival() > next->head_arrival()))
      continue;
    if (!can_start(*group)) continue;
    next = first;
    next_turn = turn;
  }
  // A boosted job never reaches the top lane.
  for (std::size_t below = level + 1u; boosts_ && level > 0 && below < lanes_.size(); ++below) {
    if (options_.lanes[below].boost_after.count() <= 0) continue;
    for (FlowGroup* group : lanes_[below]->ready()) {
      // Whoever is boosted higher was asked there.
      Flow* const oldest = group->oldest();
      if (next != nullptr && oldest->head_arrival() > next->head_arrival()) continue;
      if (level_of(*oldest, now) <= level && can_start(*group)) next = oldest;
    }
  }
  return next;
}

/// Hands over the next job that competes in the lane. A flow that cannot run blocks no other, but those
/// behind it that want the same budget: else small jobs would pass a large one for ever.
/// Returns that job, null when there is none.
Job* Broker::dispatch_from(LaneIndex level, TimePoint now) {
  while (Flow* const next = next_in(level, now)) {
    // Nobody goes before the top lane for what he is owed.
    const bool shares = shares_ && level > 0;
    Granted granted = shares ? owed_lower(*next, now) : Granted{};
    if (!granted && shares) granted = owed_elsewhere(*next, now);
    if (!granted) granted = ask(*next, As::usual, now);
    if (moves_left_ == 0 && !granted) return nullptr;
    if (!granted) continue;
    if (!behind_ || now < granted.job->deadline) return hand_over(granted, now);
    // Its timer is among those that are left for the next turns: so is what comes behind it.
    if (overdue_left_ == 0) return nullptr;
    --overdue_left_;
    expire(*granted.job, now);
  }
  return nullptr;
}

/// Asks the budgets of the flow's head, which may start but for them. If it cannot have what it claims the
/// flow stands in line until it may.
/// As::owed: it is owed to its lane, goes before all others and may have what is held for them; but for the
/// top lane's.
Broker::Granted Broker::ask(Flow& flow, As as, TimePoint now) {
  Job& head = *flow.head();
  if (budgets_.any_apart()) {
    if (!is_at_home(head)) {
      go_home(head, now);
      return {};
    }
    if (waits_for_model(flow, now)) return {};
  }
  const bool saves = flow.saves() && is_owed(flow), saved_enough = saves && now >= flow.group().saves_until;
  const bool owed = as == As::owed || (saves && !saved_enough);
  if (saved_enough) rest_from_saving(flow.group(), now);
  Claim claim = owed ? owed_claim_of(head) : claim_of(head, now);
  claim.number = ++claims_;
  const Rank rank = parking_.rank_of(flow, owed ? Rank::owed(head.lane, head.arrival) : rank_of(head, now));
  const bool shares = options_.lanes[head.lane].share_min > 0;
  std::optional<std::size_t> short_of;
  TimePoint wake_at = kNever;
  stalls_.clear();
  for (const std::size_t budget : budgets_.of(flow.budgets())) {
    if (const Stall* const ahead = parking_.ahead(
            budget, rank, [&](const Stall& stall) { budgets_.earmark(budget, stall.account, claim); })) {
      stalls_.push_back({.budget = budget, .rate = ahead->rate, .behind = true});
    } else {
      const Obstacle obstacle = budgets_.obstacle_of(flow.budgets(), budget, claim, now);
      if (!obstacle) continue;
      const std::size_t account =
          obstacle.account == nullptr
              ? Stall::kNoAccount
              : static_cast<std::size_t>(obstacle.account - obstacle.budget->accounts.data());
      stalls_.push_back({.budget = budget, .rate = obstacle.rate, .account = account});
      wake_at = std::min(wake_at, obstacle.until);
    }
    if (!shares || short_of) continue;
    // What is held for others and who is ahead do not count for what is owed, but for the top lane.
    Claim least = owed_claim_of(head);
    least.number = ++claims_;
    if (!top_is_ahead(budget, least)) {
      const Obstacle obstacle = budgets_.obstacle_of(flow.budgets(), budget, least, now);
      if (!obstacle) continue;
      wake_at = std::min(wake_at, obstacle.until);
    }
    short_of = budget;
  }
  if (stalls_.empty()) return {&head, claim};
  if (end_if_shut_out(head, now)) return {};
  // A limit that was lowered since it was taken in: it would wait for ever, and keep all behind it waiting.
  if (const Obstacle limit = budgets_.unsatisfiable(flow.budgets(), claim.amounts)) {
    end_with(head, JobState::failed, ErrorCode::unsatisfiable, limit.too_large(claim.amounts), now);
    return {};
  }
  const Duration boost_after = options_.lanes[head.lane].boost_after;
  if (boost_after.count() > 0 && !owed && rank.level > 1)
    wake_at =
        std::min(wake_at, head.accepted_at + ((now - head.accepted_at) / boost_after + 1) * boost_after);
  if (owed) {
    FlowGroup& group = flow.group();
    if (!saves) {
      group.saves_for = saving_time(stalls_);
      group.saves_until = now + group.saves_for;
    }
    group.saver = &flow;
    wake_at = std::min(wake_at, group.saves_until);
  }
  parking_.park(flow, rank, stalls_, short_of, wake_at);
  return {};
}

/// Whether the job stands where those of its model do.
bool Broker::is_at_home(const Job& job) {
  const BudgetSet set = job.flow().budgets();
  return budgets_.apart(set, job.text.get(JobText::model)) == set;
}

/// Its model went apart, or its place has gone to another one, since the job was queued.
void Broker::go_home(Job& job, TimePoint now) {
  if (moves_left_ == 0) return;  // the rest is for the next turns
  --moves_left_;
  const BudgetSet set = budgets_.apart(job.flow().budgets(), job.text.get(JobText::model));
  Flow& flow = lanes_[job.lane]->flow(job.flow().service(), set);
  update_flow(flow);  // it may be new
  leave_queue(job);
  ClientQueue& left = *job.queue;
  job.queue = &clients_.join(left.client(), flow);
  clients_.leave(left);
  enqueue(job);
  comes(job, now);
  turns_changed_ = true;
}

/// From when on jobs of the flow's model go: it is paused, or its calls fail and nobody tries it now.
TimePoint Broker::model_open_from(const Flow& flow, TimePoint now) const {
  const std::size_t model = budgets_.model_of(flow.budgets());
  if (model == Budgets::kNoModel) return now;
  const TimePoint paused_until = budgets_.model_pause(flow.budgets(), now).until;
  if (paused_until > now) return paused_until;
  const Service::FailedModel* const failed = flow.service().failed_model(model);
  const bool top = is_top(flow.lane().index());
  return failed == nullptr || failed->breaker.admits(top, now) ? now : failed->breaker.admits_at(top);
}

/// The flow's model is paused, or fails: its jobs wait apart from all others, and those whose time is over
/// before a pause is are not kept waiting for nothing.
bool Broker::waits_for_model(Flow& flow, TimePoint now) {
  const TimePoint until = model_open_from(flow, now);
  if (until <= now) return false;
  Job& head = *flow.head();
  if (end_if_shut_out(head, now)) return true;
  const std::size_t line = budgets_.line_of(budgets_.model_of(flow.budgets()));
  stalls_.assign(1, {.budget = line});
  const std::optional<std::size_t> short_of =
      options_.lanes[head.lane].share_min > 0 ? std::optional(line) : std::nullopt;
  parking_.park(flow, parking_.rank_of(flow, rank_of(head, now)), stalls_, short_of, until);
  return true;
}

/// Whether the lane of a head is owed as much as the head counts for.
bool Broker::is_owed(const Flow& flow) const {
  return flow.service().owed[flow.lane().index()] / 1000 >= flow.group().head_cost(flow);
}

/// What a job may have as owed: all but what is held for the top lane.
Claim Broker::owed_claim_of(const Job& job) const {
  return {.amounts = job.expected().amounts(),
          .hold = hold_below_[1],
          .key_refused = job.key_refused,
          .refused_key = refused_key_of(job)};
}

/// Whether the top lane waits for the budget itself; where it waits for one of its accounts the claim leaves
/// it that.
bool Broker::top_is_ahead(std::size_t budget, const Claim& claim) {
  return parking_.ahead(budget, Rank::behind_the_top(), [&](const Stall& stall) {
    budgets_.earmark(budget, stall.account, claim);
  }) != nullptr;
}

/// The head as owed, where it can be had now.
Broker::Granted Broker::ask_as_owed(const Flow& flow, TimePoint now) {
  const Job& head = *flow.head();
  if (budgets_.any_apart() && (!is_at_home(head) || model_open_from(flow, now) > now)) return {};
  Claim claim = owed_claim_of(head);
  claim.number = ++claims_;
  for (const std::size_t budget : budgets_.of(flow.budgets()))
    if (top_is_ahead(budget, claim)) return {};
  if (budgets_.obstacle(flow.budgets(), claim, now)) return {};
  return {flow.head(), claim};
}

/// How long somebody who is owed may keep others waiting for what he lacks: in a period all that was sent
/// before has left the window. What is not there then goes to the top lane as it comes, and never would be.
Duration Broker::saving_time(const std::vector<Stall>& stalls) {
  Duration longest = std::chrono::minutes(1);
  for (const Stall& stall : stalls)
    if (stall.rate != nullptr) longest = std::max(longest, stall.rate->period());
  return longest + longest / 10;
}

/// Somebody of the group has kept others waiting for nothing: as long as that is more than its lane's share
/// of the time, nobody of the group does so again.
void Broker::rest_from_saving(FlowGroup& group, TimePoint now) {
  const int share = std::max(options_.lanes[group.lane().index()].share_min, 1);
  group.rests_until = now + group.saves_for * 1000 / share;
}

/// The job of a lower lane of the same service that goes before the flow's, since its lane has not had its
/// share_min. What is held for lanes below the top and who of them waits before it do not keep it. One that
/// is owed and costs more than is left waits before all others but the top lane, one for each lane: what
/// others take in small pieces as it comes in would never be enough for it. Where it is more than the burst
/// leaves beside what is held for the top lane it is not owed: the top lane would have to wait for it.
Broker::Granted Broker::owed_lower(const Flow& next, TimePoint now) {
  Service& service = next.service();
  const auto lower = [&](const FlowGroup& group) {
    const LaneIndex lane = group.lane().index();
    return lane > next.lane().index() && options_.lanes[lane].share_min > 0 && service.owed[lane] > 0 &&
           workers_.find_place(service, lane) != nullptr;
  };
  for (FlowGroup* group : service.groups) {
    if (!lower(*group)) continue;
    while (Flow* const first = group->first_able(service.owed[group->lane().index()] / 1000)) {
      if (!budgets_.leaves_hold(first->budgets(), owed_claim_of(*first->head()))) {
        group->set_never_owed(*first);
        continue;
      }
      if (const Granted granted = ask_as_owed(*first, now)) return granted;
      // It cannot, and waits until it may.
      if (const Granted granted = ask(*first, As::usual, now)) return granted;
    }
  }
  for (FlowGroup* group : service.groups) {
    if ((group->saver != nullptr && group->saver->saves()) || now < group->rests_until || !lower(*group))
      continue;
    while (Flow* const first = group->first_short(service.owed[group->lane().index()] / 1000)) {
      if (!budgets_.leaves_hold(first->budgets(), owed_claim_of(*first->head()))) {
        group->set_never_owed(*first);
        continue;
      }
      if (const Granted granted = ask(*first, As::owed, now)) return granted;
      break;
    }
  }
  return {};
}

/// The job of another service that is owed to its lane, stands in line before the flow's for a budget of
/// both, and may have it now. Asked later, it would keep the flow waiting until others have taken the
/// place.
Broker::Granted Broker::owed_elsewhere(const Flow& next, TimePoint now) {
  for (const std::size_t budget : budgets_.of(next.budgets()))
    while (Flow* const owed = parking_.owed_before(budget, next))
      if (const Granted granted = ask(*owed, As::usual, now)) return granted;
  return {};
}

/// A job is handed over: each lane that has jobs of the same service is owed its share of it, once, however
/// many flows it has there. All of it is counted in one unit: a job whose tokens nobody counts weighs as
/// much as those of its service whose tokens are counted.
void Broker::share_out(const Job& job) {
  Service& service = job.flow().service();
  const std::int64_t cost = job.flow().counts_tokens() ? job.cost() : service.usual_cost();
  for (FlowGroup* group : service.groups) {
    const LaneIndex lane = group->lane().index();
    const int share = options_.lanes[lane].share_min;
    if (share == 0 || lane == job.lane || group->most() == 0) continue;
    std::int64_t& owed = service.owed[lane];
    owed = std::min(owed + cost * share, 2000 * group->most());
  }
  std::int64_t& owed = service.owed[job.lane];
  owed = std::max<std::int64_t>(owed + cost * (options_.lanes[job.lane].share_min - 1000), 0);
  Flow* const saver = job.flow().group().saver;
  if (saver != nullptr && saver->saves() && !is_owed(*saver)) parking_.leave(*saver);
}

/// Requires: there is a place for it, and its budgets have room for the claim.
Job* Broker::hand_over(const Granted& granted, TimePoint now) {
  Job& job = *granted.job;
  Lane& lane = *lanes_[job.lane];
  Flow& flow = job.flow();
  Worker& worker = *workers_.find_place(flow.service(), job.lane)->worker;
  if (job.attempt == 0) lane.wait.record(now - job.accepted_at);
  const std::int64_t cost = flow.cost_of(job);
  lane.charge(flow, flow.counts_tokens() ? std::optional(cost) : std::nullopt);
  flow.charge(*job.queue, cost);
  leave_queue(job);
  // Whether or not there are shares: those that come later are counted in it as well.
  if (flow.counts_tokens()) flow.service().note_cost(cost);
  if (shares_) share_out(job);
  job.state = JobState::running;
  ++lane.running;
  ++job.attempt;
  ++job.attempts;
  Away& away = jobs_.go_away(job);
  away.charged = cost;
  away.dispatched_at = now;
  away.queued_ms = to_ms32(now - job.accepted_at);
  away.reservation = budgets_.reserve(flow.budgets(), granted.claim, now);
  take_place(job, worker);
  Service& service = flow.service();
  away.called_in = service.breaker.called(now);
  if (!service.is_sound()) {
    if (Service::FailedModel* const failed = service.failed_model(budgets_.model_of(flow.budgets())))
      away.model_called_in = failed->breaker.called(now);
    trial_made_ = trial_made_ || !service.breaker.closed();
    set_timer(service, now);
  }

  if (job.answer() != nullptr) job.answer()->begin_attempt();
  write_changed(job);
  if (job.body_stored) lend(job);
  read_ahead(job);
  if (!job.body_stored) offer(job, job.body(), now);
  return &job;
}

/// Says to its worker what a job that was handed over is.
void Broker::offer(Job& job, const Blob& body, TimePoint now) {
  Away& away = job.at_away();
  Worker& worker = *away.worker;
  const Lane& lane = *lanes_[job.lane];
  // A job that is not on disk waits only for what it takes to be there, and not even for that while the disk
  // is full or stands still.
  const bool waits = job.durable || (options_.store_durable && !store_full_ && !store_stalled_ &&
                                     !budgets_.use_ahead(away.reservation));
  away.offer_waited = waits;
  const Outbox::Waiting waiting(outbox_, waits);
  wire::JobOffer offer;
  offer.job = static_cast<std::uint64_t>(job.number);
  offer.attempt = job.attempt;
  offer.id = job.id();
  if (worker.places.size() > 1) offer.service = job.flow().service().name;
  if (&lane != default_lane_) offer.lane = lane.options().name;
  const auto named = [&](JobText::Part part) {
    const std::string_view text = job.text.get(part);
    return text.empty() ? std::string_view{} : text;
  };
  offer.model = named(JobText::model);
  offer.client = named(JobText::client);
  offer.key = budgets_.key_of(away.reservation);
  // The deadline is kept here in any case: a worker is told of it only where the client stated one.
  if (job.timeout_stated) offer.timeout_ms = std::max<std::int64_t>(to_ms(job.deadline - now), 1);
  if (job.extra) offer.cost = job.extra->cost;
  offer.stream = job.streams;
  offer.meta.bytes = named(JobText::meta);
  offer.trace.bytes = named(JobText::trace);
  if (const std::string_view extras = job.text.get(JobText::extras); !extras.empty())
    offer.extras = {static_cast<unsigned char>(extras[0]), extras.substr(1)};
  tell(worker, offer, body);
}

void Broker::give_up_running(TimePoint now) {
  for (const auto& [number, worker] : workers_.all()) {
    for (Away* away = worker->leases.front(); away != nullptr; away = worker->leases.next(*away)) {
      Job& job = away->job;
      if (job.ended() || job.durable) continue;  // that is on disk runs on, and is adopted later
      end_with(job, JobState::failed, ErrorCode::draining,
               "the broker is stopping and the job did not finish within drain_timeout; submit it again",
               now);
    }
  }
}

}  // namespace lanemq::core
