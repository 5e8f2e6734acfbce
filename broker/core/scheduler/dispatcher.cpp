// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/dispatcher.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "broker/core/scheduler/flow_group.hpp"
#include "broker/core/scheduler/parking.hpp"
#include "broker/core/scheduler/state.hpp"
#include "broker/core/scheduler/terms.hpp"
#include "broker/core/scheduler/upstreams.hpp"

namespace lanemq::core {
namespace {

/// In one turn: picks of overdue jobs, and moves of jobs to their model's flow. The next turns, which come at
/// once, do the rest, so that messages are read in between.
constexpr std::size_t kPickedInATurn = 1000;

/// Flows of a line whose wants are added up: later ones wait behind them.
constexpr std::size_t kFlowsWanting = 256;

/// Names the client, or its tenant, for which alone the breaker is not closed; empty: it is so for all.
std::string whose(const CircuitBreaker& breaker, const Client& client) {
  for (const Client* party = &client; party != nullptr; party = party->tenant)
    if (breaker.only_client() == party->mark) return " client=" + party->name;
  return {};
}

}  // namespace

Dispatcher::Dispatcher(State& state, Terms& terms, Parking& parking, Upstreams& upstreams)
    : state_(state), terms_(terms), parking_(parking), upstreams_(upstreams) {
  options_changed();
}

void Dispatcher::options_changed() {
  terms_.options_changed();
  // A lane whose share_min becomes 0 is owed nothing any more; a later share starts from 0.
  for (const auto& [name, service] : state_.workers.services())
    for (std::size_t lane = 0; lane < state_.options.lanes.size(); ++lane)
      if (state_.options.lanes[lane].share_min == 0) service->owed[lane] = 0;
  const std::vector<Budget>& budgets = state_.budgets.all();
  for (std::size_t i = 0; i < budgets.size(); ++i)
    parking_.set_width(i, std::max<std::size_t>(budgets[i].accounts.size(), 1));
}

void Dispatcher::limits_changed() {
  parking_.leave_all();
}

// ---- a turn -------------------------------------------------------------------------------------------

void Dispatcher::begin(TimePoint now, bool behind) {
  terms_.begin(now);
  behind_ = behind;
  if (state_.draining || state_.store_away) return;  // what is left waits on disk
  overdue_left_ = moves_left_ = kPickedInATurn;
  if (state_.budgets.take_relearnt()) {
    state_.update_flows();
    terms_.reappraise();
  }
  for (const std::size_t budget : state_.budgets.take_eased())
    parking_.ease(budget);
  parking_.wake(now);
  parking_.make_way();
  alone_at_ = kNever;
  if (state_.isolation.any())
    state_.isolation.arrange([&](const Job& job) { return !is_at_home(job) || claim_alone(job, now); });
  level_ = 0;
  trial_made_ = false;
}

Pick Dispatcher::next(TimePoint now) {
  if (state_.draining || state_.store_away) return {};
  if (const Job* const job = std::exchange(handed_over_, nullptr)) {
    settle_level(*job, now);
    settle_turns();
  }
  if (state_.isolation.any())
    if (const Pick pick = pick_alone(now)) return pick;
  for (bool again = true; again; trial_made_ = false) {
    while (level_ < state_.lanes.size()) {
      const Pick pick = pick_from(static_cast<LaneIndex>(level_), now);
      if (pick.what == Pick::What::start) handed_over_ = pick.job;
      if (pick) return pick;
      ++level_;
      settle_turns();
    }
    level_ = 0;
    // After a lower lane has tried an upstream, a lane above may be allowed another trial.
    again = parking_.pass_on() || trial_made_;
  }
  return {};
}

/// Sets the level to continue from after a hand-over.
void Dispatcher::settle_level(const Job& handed_over, TimePoint now) {
  const Client& client = handed_over.queue->client();
  const auto passed_over = [](const Client& party) { return party.at_limit() && party.waiting > 0; };
  if (passed_over(client) || (client.tenant != nullptr && passed_over(*client.tenant))) {
    // The client's other jobs are passed over from now on, which changes turns in all lanes.
    level_ = 0;
  } else if (const Flow& flow = handed_over.flow(); terms_.boosts() && !flow.empty()) {
    // The next job may have waited longer, and be boosted higher.
    level_ = std::min<std::size_t>(level_, terms_.level_of(flow, now));
  }
}

/// Whether any lane is owed a job of the service, or a part of one.
bool Dispatcher::is_any_owed(const Service& service) const {
  for (std::size_t lane = 0; lane < state_.lanes.size(); ++lane)
    if (service.owed[lane] > 0) return true;
  return false;
}

void Dispatcher::settle_turns() {
  if (!turns_changed_ && !parking_.has_asked()) return;
  // A changed turn may be in any lane.
  if (std::exchange(turns_changed_, false)) level_ = 0;
  // So may flows that are to be asked again.
  level_ = std::min<std::size_t>(level_, parking_.take_highest_asked());
}

TimePoint Dispatcher::begun_at() const {
  return terms_.begun_at();
}

TimePoint Dispatcher::next_wakeup() const {
  TimePoint wakeup = kNever;
  // A budget that may have room at once is asked again a tick later, so that time moves on.
  const TimePoint next_tick = terms_.begun_at() + TimerWheel::kTick;
  if (parking_.next_wakeup() != kNever) wakeup = std::max(parking_.next_wakeup(), next_tick);
  if (moves_left_ == 0) wakeup = std::min(wakeup, next_tick);
  if (alone_at_ != kNever) wakeup = std::min(wakeup, std::max(alone_at_, next_tick));
  return wakeup;
}

/// The next job that goes out alone (Isolation). It is in no turn: a worker is kept for it.
Pick Dispatcher::pick_alone(TimePoint now) {
  Pick pick;
  Job* moves = nullptr;
  const auto looks = [&](Worker& worker, Job& job) {
    if (!is_at_home(job)) {
      moves = &job;
      return true;
    }
    const std::optional<Claim> claim = claim_alone(job, now);
    if (!claim) return false;
    pick = {Pick::What::start, &job, *claim, &worker};
    return true;
  };
  while (state_.isolation.any_match(now, looks) && moves != nullptr && moves_left_ > 0)
    go_home(*std::exchange(moves, nullptr), now);
  return pick;
}

/// The job's claim, where it waits for a worker alone. Flows ahead of it in line have what they wait for.
std::optional<Claim> Dispatcher::claim_alone(const Job& job, TimePoint now) {
  const Flow& flow = job.flow();
  const Lane& lane = flow.lane();
  for (const ClientQueue* queue = job.queue; queue != nullptr; queue = queue->tenant)
    if (queue->barred || queue->client().at_limit()) return std::nullopt;
  if (flow.paused() || now >= job.deadline || (lane.disk_stalled && job.durable) ||
      (lane.bodies_held && job.body_stored) || !flow.service().breaker.admits(terms_.is_top(job.lane), now))
    return std::nullopt;
  TimePoint until = terms_.model_open_from(flow, now);
  Claim claim = terms_.claim_of(job, now);
  claim.number = ++claims_;
  const Rank rank = rank_of(job, now);
  for (const std::size_t budget : state_.budgets.of(flow.budgets())) {
    const auto* const ahead = parking_.ahead(
        budget, rank, [&](const Stall& stall) { state_.budgets.earmark(budget, stall.account, claim); });
    if (ahead != nullptr) return std::nullopt;
    if (const Obstacle obstacle = state_.budgets.obstacle_of(flow.budgets(), budget, claim, now))
      until = std::max(until, std::max(obstacle.until, now + TimerWheel::kTick));
  }
  if (until <= now) return claim;
  alone_at_ = std::min(alone_at_, until);
  return std::nullopt;
}

/// The flow to serve next at this level, among the flows that may start and are in no line: the one whose
/// turn it is or, at a boosted flow's turn, the oldest that is boosted from a lower lane. Null: none.
Flow* Dispatcher::next_in(LaneIndex level, TimePoint now) {
  Lane& lane = *state_.lanes[level];
  Flow* next = nullptr;
  std::int64_t next_turn = 0;
  for (FlowGroup* group : lane.ready()) {
    Flow* const first = group->first();
    const std::int64_t turn = lane.turn_of(*first);
    if (next != nullptr &&
        (turn != next_turn ? turn > next_turn : first->head_arrival() > next->head_arrival()))
      continue;
    if (!terms_.can_start(*group)) continue;
    next = first;
    next_turn = turn;
  }
  // A boosted job never reaches the top lane.
  if (!terms_.boosts() || level == 0 || (next != nullptr && next_turn < lane.turn_of_boosted())) return next;
  // Among equal turns the older one goes.
  Flow* boosted = next != nullptr && next_turn == lane.turn_of_boosted() ? next : nullptr;
  for (std::size_t below = level + 1u; below < state_.lanes.size(); ++below) {
    const std::vector<FlowGroup*>& ready = state_.lanes[below]->ready();
    if (ready.empty() || state_.options.lanes[below].boost_after.count() <= 0) continue;
    for (FlowGroup* group : ready) {
      // Flows that are boosted higher were asked at their level.
      Flow* const oldest = group->oldest();
      if (boosted != nullptr && oldest->head_arrival() > boosted->head_arrival()) continue;
      if (terms_.level_of(*oldest, now) <= level && terms_.can_start(*group)) boosted = oldest;
    }
  }
  return boosted != nullptr ? boosted : next;
}

/// The pick where a flow is next at this level.
Pick Dispatcher::pick_for(Flow& next, LaneIndex level, TimePoint now) {
  // The top lane goes before what is owed to others.
  if (terms_.shares() && level > 0) {
    if (is_any_owed(next.service()))
      if (const Pick pick = owed_others(next, now)) return pick;
    if (const Pick pick = owed_elsewhere(next, now)) return pick;
  }
  return ask(next, As::usual, now);
}

/// The next pick at this level. A flow that cannot run blocks only flows behind it that want the same budget:
/// else small jobs would pass a large one for ever.
Pick Dispatcher::pick_from(LaneIndex level, TimePoint now) {
  while (Flow* const next = next_in(level, now)) {
    const Pick pick = pick_for(*next, level, now);
    if (moves_left_ == 0 && !pick) return {};
    if (!pick) continue;
    if (pick.what != Pick::What::start || !behind_ || now < pick.job->deadline) return pick;
    // The timers of this job and of those behind it are left for the next turns.
    if (overdue_left_ == 0) return {};
    --overdue_left_;
    return {Pick::What::overdue, pick.job};
  }
  return {};
}

/// Asks the budgets of the flow's head, which may start but for them. If they refuse, the flow stands in
/// their lines until they may not.
///
/// As::owed: the head is owed to its lane. It goes before all but the top lane, and may take what is held for
/// all but the top lane.
Pick Dispatcher::ask(Flow& flow, As as, TimePoint now) {
  Job& head = *flow.head();
  if (state_.budgets.may_move()) {
    if (!is_at_home(head)) {
      go_home(head, now);
      return {};
    }
    if (const TimePoint until = terms_.model_open_from(flow, now); until > now)
      return wait_for_model(flow, until, now);
  }
  const bool saves = flow.saves() && is_owed(flow), saved_enough = saves && now >= flow.group().saves_until;
  const bool owed = as == As::owed || (saves && !saved_enough);
  if (saved_enough) rest_from_saving(flow.group(), now);
  Claim claim = owed ? terms_.owed_claim_of(head) : terms_.claim_of(head, now);
  claim.number = ++claims_;
  const Rank rank = parking_.rank_of(flow, owed ? Rank::owed(head.lane, head.arrival) : rank_of(head, now));
  const bool shares = state_.options.lanes[head.lane].share_min > 0;
  std::optional<std::size_t> short_of;
  TimePoint wake_at = kNever;
  stalls_.clear();
  for (const std::size_t budget : state_.budgets.of(flow.budgets())) {
    if (const Stall* const ahead = parking_.ahead(budget, rank, [&](const Stall& stall) {
          state_.budgets.earmark(budget, stall.account, claim);
        })) {
      stalls_.push_back({.budget = budget, .rate = ahead->rate, .behind = true});
    } else {
      const Obstacle obstacle = state_.budgets.obstacle_of(flow.budgets(), budget, claim, now);
      if (!obstacle) continue;
      // The keys that could grant it are paused for its model: others may have what it cannot.
      if (!obstacle.model.empty()) return wait_for_model(flow, obstacle.until, now);
      const std::size_t account =
          obstacle.account == nullptr
              ? Stall::kNoAccount
              : static_cast<std::size_t>(obstacle.account - obstacle.budget->accounts.data());
      stalls_.push_back({.budget = budget, .rate = obstacle.rate, .account = account});
      wake_at = std::min(wake_at, obstacle.until);
    }
    if (!shares || short_of) continue;
    // Holds and flows ahead do not count for an owed job, but for those of the top lane.
    Claim least = terms_.owed_claim_of(head);
    least.number = ++claims_;
    if (!top_is_ahead(budget, least)) {
      const Obstacle obstacle = state_.budgets.obstacle_of(flow.budgets(), budget, least, now);
      if (!obstacle) continue;
      wake_at = std::min(wake_at, obstacle.until);
    }
    short_of = budget;
  }
  if (stalls_.empty()) return {Pick::What::start, &head, claim};
  if (upstreams_.shut_out(head, now).budget != nullptr) return {Pick::What::shut_out, &head};
  // A limit was lowered after the job was accepted: the job would wait for ever, and others behind it.
  if (state_.budgets.unsatisfiable(flow.budgets(), claim.amounts))
    return {Pick::What::unsatisfiable, &head, claim};
  const Duration boost_after = state_.options.lanes[head.lane].boost_after;
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
  flow.refused(now);
  parking_.park(flow, rank, stalls_, short_of, wake_at);
  return {};
}

/// Whether the job is in the flow of the budgets that count it now.
bool Dispatcher::is_at_home(const Job& job) {
  return state_.home_of(job) == job.flow().budgets();
}

/// Moves the job to its flow: since it was queued its model went apart, its limits were learnt, or the place
/// of these changed hands.
void Dispatcher::go_home(Job& job, TimePoint now) {
  if (moves_left_ == 0) return;  // the rest is for the next turns
  --moves_left_;
  Flow& flow = state_.flow_of(*state_.lanes[job.lane], job.flow().service(), state_.home_of(job));
  state_.leave_queue(job);
  ClientQueue& left = *job.queue;
  job.queue = &state_.clients.join(left.client(), flow);
  state_.clients.leave(left);
  state_.enqueue(job);
  upstreams_.comes(job, now);
  turns_changed_ = true;
}

/// The flow's model is paused or fails: the flow waits in the model's own line, and its head ends if its
/// deadline comes before the end of the pause.
Pick Dispatcher::wait_for_model(Flow& flow, TimePoint until, TimePoint now) {
  Job& head = *flow.head();
  if (upstreams_.shut_out(head, now).budget != nullptr) return {Pick::What::shut_out, &head};
  const std::size_t line = state_.budgets.line_of(state_.budgets.model_of(flow.budgets()));
  stalls_.assign(1, {.budget = line});
  const std::optional<std::size_t> short_of =
      state_.options.lanes[head.lane].share_min > 0 ? std::optional(line) : std::nullopt;
  flow.refused(now);
  parking_.park(flow, parking_.rank_of(flow, rank_of(head, now)), stalls_, short_of, until);
  return {};
}

/// The rank of a head: by its turn in the lane in which it competes.
Rank Dispatcher::rank_of(const Job& job, TimePoint now) const {
  const LaneIndex level = terms_.level_of(job, now);
  const Lane& lane = *state_.lanes[level];
  return {.level = level,
          .turn = level == job.lane ? lane.turn_of(job.flow()) : lane.turn_of_boosted(),
          .arrival = job.arrival};
}

// ---- what lanes are owed ------------------------------------------------------------------------------

/// Whether the flow's lane is owed the cost of its head.
bool Dispatcher::is_owed(const Flow& flow) const {
  return flow.service().owed[flow.lane().index()] / 1000 >= flow.group().head_cost(flow);
}

/// Whether the top lane waits for the budget itself. Where it waits for an account, that account is
/// earmarked: the claim may not take from it.
bool Dispatcher::top_is_ahead(std::size_t budget, const Claim& claim) {
  return parking_.ahead(budget, Rank::behind_the_top(), [&](const Stall& stall) {
    state_.budgets.earmark(budget, stall.account, claim);
  }) != nullptr;
}

/// The head with its claim as an owed job, if it can start now.
Pick Dispatcher::ask_as_owed(const Flow& flow, TimePoint now) {
  const Job& head = *flow.head();
  if (state_.budgets.may_move() && (!is_at_home(head) || terms_.model_open_from(flow, now) > now)) return {};
  Claim claim = terms_.owed_claim_of(head);
  claim.number = ++claims_;
  for (const std::size_t budget : state_.budgets.of(flow.budgets()))
    if (top_is_ahead(budget, claim)) return {};
  if (state_.budgets.obstacle(flow.budgets(), claim, now)) return {};
  return {Pick::What::start, flow.head(), claim};
}

/// How long an owed flow may keep others waiting while it saves: after a period all that was sent before has
/// left the window. If room is still missing then, the top lane takes it as it comes in, and saving on would
/// never end.
Duration Dispatcher::saving_time(const std::vector<Stall>& stalls) {
  Duration longest = std::chrono::minutes(1);
  for (const Stall& stall : stalls)
    if (stall.rate != nullptr) longest = std::max(longest, stall.rate->period());
  return longest + longest / 10;
}

/// A flow of the group has saved up in vain. The group may not save again for so long that saving takes at
/// most its lane's share of the time.
void Dispatcher::rest_from_saving(FlowGroup& group, TimePoint now) {
  const int share = std::max(state_.options.lanes[group.lane().index()].share_min, 1);
  group.rests_until = now + group.saves_for * 1000 / share;
}

/// The job of another lane of the same service that goes before the flow's, since its lane has not had its
/// share_min: of a lower one, or of one that the flow's job passes since it is boosted. It ignores holds and
/// lines of all lanes but the top.
///
/// An owed job that costs more than is left saves up before all others but the top lane, one for each lane:
/// else others would take what comes in, piece by piece. A job that exceeds the burst without the top lane's
/// hold is never owed: the top lane would have to wait for it.
Pick Dispatcher::owed_others(const Flow& next, TimePoint now) {
  Service& service = next.service();
  const auto passed = [&](const FlowGroup& group) {
    const LaneIndex lane = group.lane().index();
    return lane >= level_ && lane != next.lane().index() && state_.options.lanes[lane].share_min > 0 &&
           service.owed[lane] > 0 && terms_.can_start(group);
  };
  for (FlowGroup* group : service.groups) {
    if (!passed(*group)) continue;
    while (Flow* const first = group->first_able(service.owed[group->lane().index()] / 1000)) {
      if (!state_.budgets.leaves_hold(first->budgets(), terms_.owed_claim_of(*first->head()))) {
        group->set_never_owed(*first);
        continue;
      }
      if (const Pick pick = ask_as_owed(*first, now)) return pick;
      // It cannot start now, and waits in line.
      if (const Pick pick = ask(*first, As::usual, now)) return pick;
    }
  }
  for (FlowGroup* group : service.groups) {
    if ((group->saver != nullptr && group->saver->saves()) || now < group->rests_until || !passed(*group))
      continue;
    while (Flow* const first = group->first_short(service.owed[group->lane().index()] / 1000)) {
      if (!state_.budgets.leaves_hold(first->budgets(), terms_.owed_claim_of(*first->head()))) {
        group->set_never_owed(*first);
        continue;
      }
      if (const Pick pick = ask(*first, As::owed, now)) return pick;
      break;
    }
  }
  return {};
}

/// The job of another service that is owed to its lane, stands before the flow in a line of a budget of both,
/// and can start now. If it were asked later, the flow would wait until others have taken the place.
Pick Dispatcher::owed_elsewhere(const Flow& next, TimePoint now) {
  for (const std::size_t budget : state_.budgets.of(next.budgets()))
    while (Flow* const owed = parking_.owed_before(budget, next))
      if (const Pick pick = ask(*owed, As::usual, now)) return pick;
  return {};
}

std::int64_t Dispatcher::take(Job& job) {
  Flow& flow = job.flow();
  const std::int64_t cost = flow.cost_of(job);
  const std::optional<std::int64_t> tokens = flow.counts_tokens() ? std::optional(cost) : std::nullopt;
  state_.lanes[job.lane]->charge(flow, tokens);
  if (terms_.boosts())
    if (const LaneIndex level = terms_.level_of(job, terms_.begun_at()); level != job.lane)
      state_.lanes[level]->charge_boosted(tokens);
  if (job.waits_alone())
    flow.correct(*job.queue, cost);
  else
    flow.charge(*job.queue, cost);
  state_.leave_queue(job);
  // Counted even without shares, since a later share uses the mean.
  if (flow.counts_tokens()) flow.service().note_cost(cost);
  if (terms_.shares()) share_out(job);
  return cost;
}

/// Credits each other lane that has jobs of the service with its share of a job that is handed over, once per
/// lane, however many flows it has. All costs are in one unit: a job whose tokens are not counted costs what
/// counted jobs of the service usually cost.
void Dispatcher::share_out(const Job& job) {
  Service& service = job.flow().service();
  const std::int64_t cost = job.flow().counts_tokens() ? job.cost() : service.usual_cost();
  for (FlowGroup* group : service.groups) {
    const LaneIndex lane = group->lane().index();
    const int share = state_.options.lanes[lane].share_min;
    if (share == 0 || lane == job.lane || group->most() == 0) continue;
    std::int64_t& owed = service.owed[lane];
    owed = std::min(owed + cost * share, 2000 * group->most());
  }
  std::int64_t& owed = service.owed[job.lane];
  owed = std::max<std::int64_t>(owed + cost * (state_.options.lanes[job.lane].share_min - 1000), 0);
  Flow* const saver = job.flow().group().saver;
  if (saver != nullptr && saver->saves() && !is_owed(*saver)) parking_.leave(*saver);
}

// ---- budgets that are shared ------------------------------------------------------------------------

/// A lane wants what those of its jobs cost whose workers have places and that lack nothing else: what nobody
/// could use would be taken from other shards. As many as may run at once, or as went since the last draw and
/// as many again, so that short calls are not held up.
void Dispatcher::say_wants(TimePoint now) {
  if (!state_.budgets.shared.any()) return;
  const std::vector<Budget>& budgets = state_.budgets.all();
  const auto is_shared = [&](std::size_t line) {
    return line < budgets.size() && budgets[line].slices != nullptr;
  };
  for (std::size_t place = 0; place < budgets.size(); ++place) {
    if (!is_shared(place)) continue;
    std::array<LaneWant, kLanesMax> wants{};
    std::size_t looked_at = 0;
    parking_.any_in_line(place, [&](const Flow& flow) {
      if (++looked_at > kFlowsWanting) return true;
      if (flow.empty() || !Parking::lacks_only(flow, is_shared) || !terms_.can_start(flow.group()))
        return false;
      const Job& head = *flow.head();
      const Claim claim = terms_.claim_of(head, now);
      LaneWant& want = wants[claim.lane];
      if (want.jobs == 0) {
        want.head = claim.amounts;
        want.hold = claim.hold;
        want.client_mark = head.queue->client().party().mark;
        want.refused = state_.budgets.refused_of(flow.budgets(), place, claim);
        want.all = {.requests = 0};
        want.clients = 0;
      }
      const auto waiting = static_cast<std::int64_t>(flow.depth());
      const auto places = static_cast<std::int64_t>(flow.service().places);
      const std::int64_t jobs = std::min(waiting, std::max(places, 2 * budgets[place].drawn_for));
      want.jobs += jobs;
      want.all = sum_of(want.all, {.requests = claim.amounts.requests * jobs,
                                   .input_tokens = claim.amounts.input_tokens * jobs,
                                   .output_tokens = claim.amounts.output_tokens * jobs});
      want.clients += static_cast<std::uint32_t>(flow.weight());
      return false;
    });
    for (std::size_t lane = 0; lane < state_.lanes.size(); ++lane) {
      wants[lane].lane = lane;
      wants[lane].clients = std::max<std::uint32_t>(wants[lane].clients, 1);
      state_.budgets.shared.want(place, wants[lane]);
    }
  }
}

// ---- what keeps a job waiting -------------------------------------------------------------------------

/// Whether no other job of the service waits. Which of several goes next, or tries a failed upstream, is not
/// known ahead.
bool Dispatcher::waits_alone(const Job& job) const {
  const std::vector<FlowGroup*>& groups = job.flow().service().groups;
  return std::all_of(groups.begin(), groups.end(), [&](const FlowGroup* group) {
    return std::all_of(group->flows().begin(), group->flows().end(), [&](const auto& flow) {
      return flow->depth() == (flow.get() == &job.flow() ? 1U : 0U);
    });
  });
}

/// Whether another job for the same budgets may go before this one, now the first in line, until `by`:
/// because its lane is owed it, or because it is boosted by then.
bool Dispatcher::may_be_passed(const Job& job, TimePoint by, TimePoint now) {
  const Rank rank = rank_of(job, by);
  // While the job's model is paused apart other models take what comes in.
  const bool apart = state_.budgets.model_pause(job.flow().budgets(), now).budget != nullptr;
  const auto passes = [&](const Flow& other) {
    if (&other == &job.flow() || other.empty()) return false;
    return apart || (!terms_.is_top(job.lane) && is_owed(other)) || rank_of(*other.head(), by) < rank;
  };
  const std::vector<std::size_t>& budgets = state_.budgets.of(job.flow().budgets());
  if (std::any_of(budgets.begin(), budgets.end(),
                  [&](std::size_t budget) { return parking_.any_in_line(budget, passes); }))
    return true;
  // Models that were paused apart come back when their pause is over.
  for (std::size_t model = 0; state_.budgets.any_apart() && model < Budgets::kModelsApartMax; ++model)
    if (parking_.any_in_line(state_.budgets.line_of(model), passes)) return true;
  return false;
}

/// The operator's pause that the job waits for, for its status; empty: none.
std::string Dispatcher::paused_by(const Job& job) const {
  if (state_.pauses.empty()) return {};
  const Flow& flow = job.flow();
  std::vector<std::pair<PauseKind, std::string>> needed{{PauseKind::lane, flow.lane().options().name},
                                                        {PauseKind::service, flow.service().name},
                                                        {PauseKind::client, job.queue->client().name}};
  for (const std::size_t i : state_.budgets.of(flow.budgets()))
    needed.emplace_back(PauseKind::budget, state_.budgets.all()[i].options.name);
  for (const auto& [kind, name] : needed) {
    const Pause* const pause = state_.pauses.find(kind, name);
    if (pause == nullptr) continue;
    const std::string what = "paused " + std::string(name_of(kind)) + " " + name;
    return pause->reason.empty() ? what : what + ": " + pause->reason;
  }
  return {};
}

/// Names what a job of that lane lacks which no worker may be given.
std::string Dispatcher::no_worker(const Service& service, LaneIndex lane) const {
  const std::string none = "no worker " + service.name;
  if (service.workers == 0) return none;
  return none + " lane=" + state_.lanes[lane]->options().name +
         (state_.workers.drains(service, lane) ? " draining" : "");
}

Dispatcher::Wait Dispatcher::wait_of(const Job& job, TimePoint now) {
  if (job.adoptable) return {"worker that ran it before the restart", {}};
  if (job.state == JobState::delayed) return {job.attempt == 0 ? "delay" : "retry", job.at_away().due};
  if (std::string pause = paused_by(job); !pause.empty()) return {std::move(pause), {}};
  Service& service = job.flow().service();
  const std::size_t model = state_.budgets.model_of(job.flow().budgets());
  if (Service::FailedModel* const failed = service.failed_model(model);
      failed != nullptr && !failed->breaker.admits(terms_.is_top(job.lane), now)) {
    const TimePoint until = waits_alone(job) ? failed->breaker.admits_at(terms_.is_top(job.lane)) : kNever;
    return {"upstream " + service.name + " model=" + state_.budgets.model_name(model) +
                whose(failed->breaker, job.queue->client()),
            until == kNever ? std::nullopt : std::optional(until)};
  }
  for (const ClientQueue* queue = job.queue; queue != nullptr; queue = queue->tenant)
    if (queue->barred) return {"upstream " + service.name + " client=" + queue->client().name, {}};
  if (!service.breaker.closed() && !service.breaker.admits(terms_.is_top(job.lane), now)) {
    const TimePoint until = waits_alone(job) ? service.breaker.admits_at(terms_.is_top(job.lane)) : kNever;
    return {"upstream " + service.name + whose(service.breaker, job.queue->client()),
            until == kNever ? std::nullopt : std::optional(until)};
  }
  if (!service.serves(job.lane)) return {no_worker(service, job.lane), {}};
  if (job.waits_alone()) return {"worker " + service.name + " alone", {}};
  if (state_.workers.find_place(service, job.lane) == nullptr) return {"worker " + service.name, {}};
  for (const Client* party = &job.queue->client(); party != nullptr; party = party->tenant)
    if (party->at_limit()) return {"client " + party->name + " in_flight_max", {}};
  if (state_.store_stalled && job.durable) return {"store", {}};
  if (state_.bodies_held && job.body_stored) return {"bodies", {}};
  const Flow& flow = job.flow();
  const BudgetSet set = flow.budgets();
  Claim claim = terms_.claim_of(job, now);
  Obstacle obstacle = state_.budgets.obstacle(set, claim, now);
  const bool reserved = obstacle && !state_.budgets.obstacle(set, {.amounts = claim.amounts}, now);
  bool next = flow.head() == &job;  // no job goes before it
  const Rank rank = next ? parking_.rank_of(flow, rank_of(job, now)) : rank_of(job, now);
  claim.number = ++claims_;
  for (const std::size_t place : state_.budgets.of(set)) {
    // An account could pay, but a flow ahead has earmarked it.
    const Budget& budget = state_.budgets.all()[place];
    Stall saved;
    const Stall* const ahead = parking_.ahead(place, rank, [&](const Stall& stall) {
      state_.budgets.earmark(place, stall.account, claim);
      saved = stall;
    });
    if (ahead != nullptr || saved.account != Stall::kNoAccount) next = false;
    if (obstacle) continue;
    if (ahead != nullptr)
      obstacle = {.budget = &budget, .rate = ahead->rate};
    else if (saved.account != Stall::kNoAccount && state_.budgets.obstacle_of(set, place, claim, now))
      obstacle = {.budget = &budget, .account = &budget.accounts[saved.account], .rate = saved.rate};
  }
  if (!obstacle) return {"lane " + state_.lanes[job.lane]->options().name, {}};
  TimePoint until = next ? state_.budgets.foreseen(set, claim, now) : kNever;
  if (until != kNever && may_be_passed(job, until, now)) until = kNever;
  return {(reserved && next ? "reserve " : "budget ") + obstacle.name(),
          until == kNever || until <= now ? std::nullopt : std::optional(until)};
}

}  // namespace lanemq::core
