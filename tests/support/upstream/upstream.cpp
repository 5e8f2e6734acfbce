// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/upstream.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include <nlohmann/json.hpp>

namespace lanemq::upstream {
namespace {

constexpr std::string_view kChatPath = "/v1/chat/completions";
constexpr std::string_view kKeyPath = "/admin/keys/";

struct Endpoint {
  std::string_view path;
  std::string_view method;
};
constexpr std::array kEndpoints = {Endpoint{kChatPath, "POST"}, Endpoint{"/v1/models", "GET"},
                                   Endpoint{"/healthz", "GET"}, Endpoint{"/stats", "GET"}};

std::string_view path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

Reply refuse(unsigned status, const ApiError& error) {
  return {.status = status, .body = error_body(error)};
}

Reply not_found(const Request& request) {
  return refuse(404, {.message = "Unknown request URL: " + std::string(request.method) + " " +
                                 std::string(request.target.substr(0, 200)) +
                                 ". There are POST /v1/chat/completions and /admin/keys/NAME, and GET "
                                 "/v1/models, /healthz, /stats.",
                      .code = "unknown_url"});
}

Reply wrong_method(const Request& request, const Endpoint& endpoint) {
  Reply reply =
      refuse(405, {.message = "Not allowed to " + std::string(request.method) + " on " +
                              std::string(endpoint.path) + "; use " + std::string(endpoint.method) + ".",
                   .code = "method_not_allowed"});
  reply.headers.emplace_back("allow", endpoint.method);
  return reply;
}

std::string call_id(std::string_view prefix, std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return std::string(prefix) + digits;
}

Reply rate_limited(const Verdict& verdict, const std::string& model) {
  const bool by_requests = verdict.dimension == Dimension::requests;
  const std::string where = " for " + model + " on " +
                            (by_requests ? "requests per min (RPM)" : "tokens per min (TPM)") + ": Limit " +
                            std::to_string(verdict.limit);
  ApiError error{.message = {}, .type = by_requests ? "requests" : "tokens", .code = "rate_limit_exceeded"};
  if (!verdict.wait) {
    // Requested > Limit: no wait would help, so none is told.
    error.message = "Request too large" + where + ", Requested " + std::to_string(verdict.requested) +
                    ". The input or output tokens must be reduced in order to run successfully.";
    return refuse(429, error);
  }
  error.message = "Rate limit reached" + where + ", Used " + std::to_string(verdict.used) + ", Requested " +
                  std::to_string(verdict.requested) + ". Please try again in " +
                  format_duration(*verdict.wait) + ".";
  Reply reply = refuse(429, error);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(*verdict.wait).count();
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(*verdict.wait).count();
  reply.headers.emplace_back("retry-after", std::to_string(seconds));
  reply.headers.emplace_back("retry-after-ms", std::to_string(milliseconds));
  return reply;
}

Reply server_error(Draws& draws) {
  switch (draws.below(3)) {
    case 0:
      return refuse(500,
                    {.message = "The server had an error while processing your request. Sorry about that!",
                     .type = "server_error"});
    case 1:
      return refuse(502, {.message = "Bad gateway.", .type = "server_error"});
    default:
      return refuse(503, {.message = "The engine is currently overloaded, please try again later.",
                          .type = "server_error",
                          .code = "service_unavailable"});
  }
}

}  // namespace

Upstream::Upstream(const UpstreamOptions& options, TimePoint now, Log log)
    : options_(options), started_(now), log_(std::move(log)) {
  for (const ApiKey& key : options.keys)
    accounts_.emplace_back(key, options.quota);
  if (accounts_.empty()) accounts_.emplace_back(ApiKey{}, options.quota);
}

Call Upstream::receive(const Request& request, TimePoint now) {
  Call call{.arrived = now};
  if (const std::string_view path = path_of(request.target);
      path.starts_with(kKeyPath) && request.method == "POST") {
    call.reply = set_key(path.substr(kKeyPath.size()), request.body);
    return call;
  }
  const auto* const endpoint = std::find_if(kEndpoints.begin(), kEndpoints.end(), [&](const Endpoint& known) {
    return known.path == path_of(request.target);
  });
  if (endpoint == kEndpoints.end()) {
    call.reply = not_found(request);
  } else if (endpoint->method != request.method) {
    call.reply = wrong_method(request, *endpoint);
  } else if (endpoint->path == kChatPath) {
    receive_chat(call, request);
  } else if (endpoint->path == "/v1/models") {
    call.reply.body = models_body(unix_seconds(started_));
  } else if (endpoint->path == "/healthz") {
    call.reply.body = R"({"status":"ok"})";
  } else {
    call.reply.body = stats_reply(now);
  }
  return call;
}

Call Upstream::receive_oversized(const Request& request, std::uint64_t body_bytes_max, TimePoint now) {
  Call call{.arrived = now};
  call.reply = refuse(413, {.message = "The body is larger than " + std::to_string(body_bytes_max) +
                                       " bytes (body-limit); send less.",
                            .code = "request_too_large"});
  if (path_of(request.target) == kChatPath) {
    ++stats_.calls;
    ++stats_.bad_requests;
    const Account* const account = account_of(request.authorization);
    call.record = begin_record(call, request, account);
    add_headers(call, account);
  }
  return call;
}

Call Upstream::receive_malformed(TimePoint now) {
  ++stats_.malformed;
  Call call{.arrived = now};
  call.reply =
      refuse(400, {.message = "This is no HTTP/1.1 request, or its header is larger than the limit."});
  return call;
}

void Upstream::receive_chat(Call& call, const Request& request) {
  ++stats_.calls;
  Account* const account = account_of(request.authorization);
  call.record = begin_record(call, request, account);
  if (!account || account->death == Death::revoked) {
    ++stats_.unauthorized;
    if (account) ++account->stats.refused_dead;
    call.reply = refuse(401, {.message = "Incorrect API key provided.", .code = "invalid_api_key"});
  } else if (account->death == Death::spent) {
    ++stats_.rejected_429;
    ++account->stats.refused_dead;
    call.reply = refuse(429, {.message = "You exceeded your current quota, please check your plan and "
                                         "billing details.",
                              .type = "insufficient_quota",
                              .code = "insufficient_quota"});
  } else if (const auto chat = parse_chat(request.body); !chat) {
    ++stats_.bad_requests;
    call.reply = refuse(400, chat.error());
  } else {
    limit(call, *chat, *account);
  }
  add_headers(call, account);
}

Reply Upstream::set_key(std::string_view name, std::string_view body) {
  const auto account = std::find_if(accounts_.begin(), accounts_.end(), [&](const Account& known) {
    return known.key.name == name && !name.empty();
  });
  if (account == accounts_.end())
    return refuse(404, {.message = "There is no key \"" + std::string(name.substr(0, 100)) +
                                   "\"; keys are named with --keys.",
                        .code = "unknown_key"});
  const auto json = nlohmann::json::parse(body, nullptr, false);
  const auto dead = json.is_object() ? json.value("dead", nlohmann::json()) : nlohmann::json();
  if (dead == true)
    account->death = Death::revoked;
  else if (dead == "quota")
    account->death = Death::spent;
  else if (dead == false)
    account->death = Death::none;
  else
    return refuse(400, {.message = R"(Send {"dead":true} for 401, {"dead":"quota"} for insufficient_quota, )"
                                   R"({"dead":false} for a living key.)"});
  return {.body = "{}"};
}

void Upstream::limit(Call& call, const ChatRequest& chat, Account& account) {
  call.record->model = chat.model;
  call.record->prompt_tokens = chat.prompt_tokens;
  const Verdict verdict = account.limiter.admit(chat.charge(), call.arrived);
  if (verdict.accepted) {
    accept(call, chat, account);
  } else {
    ++stats_.rejected_429;
    ++account.stats.rejected_429;
    call.reply = rate_limited(verdict, chat.model);
  }
}

void Upstream::accept(Call& call, const ChatRequest& chat, Account& account) {
  ++stats_.accepted;
  ++account.stats.accepted;
  ++stats_.in_flight;
  stats_.in_flight_peak = std::max(stats_.in_flight_peak, stats_.in_flight);
  stats_.charged_tokens += chat.charge();
  call.record->charged = chat.charge();
  peak_.add(call.arrived - started_, chat.charge());
  account.peak.add(call.arrived - started_, chat.charge());
  if (const std::string& job = call.record->job; !job.empty()) {
    const std::uint64_t name = fnv1a(job);
    if (jobs_seen_.contains(name)) {
      ++stats_.duplicate_jobs;
    } else if (jobs_seen_.size() < kJobsRememberedMax) {
      jobs_seen_.insert(name);
    }
  }
  answer(call, chat);
}

void Upstream::answer(Call& call, const ChatRequest& chat) {
  Draws draws(options_.seed, stats_.accepted);
  call.fault = draws.fault(options_.faults);
  call.delay = call.fault == Fault::stall ? options_.stall : draws.latency(options_.latency);
  call.record->fault = name_of(call.fault);
  if (call.fault == Fault::http_5xx) {
    call.reply = server_error(draws);
    return;
  }
  const Answer answer = draw_answer(draws, chat.max_tokens);
  const std::string id = call_id("chatcmpl-", draws());
  call.record->completion_tokens = answer.tokens;
  call.reply.body = completion_body(id, unix_seconds(call.arrived), chat, answer);
}

void Upstream::finish(const Call& call, Ending ending, TimePoint now) {
  if (!call.record) return;
  CallRecord record = *call.record;
  record.latency = now - call.arrived;
  record.status = call.reply.status;
  if (ending == Ending::hung_up) {
    record.status = 499;
    ++stats_.hung_up;
  } else if (ending == Ending::cut) {
    record.status = 0;
    record.fault = "cut";
  } else if (call.fault == Fault::stall) {
    record.status = 0;
  }
  const bool answered = record.status != 0 && record.status != 499;
  if (!answered || record.status >= 500) record.completion_tokens = 0;
  if (record.charged) {
    --stats_.in_flight;
    stats_.ok += answered && call.fault == Fault::none;
    stats_.faults_5xx += call.fault == Fault::http_5xx;
    stats_.faults_reset += call.fault == Fault::reset;
    stats_.faults_stall += call.fault == Fault::stall;
    stats_.faults_half += call.fault == Fault::half;
    stats_.prompt_tokens += record.prompt_tokens;
    stats_.completion_tokens += record.completion_tokens;
  }
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

CallRecord Upstream::begin_record(const Call& call, const Request& request, const Account* account) const {
  return {.at = call.arrived - started_,
          .job = std::string(request.job.substr(0, kLoggedTextMax)),
          .key = account ? account->key.name : std::string(),
          .body_hash = fnv1a(request.body)};
}

void Upstream::add_headers(Call& call, const Account* account) const {
  struct Row {
    Dimension dimension;
    const char* name;
  };
  for (const Row row : {Row{Dimension::requests, "requests"}, Row{Dimension::tokens, "tokens"}}) {
    const auto gauge = account ? account->limiter.gauge(row.dimension, call.arrived) : std::nullopt;
    if (!gauge) continue;
    auto& headers = call.reply.headers;
    headers.emplace_back(std::string("x-ratelimit-limit-") + row.name, std::to_string(gauge->limit));
    headers.emplace_back(std::string("x-ratelimit-remaining-") + row.name, std::to_string(gauge->remaining));
    headers.emplace_back(std::string("x-ratelimit-reset-") + row.name, format_duration(gauge->reset));
  }
  call.reply.headers.emplace_back("x-request-id", call_id("req_", stats_.calls));
  call.reply.headers.emplace_back("openai-processing-ms",
                                  std::to_string(call.delay / std::chrono::milliseconds(1)));
}

Upstream::Account* Upstream::account_of(std::string_view authorization) {
  if (options_.keys.empty()) return &accounts_.front();
  for (Account& account : accounts_)
    if (authorization == "Bearer " + account.key.secret) return &account;
  return nullptr;
}

std::string Upstream::stats_reply(TimePoint now) const {
  Stats stats = stats_;
  if (!options_.keys.empty())
    for (const Account& account : accounts_) {
      KeyStats& key = stats.keys[account.key.name] = account.stats;
      key.peak_calls_60s = account.peak.calls();
      key.peak_tokens_60s = account.peak.tokens();
    }
  return stats_body(stats, options_.quota, peak_.calls(), peak_.tokens(), now - started_);
}

std::int64_t Upstream::unix_seconds(TimePoint now) const {
  return options_.started_unix_s + (now - started_) / std::chrono::seconds(1);
}

}  // namespace lanemq::upstream
