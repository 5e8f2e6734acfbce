// SPDX-License-Identifier: Apache-2.0
#include "broker/whatif/simulate.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>

#include <lanemq/codec.hpp>
#include <lanemq/text.hpp>

#include "broker/core/base/check.hpp"
#include "broker/core/broker.hpp"
#include "broker/whatif/fairness.hpp"
#include "broker/whatif/waited_use.hpp"
#include "broker/whatif/window_peak.hpp"

namespace lanemq::whatif {
namespace {

using core::Duration;
using core::TimePoint;

constexpr std::uint64_t kSeed = 1;
/// Messages of one turn, as in the broker's loop.
constexpr std::size_t kTurnMessagesMax = 1000;
/// The model's workers are never silent, so heartbeats would show nothing.
constexpr Duration kNoHeartbeat = 2 * kSpanMax;

std::size_t number_in(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  LANEMQ_CHECK(error == std::errc() && end == text.data() + text.size());
  return number;
}

/// The smallest value that a share of `q` of all does not exceed (nearest rank). Requires: sorted.
Duration quantile(const std::vector<Duration>& values, double q) {
  if (values.empty()) return Duration::zero();
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

double as_double(Duration duration) {
  return static_cast<double>(duration.count());
}

/// Counts what is sent under one budget, independently of the broker's books.
class Meter {
 public:
  explicit Meter(const core::BudgetOptions& budget) : budget_(budget) {
    for (const core::RateOptions& rate : budget.rates) {
      rates_.emplace_back(rate.period);
      waited_.emplace_back(rate.period);
    }
  }

  /// `tenant_of`: looks the tenant up; called only where the budget asks for one.
  template <class TenantOf>
  bool matches(const Request& request, std::string_view lane, TenantOf tenant_of) const {
    const auto match = [](const std::string& pattern, std::string_view value) {
      return pattern.empty() || glob_match(pattern, value);
    };
    return match(budget_.service, request.service) && match(budget_.model, request.model) &&
           match(budget_.client, request.client) && match(budget_.lane, lane) &&
           (budget_.tenant.empty() || matches_tenant(tenant_of(request.client)));
  }
  bool matches_tenant(const std::string& tenant) const {
    return !tenant.empty() && glob_match(budget_.tenant, tenant);
  }
  void begin(const core::Amounts& amounts, TimePoint now) {
    for (std::size_t i = 0; i < rates_.size(); ++i) {
      rates_[i].add(now, amounts.of(budget_.rates[i].resource));
      waited_[i].sent(now, amounts.of(budget_.rates[i].resource));
    }
    pass(now);
    running_peak_ = std::max(running_peak_, ++running_);
  }
  void end(TimePoint now) {
    pass(now);
    --running_;
  }

  /// The number of services that have waiting jobs and a free place changes by `more`.
  void count_waiting_services(int more) { waiting_services_ += more; }
  /// Ends a turn: jobs that wait now wait until the next turn.
  void end_turn(TimePoint now) {
    for (WaitedUse& waited : waited_)
      waited.set_waiting(waiting_services_ > 0, now);
  }

  void report(Duration ran, std::vector<LimitReport>& limits) const {
    for (std::size_t i = 0; i < rates_.size(); ++i) {
      const core::RateOptions& rate = budget_.rates[i];
      const double periods = std::max(as_double(ran) / as_double(rate.period), 1.0);
      limits.push_back({.budget = budget_.name,
                        .name = rate.name,
                        .limit = rate.limit,
                        .used = static_cast<double>(rates_[i].total()),
                        .allowed = static_cast<double>(rate.limit) * periods,
                        .peak = rates_[i].peak(),
                        .waited_periods = waited_[i].periods(),
                        .waited_used = static_cast<double>(waited_[i].used())});
    }
    if (budget_.concurrency > 0)
      limits.push_back({.budget = budget_.name,
                        .name = "concurrency",
                        .limit = budget_.concurrency,
                        .concurrency = true,
                        .used = ran.count() > 0 ? running_time_ / as_double(ran) : 0,
                        .allowed = static_cast<double>(budget_.concurrency),
                        .peak = running_peak_});
  }

 private:
  void pass(TimePoint now) {
    running_time_ += static_cast<double>(running_) * as_double(now - counted_to_);
    counted_to_ = now;
  }

  const core::BudgetOptions& budget_;
  std::vector<WindowPeak> rates_;
  std::vector<WaitedUse> waited_;
  int waiting_services_ = 0;
  std::int64_t running_ = 0, running_peak_ = 0;
  double running_time_ = 0;  // of all jobs, in us
  TimePoint counted_to_{};
};

/// A broker, its clients and its workers, in virtual time.
class Simulation {
 public:
  Simulation(const core::Options& options, std::span<const Request> requests, const WorkerModel& model,
             const Watch& watch)
      : options_(with_workers(options)),
        requests_(requests),
        model_(model),
        watch_(watch),
        broker_(options_, kSeed) {
    LANEMQ_CHECK(!requests.empty() && requests.size() <= std::numeric_limits<std::uint32_t>::max());
    for (const core::BudgetOptions& budget : options_.budgets)
      meters_.emplace_back(budget);
    lanes_.resize(options_.lanes.size());
    waiting_.resize(requests.size());
  }

  Report run() {
    start_workers();
    while (ended_ < requests_.size())
      turn(next_time());
    return report();
  }

 private:
  struct LaneFigures {
    std::size_t jobs = 0, succeeded = 0, refused = 0, expired = 0;
    std::vector<Duration> waits;
  };
  struct ClientFigures {
    double asked = 0, given = 0;
  };
  /// The waiting jobs of a service by meter, and its free places.
  struct ServiceFigures {
    std::size_t free = 0;
    std::vector<std::size_t> waiting;
  };
  struct Running {
    std::size_t request, worker;
    bool cancelled = false;
  };
  struct Due {
    TimePoint at;
    std::uint64_t job;  ///< the broker's number
    /// The later one is the smaller; of equal times the one that was handed over later.
    friend bool operator<(const Due& a, const Due& b) { return a.at != b.at ? a.at > b.at : a.job > b.job; }
  };

  static core::Options with_workers(core::Options options) {
    options.heartbeat = kNoHeartbeat;
    options.workers_max =
        std::numeric_limits<std::size_t>::max();  // the model decides, not the configuration
    return options;
  }

  /// An inventory must fit one message, so a service with many places has several workers.
  void start_workers() {
    std::set<std::string_view> services;
    for (const Request& request : requests_) {
      if (!services.insert(request.service).second) continue;
      // Jobs of services beyond the bound are refused.
      if (services.size() > options_.services_max) break;
      services_[request.service].free = model_.places;
      for (std::size_t left = model_.places; left > 0;) {
        const std::size_t places = std::min(left, limits::capacity_max);
        wire::Ready ready;
        ready.services = {request.service};
        ready.capacity = static_cast<std::int64_t>(places);
        broker_.handle(core::WorkerReady{std::to_string(workers_++), &ready}, now_);
        left -= places;
      }
    }
    broker_.outbox().clear();
  }

  TimePoint next_time() const {
    TimePoint next = core::kNever;
    if (next_request_ < requests_.size()) next = TimePoint(requests_[next_request_].at);
    if (!due_.empty()) next = std::min(next, due_.top().at);
    // next_wakeup() may be now, where more is due than one turn handles.
    if (const auto wakeup = broker_.next_wakeup()) next = std::min(next, *wakeup);
    LANEMQ_CHECK(next != core::kNever);  // else jobs would stay for ever
    return std::max(next, now_);
  }

  void turn(TimePoint now) {
    now_ = now;
    std::size_t messages = 0;
    for (; messages < kTurnMessagesMax && !due_.empty() && due_.top().at <= now; ++messages) {
      const std::uint64_t job = due_.top().job;
      due_.pop();
      finish(job);
    }
    for (messages = 0; messages < kTurnMessagesMax && next_request_ < requests_.size() &&
                       TimePoint(requests_[next_request_].at) <= now;
         ++messages)
      submit(next_request_++);
    broker_.advance(now);
    take_outbox();
    for (Meter& meter : meters_)
      meter.end_turn(now);
  }

  ServiceFigures& service_of(const Request& request) {
    ServiceFigures& service = services_[request.service];
    service.waiting.resize(meters_.size());
    return service;
  }
  /// The request begins to wait, or stops waiting.
  void count_waiting(const Request& request, bool waits) {
    ServiceFigures& service = service_of(request);
    for (std::size_t i = 0; i < meters_.size(); ++i) {
      if (!counts(meters_[i], request)) continue;
      const bool before = service.waiting[i] > 0;
      service.waiting[i] = waits ? service.waiting[i] + 1 : service.waiting[i] - 1;
      const bool after = service.waiting[i] > 0;
      if (service.free > 0 && before != after) meters_[i].count_waiting_services(after ? 1 : -1);
    }
  }
  /// A place of the request's service is taken or freed.
  void count_free(const Request& request, bool taken) {
    ServiceFigures& service = service_of(request);
    const bool before = service.free > 0;
    service.free = taken ? service.free - 1 : service.free + 1;
    const bool after = service.free > 0;
    for (std::size_t i = 0; i < meters_.size() && before != after; ++i)
      if (service.waiting[i] > 0) meters_[i].count_waiting_services(after ? 1 : -1);
  }

  std::size_t lane_of(const Request& request) const {
    const auto place = std::find_if(options_.lanes.begin(), options_.lanes.end(), [&](const auto& lane) {
      return request.lane.empty() ? lane.is_default : lane.name == request.lane;
    });
    LANEMQ_CHECK(place != options_.lanes.end());
    return static_cast<std::size_t>(place - options_.lanes.begin());
  }

  static core::Amounts amounts_of(const Request& request) {
    return {.input_tokens = request.input_tokens, .output_tokens = request.output_tokens};
  }
  static double cost_of(const Request& request) {
    return static_cast<double>(std::max<std::int64_t>(request.input_tokens + request.output_tokens, 1));
  }

  void submit(std::size_t number) {
    const Request& request = requests_[number];
    ++lanes_[lane_of(request)].jobs;
    clients_[request.client].asked += cost_of(request);
    waiting_[number] = true;
    count_waiting(request, true);
    const std::string id = std::to_string(number);  // the id is in the offer and the answer
    wire::Submit submit;
    submit.id = id;
    submit.service = request.service;
    submit.lane = request.lane;
    submit.model = request.model;
    submit.client = request.client;
    submit.cost = wire::Cost{request.input_tokens, request.output_tokens};
    submit.retain_ms = 0;
    broker_.handle(core::Submitted{{.address = request.client}, &submit, {}}, now_);
  }

  bool counts(const Meter& meter, const Request& request) const {
    return meter.matches(request, options_.lanes[lane_of(request)].name, [this](std::string_view client) {
      return broker_.clients().options_of(client).tenant;
    });
  }

  /// A worker reports the outcome of a job, or that it stopped it.
  void finish(std::uint64_t job) {
    const auto place = running_.find(job);
    if (place == running_.end()) return;  // the job was stopped before
    const Request& request = requests_[place->second.request];
    const std::string worker = std::to_string(place->second.worker);
    for (Meter& meter : meters_)
      if (counts(meter, request)) meter.end(now_);
    count_free(request, false);
    if (place->second.cancelled) {
      wire::Failure failure;
      failure.job = job;
      failure.error_class = name_of(ErrorClass::permanent);
      broker_.handle(core::FailureReported{worker, &failure, {}}, now_);
    } else {
      wire::Outcome outcome;
      outcome.job = job;
      outcome.usage = wire::Usage{
          .requests = 1, .input_tokens = request.input_tokens, .output_tokens = request.output_tokens};
      broker_.handle(core::OutcomeReported{worker, &outcome, {}}, now_);
    }
    running_.erase(place);
  }

  Duration run_time(const Request& request) const {
    if (model_.tokens_per_second <= 0) return model_.first_token;
    const double tokens = static_cast<double>(request.output_tokens) / model_.tokens_per_second *
                          as_double(std::chrono::seconds(1));
    // Longer than any job may take: the job expires.
    return model_.first_token + Duration(std::llround(std::min(tokens, as_double(kSpanMax))));
  }

  void take_outbox() {
    core::Outbox& outbox = broker_.outbox();
    for (const core::Send& send : outbox.sends) {
      if (send.peer == core::Peer::worker) {
        LANEMQ_CHECK(decoder_.decode(outbox.header(send), command_) == nullptr);
        if (const auto* offer = std::get_if<wire::JobOffer>(&command_))
          begin(*offer, number_in(outbox.address(send)));
        else if (const auto* cancel = std::get_if<wire::CancelJob>(&command_))
          break_off(cancel->job);
      } else {
        LANEMQ_CHECK(decoder_.decode(outbox.header(send), reply_) == nullptr);
        if (const auto* result = std::get_if<wire::JobResult>(&reply_)) {
          ++lanes_[lane_of(requests_[number_in(result->id)])].succeeded;
          end(result->id);
        } else if (const auto* error = std::get_if<wire::ErrorReply>(&reply_)) {
          note_error(*error);
          end(error->id);
        }
      }
    }
    outbox.clear();
  }

  void end(std::string_view id) {
    const std::size_t number = number_in(id);
    if (waiting_[number]) count_waiting(requests_[number], false);
    waiting_[number] = false;
    ++ended_;
    ended_at_ = now_;
  }

  void begin(const wire::JobOffer& offer, std::size_t worker) {
    const std::size_t number = number_in(offer.id);
    const Request& request = requests_[number];
    LANEMQ_CHECK(offer.attempt == 1);  // nothing in the model is retried
    const std::size_t lane = lane_of(request);
    waiting_[number] = false;
    count_waiting(request, false);
    count_free(request, true);
    if (watch_) watch_(number, now_.time_since_epoch());
    lanes_[lane].waits.push_back(now_ - TimePoint(request.at));
    if (now_ <= TimePoint(requests_.back().at)) clients_[request.client].given += cost_of(request);
    for (Meter& meter : meters_)
      if (counts(meter, request)) meter.begin(amounts_of(request), now_);
    running_.emplace(offer.job, Running{.request = number, .worker = worker});
    due_.push({now_ + run_time(request), offer.job});
  }

  void break_off(std::uint64_t job) {
    running_.at(job).cancelled = true;
    due_.push({now_, job});
  }

  void note_error(const wire::ErrorReply& error) {
    const Request& request = requests_[number_in(error.id)];
    LaneFigures& lane = lanes_[lane_of(request)];
    if (error.code == name_of(ErrorCode::deadline)) {
      ++lane.expired;
      return;
    }
    ++lane.refused;
    RefusalReport& refusal = refused_[std::string(error.code)];
    if (refusal.count++ == 0) refusal.example = error.message;
    // A job that can never run is no demand that could be met.
    if (!error.retry_after_ms) clients_[request.client].asked -= cost_of(request);
  }

  double fairness() const {
    std::vector<double> asked;
    double total = 0;
    for (const auto& [name, client] : clients_) {
      asked.push_back(client.asked);
      total += client.given;
    }
    const std::vector<double> shares = max_min_shares(asked, total);
    std::vector<double> relative;
    std::size_t i = 0;
    for (const auto& [name, client] : clients_) {
      if (shares[i] > 0) relative.push_back(client.given / shares[i]);
      ++i;
    }
    return jain_index(relative);
  }

  Report report() {
    Report report{.requests = requests_.size(),
                  .arrivals = requests_.back().at,
                  .ran = ended_at_.time_since_epoch(),
                  .clients = clients_.size(),
                  .fairness = fairness()};
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      LaneFigures& lane = lanes_[i];
      if (lane.jobs == 0) continue;
      std::sort(lane.waits.begin(), lane.waits.end());
      report.lanes.push_back({.name = options_.lanes[i].name,
                              .jobs = lane.jobs,
                              .succeeded = lane.succeeded,
                              .refused = lane.refused,
                              .expired = lane.expired,
                              .wait_p50 = quantile(lane.waits, 0.50),
                              .wait_p99 = quantile(lane.waits, 0.99),
                              .wait_max = quantile(lane.waits, 1)});
    }
    for (const Meter& meter : meters_)
      meter.report(report.ran, report.limits);
    for (auto& [code, refusal] : refused_) {
      report.refused.push_back(std::move(refusal));
      report.refused.back().code = code;
    }
    return report;
  }

  const core::Options options_;
  const std::span<const Request> requests_;
  const WorkerModel model_;
  const Watch& watch_;
  core::Broker broker_;
  TimePoint now_{}, ended_at_{};
  std::size_t next_request_ = 0, ended_ = 0, workers_ = 0;
  std::priority_queue<Due> due_;
  std::unordered_map<std::uint64_t, Running> running_;  // by the broker's number; never iterated
  std::vector<Meter> meters_;
  std::vector<bool> waiting_;                                      // by request
  std::unordered_map<std::string_view, ServiceFigures> services_;  // never iterated
  std::vector<LaneFigures> lanes_;
  std::map<std::string_view, ClientFigures> clients_;
  std::map<std::string, RefusalReport> refused_;
  Decoder decoder_;
  wire::WorkerCommand command_;
  wire::ClientReply reply_;
};

}  // namespace

Report simulate(const core::Options& options, std::span<const Request> requests, const WorkerModel& model,
                const Watch& watch) {
  return Simulation(options, requests, model, watch).run();
}

}  // namespace lanemq::whatif
