// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/upstreams.hpp"

#include <algorithm>

#include "broker/core/scheduler/flow_group.hpp"
#include "broker/core/scheduler/parking.hpp"
#include "broker/core/scheduler/state.hpp"
#include "broker/core/scheduler/terms.hpp"

namespace lanemq::core {
namespace {

constexpr std::size_t kAllModels = Budgets::kNoModel;

bool is_for(const Service::Bar& bar, const Client& client, std::size_t model) {
  return bar.client == client.name && (bar.model == kAllModels || bar.model == model);
}

/// Whether the mark is that of the client, or of its tenant.
bool is_its(std::uint64_t mark, const Client& client) {
  return mark == client.mark || mark == client.party().mark;
}

}  // namespace

bool Upstreams::called(Job& job, TimePoint now) {
  Service& service = job.flow().service();
  Away& away = job.at_away();
  away.called_in = service.breaker.called(now);
  if (service.is_sound()) return false;
  if (Service::FailedModel* const failed =
          service.failed_model(state_.budgets.model_of(job.flow().budgets())))
    away.model_called_in = failed->breaker.called(now);
  set_timer(service, now);
  return !service.breaker.closed();
}

Caller Upstreams::caller_of(const Job& job) {
  Caller caller = job.queue->client().caller();
  caller.model = job.at_away().model;
  return caller;
}

void Upstreams::judge(const Job& job, Verdict verdict, TimePoint now) {
  Service& service = job.flow().service();
  const bool was_sound = service.is_sound();
  // Timers that came due since the last turn are handled first, since the timer is set anew below.
  if (!was_sound) look_after(service, now);
  if (job.at_away().model_called_in != CircuitBreaker::kNoPeriod) {
    const std::size_t model = state_.budgets.model_of(job.flow().budgets());
    if (Service::FailedModel* const failed = service.failed_model(model)) {
      judge(job, failed->breaker, model, verdict, now);
      parking_.ease(state_.budgets.line_of(model));
    }
    // A call of a model that is known to fail says nothing about other models.
    if (verdict == Verdict::failure || verdict == Verdict::unreachable) verdict = Verdict::unknown;
    forget_failed(service, now);
  }
  if (service.tells_ends)
    judge_receiver(job, verdict, now);
  else
    judge(job, service.breaker, kAllModels, verdict, now);
  // A sound service needs no timer.
  if (!was_sound || !service.is_sound()) set_timer(service, now);
}

/// A receiver of webhooks fails alone, whichever client's webhook it was.
void Upstreams::judge_receiver(const Job& job, Verdict verdict, TimePoint now) {
  CircuitBreaker& breaker = job.flow().service().breaker;
  const Caller caller = verdict == Verdict::unknown ? Caller{} : caller_of(job);
  if (breaker.call_of_model_ended(verdict, caller, now) == CircuitBreaker::Finding::one_model_fails)
    leave_model(job, job.text.get(JobText::model), {}, now);
}

void Upstreams::judge(const Job& job, CircuitBreaker& breaker, std::size_t model, Verdict verdict,
                      TimePoint now) {
  Service& service = job.flow().service();
  const Away& away = job.at_away();
  const CircuitBreaker::State before = breaker.state();
  const auto finding =
      breaker.ended(verdict, model == kAllModels ? away.called_in : away.model_called_in,
                    verdict == Verdict::unknown ? Caller{} : caller_of(job), now, state_.random);
  if (finding == CircuitBreaker::Finding::nothing && breaker.state() == before) return;
  Client& client = job.queue->client();
  const std::string_view name = job.text.get(JobText::model);
  // If another client waits, its call is next and shows whether the upstream fails for it, too.
  if (finding == CircuitBreaker::Finding::one_client_fails) {
    const Caller suspect = breaker.suspect();
    const bool is_client = suspect.narrowest() == client.mark;
    if (!others_wait(service, client.party(), model, now) &&
        !(is_client && others_wait(service, client, model, now)))
      breaker.open(suspect, now, state_.random);
  }
  // If no more models can be apart the whole upstream counts as failed.
  if (finding == CircuitBreaker::Finding::one_model_fails &&
      leave_model(job, name, breaker.only_caller_of(caller_of(job).model), now) == nullptr &&
      before == CircuitBreaker::State::half_open)
    breaker.open({}, now, state_.random);
  note_breaker(service, breaker, before, model == kAllModels ? std::string_view{} : name, now);
  if (breaker.closed()) end_bars(service, model);
  if (model == kAllModels && before == CircuitBreaker::State::closed)
    service.only_model = breaker.names_only(caller_of(job).model) ? name : std::string_view{};
  if (before != CircuitBreaker::State::half_open || breaker.state() != CircuitBreaker::State::open) return;
  // Others try next: other tenants, or else other clients of this one.
  Client* const whose = others_wait(service, client.party(), model, now) ? &client.party()
                        : others_wait(service, client, model, now)       ? &client
                                                                         : nullptr;
  if (whose == nullptr) return;
  bar(*whose, service, model, breaker.others_first_until());
  if (breaker.only_client() == client.mark || breaker.only_client() == whose->mark) breaker.try_now(now);
}

void Upstreams::note_breaker(const Service& service, const CircuitBreaker& breaker,
                             CircuitBreaker::State before, std::string_view model, TimePoint now) {
  if (breaker.state() == before) return;
  Notice notice{.kind = Notice::Kind::upstream_closed, .service = service.name, .model = std::string(model)};
  if (!breaker.closed()) {
    ++state_.stats.upstreams_opened;
    notice.kind = Notice::Kind::upstream_opened;
    notice.retry_ms = to_ms(breaker.admits_at(false) - now);
  }
  state_.outbox.notices.push_back(std::move(notice));
}

/// Whether jobs wait in flows whose budgets are such.
template <class Such>
bool Upstreams::any_waits(Such such) const {
  for (const auto& lane : state_.lanes)
    for (const auto& group : lane->groups())
      for (const auto& flow : group->flows())
        if (flow->depth() > 0 && such(flow->budgets())) return true;
  return false;
}

/// Whether jobs wait in flows for the apart model at that place.
bool Upstreams::has_jobs_apart(std::size_t model) const {
  return any_waits([&](BudgetSet set) { return state_.budgets.model_of(set) == model; });
}

bool Upstreams::waits_for_learnt(std::size_t budget) const {
  return any_waits([&](BudgetSet set) {
    const std::vector<std::size_t>& budgets = state_.budgets.of(set);
    return !budgets.empty() && budgets.front() == budget;
  });
}

bool Upstreams::waits_apart(std::size_t model) const {
  const auto& services = state_.workers.services();
  return has_jobs_apart(model) || std::any_of(services.begin(), services.end(), [&](const auto& one) {
           return one.second->failed_model(model) != nullptr;
         });
}

/// Whether others have jobs that could try the service, or the model: other tenants where `whose` is one, or
/// a client without one, and else other clients of its tenant.
bool Upstreams::others_wait(const Service& service, const Client& whose, std::size_t model,
                            TimePoint now) const {
  const auto could_try = [&](const Flow& flow) {
    return model == kAllModels ? terms_.model_open_from(flow, now) <= now
                               : state_.budgets.model_of(flow.budgets()) == model;
  };
  if (whose.tenant != nullptr) {
    const auto& queues = whose.tenant->queues;
    return std::any_of(queues.begin(), queues.end(), [&](const auto& queue) {
      const Flow& flow = queue->flow();
      return &flow.service() == &service && !flow.paused() && queue->inside->others_than(whose) &&
             could_try(flow);
    });
  }
  return std::any_of(service.groups.begin(), service.groups.end(), [&](const FlowGroup* group) {
    return std::any_of(group->flows().begin(), group->flows().end(),
                       [&](const auto& flow) { return flow->others_than(whose) && could_try(*flow); });
  });
}

/// Sets a model apart whose calls fail while others are answered. `fails_for`: the party for which alone they
/// fail. Null where no more models can be apart.
Service::FailedModel* Upstreams::leave_model(const Job& job, std::string_view name, const Caller& fails_for,
                                             TimePoint now) {
  Service& service = job.flow().service();
  const Client& whose = job.queue->client().party();
  forget_failed(service, now);
  const auto its = std::count_if(service.failed_models.begin(), service.failed_models.end(),
                                 [&](const auto& failed) { return failed.client == whose.mark; });
  if (its >= Service::kFailedModelsOfClient) return nullptr;
  if (service.tells_ends && service.failed_models.size() >= Service::kFailedReceiversMax) return nullptr;
  const std::size_t model = state_.budgets.go_apart(name, whose.name, now,
                                                    [this](std::size_t place) { return waits_apart(place); });
  if (model == Budgets::kNoModel) return nullptr;
  if (Service::FailedModel* const known = service.failed_model(model)) return known;
  Service::FailedModel& failed = service.failed_models.emplace_back(Service::FailedModel{
      .model = model, .client = whose.mark, .breaker = CircuitBreaker(service.next_period)});
  failed.breaker.open(fails_for, now, state_.random);
  note_breaker(service, failed.breaker, CircuitBreaker::State::closed, name, now);
  return &failed;
}

void Upstreams::comes(const Job& job, TimePoint now) {
  Service& service = job.flow().service();
  if (service.is_sound()) return;
  look_after(service, now);
  const Client& client = job.queue->client();
  const std::size_t model = state_.budgets.model_of(job.flow().budgets());
  for (ClientQueue* queue = job.queue; queue != nullptr; queue = queue->tenant) {
    if (queue->barred || std::none_of(service.bars.begin(), service.bars.end(), [&](const Service::Bar& bar) {
          return is_for(bar, queue->client(), model);
        }))
      continue;
    queue->barred = true;
    job.flow().update(*queue);
  }
  const auto fails_for_others = [&](const CircuitBreaker& breaker) {
    return breaker.only_client() != kNoMark && !is_its(breaker.only_client(), client);
  };
  const std::string_view name = job.text.get(JobText::model);
  if (!service.only_model.empty() && !name.empty() && name != service.only_model &&
      leave_model(job, service.only_model, service.breaker.only(), now) != nullptr)
    try_now(service, service.breaker, kAllModels, client, now);
  else if (fails_for_others(service.breaker))
    try_now(service, service.breaker, kAllModels, client, now);
  Service::FailedModel* const failed = service.failed_model(model);
  if (failed != nullptr && fails_for_others(failed->breaker)) {
    try_now(service, failed->breaker, model, client, now);
    parking_.ease(state_.budgets.line_of(model));
  }
  set_timer(service, now);
}

/// Lets `by` try the upstream or model now. Bars the client, or tenant, for which alone it failed, unless
/// that is `by`, which may try with a job for another model.
void Upstreams::try_now(Service& service, CircuitBreaker& breaker, std::size_t model, const Client& by,
                        TimePoint now) {
  if (breaker.others_first_until() > now && !is_its(breaker.only_client(), by))
    if (Client* const only = state_.clients.find(breaker.only_client()))
      bar(*only, service, model, breaker.others_first_until());
  breaker.try_now(now);
  service.only_model.clear();
}

void Upstreams::bar(Client& client, Service& service, std::size_t model, TimePoint until) {
  if (service.bars.size() == Service::kBarsMax) {
    // The oldest bar ends early: it has had most of its time.
    service.bars.front().until = TimePoint::min();
    lift_bars(service, TimePoint::min());
  }
  service.bars.push_back({.client = client.name, .model = model, .until = until});
  for (const auto& queue : client.queues) {
    Flow& flow = queue->flow();
    if (&flow.service() != &service ||
        !is_for(service.bars.back(), client, state_.budgets.model_of(flow.budgets())))
      continue;
    queue->barred = true;
    flow.update(*queue);
  }
}

void Upstreams::lift_bars(Service& service, TimePoint now) {
  for (;;) {
    const auto over = std::find_if(service.bars.begin(), service.bars.end(),
                                   [&](const Service::Bar& bar) { return bar.until <= now; });
    if (over == service.bars.end()) return;
    Client* const client = state_.clients.find_party(over->client);
    service.bars.erase(over);
    if (client == nullptr) continue;
    for (const auto& queue : client->queues) {
      Flow& flow = queue->flow();
      if (!queue->barred || &flow.service() != &service) continue;
      queue->barred = std::any_of(service.bars.begin(), service.bars.end(), [&](const Service::Bar& bar) {
        return is_for(bar, *client, state_.budgets.model_of(flow.budgets()));
      });
      flow.update(*queue);
    }
  }
}

/// Removes the bars of the model, or of the service, which is not tried any more.
void Upstreams::end_bars(Service& service, std::size_t model) {
  for (Service::Bar& bar : service.bars)
    if (bar.model == model) bar.until = TimePoint::min();
  lift_bars(service, TimePoint::min());
}

/// Forgets failed models that are answered again, or for which no job comes any more.
void Upstreams::forget_failed(Service& service, TimePoint now) {
  auto& all = service.failed_models;
  for (std::size_t i = 0; i < all.size();) {
    const CircuitBreaker& breaker = all[i].breaker;
    if (!breaker.closed() && !(breaker.is_idle(now) && !has_jobs_apart(all[i].model))) {
      ++i;
      continue;
    }
    parking_.ease(state_.budgets.line_of(all[i].model));
    end_bars(service, all[i].model);
    service.next_period = std::max(service.next_period, breaker.period() + 1);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Upstreams::look_after(Service& service, TimePoint now) {
  service.breaker.advance(now);
  for (Service::FailedModel& failed : service.failed_models) {
    failed.breaker.advance(now);
    parking_.ease(state_.budgets.line_of(failed.model));
  }
  lift_bars(service, now);
  forget_failed(service, now);
  set_timer(service, now);
}

void Upstreams::set_timer(Service& service, TimePoint now) {
  TimePoint when = kNever;
  // A breaker that is due is looked at in the next turn; a half-open one waits for a call.
  const auto look_at = [&](const CircuitBreaker& breaker) {
    const TimePoint change = breaker.next_change();
    if (change > now || breaker.state() == CircuitBreaker::State::open) when = std::min(when, change);
  };
  look_at(service.breaker);
  for (const Service::FailedModel& failed : service.failed_models)
    look_at(failed.breaker);
  for (const Service::Bar& bar : service.bars)
    when = std::min(when, bar.until);
  if (when == kNever)
    state_.timers.clear(service.timer);
  else
    state_.timers.set(service.timer, std::max(when, now + TimerWheel::kTick));
}

std::vector<ShownBreaker> Upstreams::breakers_of(const Service& service) const {
  std::vector<ShownBreaker> shown;
  const auto show = [&](const CircuitBreaker& breaker, std::string_view model) {
    const Client* const only = state_.clients.find(breaker.only_client());
    if (!breaker.closed())
      shown.push_back({.model = model,
                       .client = only != nullptr ? std::string_view(only->name) : std::string_view{},
                       .state = name_of(breaker.state()),
                       .until = breaker.admits_at(false)});
  };
  show(service.breaker, {});
  for (const Service::FailedModel& failed : service.failed_models)
    show(failed.breaker, state_.budgets.model_name(failed.model));
  for (const Service::Bar& bar : service.bars)
    shown.push_back(
        {.model = bar.model == kAllModels ? std::string_view{} : state_.budgets.model_name(bar.model),
         .client = bar.client,
         .state = "others_first",
         .until = bar.until});
  return shown;
}

Budgets::UpstreamPause Upstreams::shut_until(BudgetSet set, TimePoint deadline, Elsewhere elsewhere,
                                             TimePoint now) const {
  const Budgets::UpstreamPause pause = state_.budgets.upstream_pause(set, now);
  if (pause.until > now && (elsewhere.when_limited || (!pause.tried && pause.until >= deadline)))
    return pause;
  const Budgets::UpstreamPause rest = state_.budgets.keys_rest(set, now);
  if (rest.budget == nullptr) return {};
  if (elsewhere.when_spent && (rest.tried || rest.until > now)) return rest;
  return !rest.tried && rest.until > now && rest.until >= deadline ? rest : Budgets::UpstreamPause{};
}

Budgets::UpstreamPause Upstreams::shut_out(const Job& job, TimePoint now) {
  return shut_out(state_.home_of(job), job.queue->client(), job.deadline, {}, now);
}

Budgets::UpstreamPause Upstreams::shut_out(BudgetSet set, const Client& client, TimePoint deadline,
                                           Elsewhere elsewhere, TimePoint now) {
  state_.budgets.try_keys_for(set, client.party().mark, now);
  return shut_until(set, deadline, elsewhere, now);
}

}  // namespace lanemq::core
