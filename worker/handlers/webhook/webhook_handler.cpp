// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/webhook/webhook_handler.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include <lanemq/text.hpp>

#include "worker/handlers/extras.hpp"
#include "worker/handlers/http/http_credentials.hpp"
#include "worker/handlers/http/http_handler.hpp"

namespace lanemq::worker {
namespace {

constexpr const char* kUrlField = "x-webhook-url";

wire::Usage one_request(bool was_sent) {
  wire::Usage usage;
  usage.requests = was_sent ? 1 : 0;
  usage.input_tokens = usage.output_tokens = 0;
  return usage;
}

JobFailure refused(std::string code, std::string message) {
  return unsent_failure(ErrorClass::permanent, std::move(code), std::move(message));
}

/// `hooks.example.com`, `10.0.0.1:8080`: the port where it is not that of the scheme.
std::string shown_host(const HttpUrlParts& url) {
  const bool is_usual = url.port == (url.scheme == "https" ? 443 : 80);
  return url.host + (is_usual ? "" : ":" + std::to_string(url.port));
}

/// What the job names; none, with `failure` set, where no webhook can go there.
std::optional<HttpUrlParts> url_of(const JobCall& job, JobFailure& failure) {
  const std::optional<std::string> url = text_of_extra(job.extras, kUrlField);
  if (!url) {
    failure = refused("bad_url", std::string("a job of a webhook names its URL in the field ") + kUrlField +
                                     ", as a text; this one does not");
    return std::nullopt;
  }
  const std::string problem = hook_url_problem(*url);
  if (problem.empty()) return parts_of_url(*url);
  failure = refused("bad_url", std::string("the URL in ") + kUrlField + " cannot be called: " + problem);
  return std::nullopt;
}

bool is_for_a_retry(long status) {
  return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
}

JobFailure failure_of(const CallReport& report, const std::string& host) {
  const long status = report.status;
  JobFailure failure{.error_class = is_for_a_retry(status) ? ErrorClass::retry : ErrorClass::permanent,
                     .code = "upstream_" + std::to_string(status),
                     .message = host + " answered " + std::to_string(status)};
  if (status < 400) failure.message += "; redirects are not followed, name the URL that it leads to";
  if (status == 410) failure.message += ": the receiver wants no more webhooks at this URL";
  failure.retry_after = report.headers.retry_after();
  failure.body = Blob::copy(report.body);
  failure.usage = one_request(true);
  failure.upstream_status = static_cast<int>(status);
  return failure;
}

}  // namespace

void HookSecretBox::use(std::vector<HookSecret> secrets) {
  auto newer = std::make_shared<const std::vector<HookSecret>>(std::move(secrets));
  const std::lock_guard lock(mutex_);
  secrets_.swap(newer);
}

std::shared_ptr<const std::vector<HookSecret>> HookSecretBox::now() const {
  const std::lock_guard lock(mutex_);
  return secrets_;
}

std::function<void(const CallReport&, Completion&)> hook_judge(std::string host) {
  return [host = std::move(host)](const CallReport& report, Completion& done) {
    if (report.status >= 200 && report.status <= 299) {
      // The status is the receiver's word; whether the rest of its answer came does not matter.
      const std::string body = "{\"status\":" + std::to_string(report.status) +
                               ",\"ms\":" + std::to_string(report.lasted.count()) + "}";
      return done.success(Blob::copy(body), one_request(true));
    }
    if (report.status >= 300) return done.failure(failure_of(report, host));
    if (!report.refused_address.empty())
      return done.failure(refused(
          "address_refused", host + " has the address " + std::string(report.refused_address) +
                                 ", which is not public; name that address among the service's hosts, or set "
                                 "private = true for the service"));
    JobFailure failure = report.broken.value_or(JobFailure{.code = "transport", .message = "no answer"});
    failure.message = host + ": " + failure.message;
    done.failure(std::move(failure));
  };
}

namespace {

/// What is signed has dots between the id, the time and the body, so that an id has none.
std::string without_dots(std::string_view id) {
  std::string encoded;
  for (const char c : id)
    encoded += c == '.' ? std::string_view("%2E") : std::string_view(&c, 1);
  return encoded;
}

}  // namespace

WebhookHandler::WebhookHandler(std::shared_ptr<HttpClient> client, WebhookRules rules,
                               std::shared_ptr<const HookSecretBox> secrets)
    : HttpCallHandler(std::move(client)),
      rules_(std::move(rules)),
      secrets_(std::move(secrets)),
      headers_(std::make_shared<const HttpHeaders>(
          std::vector<std::string>{"content-type: application/json", "accept: */*"})) {}

void WebhookHandler::start(const JobCall& job, Completion done) {
  JobFailure failure;
  const std::optional<HttpUrlParts> url = url_of(job, failure);
  if (!url) return done.failure(std::move(failure));
  const std::string host = shown_host(*url), origin = url->scheme + "://" + host;
  const HookHost* const entry = find_hook_host(rules_.hosts, *url);
  if (!entry)
    return done.failure(refused("host_refused", "webhooks of service \"" + printable(job.service) +
                                                    "\" do not go to " + origin +
                                                    ": no entry of its hosts allows that"));
  if (job.body.size() > kBodyBytesMax)
    return done.failure(refused("too_large", "the body has " + std::to_string(job.body.size()) +
                                                 " bytes, and that of a webhook may have " +
                                                 std::to_string(kBodyBytesMax) +
                                                 "; send where the rest can be fetched"));
  const std::shared_ptr<const HttpTarget> target = target_of(*entry, origin);
  const std::string id = without_dots(header_name_of(job));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t timestamp = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::vector<std::string> lines = {
      "webhook-id: " + id, "webhook-timestamp: " + std::to_string(timestamp),
      "webhook-signature: " +
          hook_signature(*secrets_->now(), {.id = id, .timestamp = timestamp, .body = job.body.bytes()})};
  add_trace(job, *target, *headers_, lines);
  const auto time = rules_.timeout;
  client().call(
      {.target = target,
       .path = url->target,
       .headers = headers_,
       .lines = std::move(lines),
       .lease = job.lease,
       .body = job.body,
       .times = CallTimes{.connect = time, .first_token = time, .between_tokens = time, .total = time},
       .deadline = job.deadline,
       .answer_bytes_max = std::min(kKeptBytesMax, job.answer_bytes_max),
       .judge = hook_judge(host),
       .done = std::move(done)});
}

std::shared_ptr<const HttpTarget> WebhookHandler::target_of(const HookHost& entry,
                                                            const std::string& origin) {
  for (const auto& target : targets_)
    if (target->url == origin) return target;
  HttpTarget target{.url = origin, .traced = rules_.traced && rules_.traced(origin)};
  if (!rules_.private_addresses)
    target.admits = [named = entry.address](const sockaddr& address) {
      const HostAddress called = address_of(address);
      return is_public(called) || called == named;
    };
  if (targets_.size() == kTargetsMax) targets_.pop_front();
  return targets_.emplace_back(std::make_shared<const HttpTarget>(std::move(target)));
}

}  // namespace lanemq::worker
