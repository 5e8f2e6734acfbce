// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/upstream.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "tests/support/upstream/break_off.hpp"
#include "tests/support/upstream/errors.hpp"
#include "tests/support/upstream/models.hpp"

namespace lanemq::upstream {
namespace {

constexpr std::string_view kKeyPath = "/admin/keys/";
constexpr std::string_view kReleasePath = "/admin/release";
constexpr std::string_view kModelsPath = "/v1/models";

std::string digits_of(std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

}  // namespace

Upstream::Upstream(const UpstreamOptions& options, TimePoint now, Log log)
    : options_(options), started_(now), log_(std::move(log)), peak_(meter(options)) {
  accounts_.reserve(std::max<std::size_t>(1, options.keys.size()));
  for (const ApiKey& key : options.keys)
    accounts_.emplace_back(key, options, now);
  if (accounts_.empty()) accounts_.emplace_back(ApiKey{}, options, now);
}

PeakMeter Upstream::meter(const UpstreamOptions& options) {
  return PeakMeter(options.quota.period, spans_of(options.quota.window), options.started_unix);
}

Call Upstream::receive(const Request& request, TimePoint now) {
  Call call{.arrived = now};
  const std::string_view path = request.path();
  if (const Api* const api = find_api(path); api && request.method == "POST") {
    Work work{.api = *api, .request = request, .call = call};
    receive_work(work);
    return call;
  } else if (api) {
    call.reply = wrong_method(request, "POST");
  } else if (path.starts_with(kKeyPath) && request.method == "POST") {
    call.reply = set_key(path.substr(kKeyPath.size()), request.body);
  } else if (path == kReleasePath && request.method == "POST") {
    call.reply = release(request.body);
    call.releases = true;
  } else if (path != "/healthz" && path != "/stats" && !path.starts_with(kModelsPath)) {
    call.reply = not_found(request);
  } else if (request.method != "GET") {
    call.reply = wrong_method(request, "GET");
  } else if (path == "/healthz") {
    call.reply.body = R"({"status":"ok"})";
  } else if (path == "/stats") {
    call.reply.body = stats_reply(now);
  } else {
    call.reply = models(request, path.substr(kModelsPath.size()));
  }
  return call;
}

Call Upstream::receive_oversized(const Request& request, std::uint64_t body_bytes_max, TimePoint now) {
  Call call{.arrived = now};
  const ApiError error{.message = "The body is larger than " + std::to_string(body_bytes_max) +
                                  " bytes (body-limit); send less.",
                       .code = "request_too_large"};
  if (const Api* const api = find_api(request.path())) {
    ++stats_.calls;
    ++stats_.bad_requests;
    Work work{.api = *api, .request = request, .call = call, .account = account_of(request)};
    call.record = begin_record(work);
    refuse(work, 413, error);
    add_headers(work);
  } else {
    call.reply = refusal(request, 413, error);
  }
  return call;
}

Call Upstream::receive_malformed(TimePoint now) {
  ++stats_.malformed;
  Call call{.arrived = now};
  call.reply =
      refusal({}, 400, {.message = "This is no HTTP/1.1 request, or its header is larger than the limit."});
  return call;
}

void Upstream::receive_work(Work& work) {
  ++stats_.calls;
  ++stats_.paths[std::string(work.api.path())];
  work.account = account_of(work.request);
  work.call.record = begin_record(work);
  if (!work.account || work.account->death == Death::revoked) {
    ++stats_.unauthorized;
    if (work.account) ++work.account->stats.refused_dead;
    refuse(work, 401, error_of_status(401));
  } else if (work.account->death == Death::spent) {
    ++stats_.rejected_429;
    ++work.account->stats.refused_dead;
    refuse(work, 429,
           {.message = "You exceeded your current quota, please check your plan and billing details.",
            .type = "insufficient_quota",
            .code = "insufficient_quota"});
  } else {
    check(work);
  }
  add_headers(work);
}

void Upstream::refuse(Work& work, unsigned status, const ApiError& error) {
  work.call.reply.status = status;
  work.call.reply.body = error_body(work.api.dialect(), status, error, request_id());
}

void Upstream::check(Work& work) {
  const auto refuse_bad = [&](const ApiError& error) {
    ++stats_.bad_requests;
    refuse(work, 400, error);
  };
  const auto body = parse_object(work.request.body);
  if (!body) return refuse_bad(body.error());
  if (work.api.dialect() == Dialect::anthropic && work.request.header(kVersionHeader).empty())
    return refuse_bad({.message = "anthropic-version: header is required"});
  CallRecord& record = *work.call.record;
  record.leaks = leaks_of(work.request, work.api, *body, options_.sdk_headers);
  if (!record.leaks.empty()) {
    ++stats_.violations;
    return refuse_bad({.message = "Unrecognized request argument supplied: " + record.leaks.front(),
                       .param = record.leaks.front(),
                       .code = "unknown_parameter"});
  }
  try {
    const ModelRequest asked = work.api.parse(*body);
    const auto faults = parse_model_faults(asked.model);
    if (!faults) return refuse_bad(faults.error());
    if (const std::string why = misfit(work.api, asked, *faults); !why.empty())
      return refuse_bad({.message = why, .param = "model", .code = "unknown_fault"});
    limit(work, asked, *faults);
  } catch (const Refusal& refused) {
    refuse_bad(refused.error);
  }
}

Reply Upstream::set_key(std::string_view name, std::string_view body) {
  const auto account = std::find_if(accounts_.begin(), accounts_.end(), [&](const Account& known) {
    return known.key.name == name && !name.empty();
  });
  if (account == accounts_.end())
    return refusal({}, 404,
                   {.message = "There is no key \"" + std::string(name.substr(0, 100)) +
                               "\"; keys are named with --keys.",
                    .code = "unknown_key"});
  const auto json = Json::parse(body, nullptr, false);
  const auto dead = json.is_object() ? json.value("dead", Json()) : Json();
  if (dead == true)
    account->death = Death::revoked;
  else if (dead == "quota")
    account->death = Death::spent;
  else if (dead == false)
    account->death = Death::none;
  else
    return refusal({}, 400,
                   {.message = R"(Send {"dead":true} for 401, {"dead":"quota"} for insufficient_quota, )"
                               R"({"dead":false} for a living key.)"});
  return {.body = "{}"};
}

Reply Upstream::release(std::string_view body) {
  const auto json = Json::parse(body, nullptr, false);
  const auto model = json.is_object() ? json.value("model", Json()) : Json();
  if (!model.is_string() || model.get_ref<const std::string&>().empty())
    return refusal({}, 400, {.message = R"(Send {"model":NAME}, the whole name with what follows the +.)"});
  if (released_.size() >= kReleasedMax)
    return refusal(
        {}, 400,
        {.message = "Already " + std::to_string(kReleasedMax) + " models are released; start again."});
  released_.insert(model.get<std::string>());
  return {.body = "{}"};
}

Reply Upstream::models(const Request& request, std::string_view id) const {
  const Dialect dialect = request.dialect();
  if (id.empty() || id == "/") return {.body = models_body(dialect, created_s())};
  Reply reply;
  if (id.starts_with("/")) reply.body = model_body(dialect, id.substr(1), created_s());
  return reply.body.empty() ? refusal(request, 404, error_of_status(404)) : reply;
}

void Upstream::limit(Work& work, const ModelRequest& asked, const ModelFaults& faults) {
  CallRecord& record = *work.call.record;
  record.model = asked.model;
  record.stream = asked.stream;
  record.service_tier = asked.service_tier;
  record.prompt_tokens = asked.prompt_tokens;
  const Verdict verdict = work.account->limiter.admit(asked.charge(), work.call.arrived);
  if (!verdict.accepted) return refuse_by_limits(work, asked, verdict);
  work.call.limiter = &work.account->limiter;
  accept(work, asked, faults);
}

void Upstream::refuse_by_limits(Work& work, const ModelRequest& asked, const Verdict& verdict) {
  ++stats_.rejected_429;
  ++work.account->stats.rejected_429;
  const TimePoint now = work.call.arrived;
  RateRefusal refusal = refuse_rate({.tongue = tongue_at(options_.speaks, work.api.dialect()),
                                     .tells = options_.tells,
                                     .verdict = verdict,
                                     .gauge = work.account->limiter.gauge(verdict.dimension, now),
                                     .period = options_.quota.period,
                                     .model = asked.model,
                                     .request_id = request_id(),
                                     .now_unix = unix_time(now)});
  Reply& reply = work.call.reply;
  reply.status = 429;
  reply.body = std::move(refusal.body);
  reply.headers = std::move(refusal.headers);
}

void Upstream::accept(Work& work, const ModelRequest& asked, const ModelFaults& faults) {
  Call& call = work.call;
  ++stats_.accepted;
  ++work.account->stats.accepted;
  ++stats_.in_flight;
  stats_.in_flight_peak = std::max(stats_.in_flight_peak, stats_.in_flight);
  stats_.charged_tokens += asked.charge();
  call.record->charged = asked.charge();
  peak_.add(call.arrived - started_, asked.charge());
  work.account->peak.add(call.arrived - started_, asked.charge());
  if (const std::string& job = call.record->job; !job.empty()) {
    const std::uint64_t name = fnv1a(job);
    if (jobs_seen_.contains(name)) {
      ++stats_.duplicate_jobs;
    } else if (jobs_seen_.size() < kJobsRememberedMax) {
      jobs_seen_.insert(name);
    }
  }
  answer(work, asked, still_first(work, faults) ? faults : ModelFaults{});
}

bool Upstream::still_first(const Work& work, const ModelFaults& faults) {
  if (faults.first == 0) return true;
  const std::uint64_t body = work.call.record->body_hash;
  if (calls_of_body_.size() >= kBodiesRememberedMax && !calls_of_body_.contains(body)) return true;
  return ++calls_of_body_[body] <= faults.first;
}

void Upstream::answer(Work& work, const ModelRequest& asked, const ModelFaults& faults) {
  Call& call = work.call;
  Draws chance(options_.seed, stats_.accepted);
  call.fault = chance.fault(options_.faults);
  call.delay = chance.latency(options_.latency);
  if (faults.delay) call.delay = *faults.delay;
  call.stall = options_.stall;
  call.held = faults.hold;
  if (faults.hold || faults.pause_deltas) call.model = asked.model;
  if (faults.status != 0) return refuse_as_asked(work, faults);
  if (call.fault == Fault::http_5xx) {
    const unsigned status = std::array{500u, 502u, 503u}[chance.below(3)];
    call.record->fault = name_of(call.fault);
    return refuse(work, status, error_of_status(status));
  }
  Draws content(options_.seed, asked.prompt_hash);
  Completion completion{.id = digits_of(content()), .created_s = created_s(), .request = asked, .answer = {}};
  if (asked.max_tokens > 0) completion.answer = draw_answer(content, asked, faults.tokens);
  call.record->completion_tokens = completion.answer.tokens;

  Delivery delivery{.delay = call.delay,
                    .gap = faults.gap.value_or(options_.token_gap),
                    .pause_deltas = faults.pause_deltas,
                    .drip = faults.drip,
                    .pings = faults.pings,
                    .comments = faults.comments,
                    .line_end = faults.line_end,
                    .stamps = faults.stamps,
                    .unix_of_arrival = unix_time(call.arrived)};
  const Fault asked_for = break_off_as_asked(faults, asked.stream, delivery);
  if (asked_for != Fault::none) call.fault = asked_for;
  call.record->fault = name_of(call.fault);
  if (call.fault == Fault::stall && !(asked.stream && asked_for == Fault::stall)) {
    call.delay = options_.stall;
  } else if (faults.no_answer) {
    return;
  } else if (asked.stream) {
    if (asked_for == Fault::none)
      break_off(call.fault, completion.answer.tokens / 2, delivery.deltas_max, delivery);
    call.script = std::make_unique<Script>(work.api, std::move(completion), delivery);
  } else {
    call.reply.body = work.api.body(completion);
    if (asked_for == Fault::none)
      break_off(call.fault, call.reply.body.size() / 2, delivery.bytes_max, delivery);
    if (delivery.bytes_max || delivery.drip)
      call.script = std::make_unique<Script>(std::exchange(call.reply.body, {}), delivery);
  }
}

void Upstream::refuse_as_asked(Work& work, const ModelFaults& faults) {
  ApiError error = error_of_status(faults.status);
  if (!faults.code.empty()) error.code = faults.code;
  work.call.fault = Fault::status;
  work.call.record->fault = name_of(Fault::status);
  refuse(work, faults.status, error);
  if (faults.retry_after_s)
    work.call.reply.headers.emplace_back("retry-after", std::to_string(*faults.retry_after_s));
}

void Upstream::finish(const Call& call, Ending ending, std::uint64_t sent, TimePoint now) {
  if (!call.record) return;
  if (call.limiter) call.limiter->leave();
  CallRecord record = *call.record;
  record.latency = now - call.arrived;
  record.ended_unix = unix_time(now);
  record.status = call.reply.status;
  record.sent = sent;
  record.end = "answered";
  if (ending == Ending::hung_up) {
    record.status = 499;
    record.end = "hung_up";
    ++stats_.hung_up;
  } else if (ending == Ending::cut) {
    record.status = 0;
    record.end = "cut";
    record.fault = "cut";
  } else if ((call.fault == Fault::stall || call.fault == Fault::reset) && !call.script) {
    record.status = 0;
  }
  const bool answered = record.status != 0 && record.status != 499;
  if (call.script && call.script->is_stream()) {
    record.completion_tokens = call.script->deltas();
    stats_.deltas += call.script->deltas();
  } else if (!answered || record.status >= 400) {
    record.completion_tokens = 0;
  }
  if (record.charged) {
    --stats_.in_flight;
    stats_.ok += answered && call.fault == Fault::none;
    if (call.fault != Fault::none) ++stats_.faults[name_of(call.fault)];
    stats_.prompt_tokens += record.prompt_tokens;
    stats_.completion_tokens += record.completion_tokens;
  }
  ++stats_.ended;
  log_(record);
}

void Upstream::connection_opened() {
  ++stats_.connections;
  stats_.connections_peak = std::max(stats_.connections_peak, stats_.connections);
}

void Upstream::connection_closed() {
  --stats_.connections;
}

void Upstream::connection_refused() {
  ++stats_.connections_refused;
}

CallRecord Upstream::begin_record(const Work& work) const {
  const std::string_view job = work.request.header("x-lanemq-job");
  return {.at = work.call.arrived - started_,
          .path = std::string(work.api.path()),
          .job = std::string(
              (job.empty() ? work.request.header("x-client-request-id") : job).substr(0, kLoggedTextMax)),
          .key = work.account ? work.account->key.name : std::string(),
          .body_hash = fnv1a(work.request.body)};
}

void Upstream::add_headers(Work& work) {
  HeaderFields& headers = work.call.reply.headers;
  if (work.account && options_.tells == Tells::all)
    add_limit_headers(headers, tongue_at(options_.speaks, work.api.dialect()), work.account->limiter,
                      work.call.arrived, unix_time(work.call.arrived));
  if (work.api.dialect() == Dialect::anthropic) {
    headers.emplace_back("request-id", request_id());
  } else {
    headers.emplace_back("x-request-id", request_id());
    headers.emplace_back("openai-processing-ms",
                         std::to_string(work.call.delay / std::chrono::milliseconds(1)));
  }
}

Upstream::Account* Upstream::account_of(const Request& request) {
  if (options_.keys.empty()) return &accounts_.front();
  const std::string_view bearer = request.header("authorization");
  const std::string_view own = request.header("x-api-key");
  for (Account& account : accounts_)
    if (bearer == "Bearer " + account.key.secret || own == account.key.secret) return &account;
  return nullptr;
}

std::string Upstream::request_id() const {
  return "req_" + digits_of(stats_.calls);
}

std::string Upstream::stats_reply(TimePoint now) {
  Stats stats = stats_;
  Limiter& any = accounts_.front().limiter;  // All have the same limits.
  const auto limit = [&](Dimension dimension) {
    const auto gauge = any.gauge(dimension, now);
    return gauge ? std::optional(gauge->limit) : std::nullopt;
  };
  Limits limits{.window = options_.quota.window,
                .period = options_.quota.period,
                .requests = limit(Dimension::requests),
                .tokens = limit(Dimension::tokens),
                .at_once = any.at_once(now),
                .peak_calls = peak_.calls(),
                .peak_tokens = peak_.tokens()};
  for (Account& account : accounts_) {
    const OthersTally others = account.limiter.others(now);
    limits.others.granted += others.granted;
    limits.others.refused += others.refused;
    limits.others.steps_cut += others.steps_cut;
    if (options_.keys.empty()) continue;
    KeyStats& key = stats.keys[account.key.name] = account.stats;
    key.peak_calls = account.peak.calls();
    key.peak_tokens = account.peak.tokens();
  }
  return stats_body(stats, limits, now - started_);
}

}  // namespace lanemq::upstream
