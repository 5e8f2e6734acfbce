// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/upstream_failure.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "worker/handlers/limits/refusal_body.hpp"
#include "worker/handlers/limits/refusal_texts.hpp"

namespace lanemq::worker {
namespace {

/// Codes and types of a key without money, as OpenAI, Anthropic and similar APIs write them.
bool is_quota_name(std::string_view name) {
  return name == "insufficient_quota" || name.starts_with("billing_") || name.starts_with("credit_") ||
         name.ends_with("_spend_limit_exceeded");
}

/// Codes and types of a key that is not accepted. A 401 without one of them, and a 403, may be about the
/// request: a model, an organization, a prompt that a firewall blocks.
bool is_key_name(std::string_view name) {
  return name == "invalid_api_key" || name == "authentication_error";
}

/// The last number after `label` in a sentence, and the label's position.
struct Labelled {
  std::size_t at = 0;
  std::int64_t number = 0;
};
std::optional<Labelled> last_labelled(std::string_view sentence, std::string_view label) {
  for (std::size_t at = sentence.rfind(label); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : sentence.rfind(label, at - 1))
    if (const auto number = leading_number(sentence.substr(at + label.size()))) return Labelled{at, *number};
  return std::nullopt;
}

/// `Limit 10000, Requested 12000`: no waiting makes this fit. Only a limit before it in the same sentence
/// counts, since a message may name several.
bool is_larger_than_limit(std::string_view message) {
  message = message.substr(0, kTextScanMax);
  while (!message.empty()) {
    const std::size_t end = std::min(message.find(". "), message.find('\n'));
    const std::string_view sentence = message.substr(0, end);
    message.remove_prefix(end == std::string_view::npos ? message.size() : end + 1);
    const auto requested = last_labelled(sentence, "Requested ");
    if (!requested) continue;
    const auto limit = last_labelled(sentence.substr(0, requested->at), "Limit ");
    if (limit && requested->number > limit->number) return true;
  }
  return false;
}

/// What a status means without its body: the class, and a code where the number does not tell.
struct Meaning {
  ErrorClass error_class = ErrorClass::permanent;
  std::string_view code{};
};

/// Whether the request has more tokens than the model's context: another model may take it.
bool is_over_context(long status, const BodyFacts& facts) {
  static constexpr std::string_view kOfAnthropic = "prompt is too long";
  return facts.error_code == "context_length_exceeded" ||
         (status == 400 && facts.error_message.starts_with(kOfAnthropic));
}

/// The HTTP statuses of errors that come inside a stream.
constexpr struct {
  std::string_view name;
  long status;
} kErrorNames[] = {
    {"overloaded_error", 529},
    {"rate_limit_error", 429},
    {"rate_limit_exceeded", 429},
    {"insufficient_quota", 429},
    {"billing_error", 402},
    {"authentication_error", 401},
    {"invalid_api_key", 401},
    {"permission_error", 403},
    {"not_found_error", 404},
    {"model_not_found", 404},
    {"request_too_large", 413},
    {"context_length_exceeded", 400},
    {"invalid_request_error", 400},
    {"invalid_prompt", 400},
    {"content_filter", 400},
    {"timeout_error", 504},
    {"api_error", 500},
    {"server_error", 500},
    {"service_unavailable", 503},
    {"overloaded", 503},
    // Moonshot, Alibaba, Google
    {"rate_limit_reached_error", 429},
    {"engine_overloaded_error", 503},
    {"limit_requests", 429},
    {"limit_burst_rate", 429},
    {"concurrency_limit_exceeded", 429},
    {"RESOURCE_EXHAUSTED", 429},
    {"UNAVAILABLE", 503},
    {"DEADLINE_EXCEEDED", 504},
    {"INVALID_ARGUMENT", 400},
    {"PERMISSION_DENIED", 403},
};

long status_of(const BodyFacts& facts) {
  for (const std::string_view said : {std::string_view(facts.error_code), std::string_view(facts.error_type)})
    for (const auto& known : kErrorNames)
      if (said == known.name) return known.status;
  constexpr long kUnknown = 500;
  return facts.error_status.value_or(kUnknown);
}

Meaning meaning_of(long status, const BodyFacts& facts) {
  if (status >= 400 && status < 500 && (is_quota_name(facts.error_code) || is_quota_name(facts.error_type)))
    return {ErrorClass::quota};
  if (is_over_context(status, facts)) return {ErrorClass::permanent, "context_length_exceeded"};
  switch (status) {
    case 401:
      if (is_key_name(facts.error_code) || is_key_name(facts.error_type))
        return {ErrorClass::quota, "upstream_auth"};
      return {ErrorClass::permanent};
    case 402:
      return {ErrorClass::quota};
    case 408:
    case 409:
    case 425:
      return {ErrorClass::retry};
    case 429:
      if (is_larger_than_limit(facts.error_message)) return {ErrorClass::permanent, "request_over_limit"};
      return {ErrorClass::limited};
    case 498:  // capacity exceeded (Groq)
    case 503:
    case 529:
      return {ErrorClass::overloaded};
    default:
      return {status >= 500 ? ErrorClass::retry : ErrorClass::permanent};
  }
}

/// A failed call counts as a request. If the upstream refused it unread it used no tokens; else nobody knows,
/// and the usage stays empty.
wire::Usage usage_of(long status) {
  wire::Usage usage;
  usage.requests = 1;
  switch (status) {
    case 400:
    case 401:
    case 403:
    case 404:
    case 413:
    case 422:
    case 429:
      usage.input_tokens = usage.output_tokens = 0;
      break;
    default:
      break;
  }
  return usage;
}

using std::chrono::milliseconds;

/// All that a refusal says of limits, wherever it says it.
struct Refusal {
  std::optional<wire::UpstreamLimits> limits{};
  std::optional<LimitedBy> limited_by{};
  std::optional<milliseconds> retry_after{};
};

struct UsedUp {
  bool any = false, of_a_day = false;
  std::optional<milliseconds> day_reset{};  ///< of figures of a day: the latest of several
};

UsedUp used_up_of(const wire::UpstreamLimits& limits) {
  constexpr std::int64_t kRatePeriodMax = 3'600'000;
  UsedUp used_up;
  const auto consider = [&](std::optional<std::int64_t> remaining, std::optional<std::int64_t> reset,
                            std::optional<std::int64_t> period) {
    if (remaining != 0) return;
    used_up.any = true;
    const bool of_a_day = period.value_or(0) > kRatePeriodMax || reset.value_or(0) > kRatePeriodMax;
    used_up.of_a_day = used_up.of_a_day || of_a_day;
    if (reset && of_a_day)
      used_up.day_reset = std::max(used_up.day_reset.value_or(milliseconds(0)), milliseconds(*reset));
  };
  consider(limits.remaining_requests, limits.reset_requests_ms, limits.period_requests_ms);
  consider(limits.remaining_tokens, limits.reset_tokens_ms, limits.period_tokens_ms);
  consider(limits.remaining_input_tokens, limits.reset_input_tokens_ms, limits.period_tokens_ms);
  consider(limits.remaining_output_tokens, limits.reset_output_tokens_ms, limits.period_tokens_ms);
  return used_up;
}

/// The kind that the upstream names, most exact words first.
RefusalWords words_of(const BodyFacts& facts, const RefusalBody& body, std::string_view text) {
  if (const RefusalWords said = words_of_code(facts.error_code); said.limited_by) return said;
  if (const RefusalWords said = words_of_code(facts.error_type); said.limited_by) return said;
  if (body.limited_by) return {.limited_by = body.limited_by};
  if (const RefusalWords said = words_of_text(text); said.limited_by) return said;
  return words_of_text(body.text);
}

Refusal refusal_of(const UpstreamHeaders& headers, const BodyFacts& facts, std::string_view json,
                   std::string_view text) {
  const WallTime now = headers.read_at();
  const RefusalBody body = json.empty() ? RefusalBody{} : read_refusal(json, now);
  Refusal refusal{.limits = headers.limits()};
  if (!refusal.limits) refusal.limits = body.headers.limits(nullptr);

  const RefusalWords words = words_of(facts, body, text);
  refusal.limited_by = words.limited_by;
  if (words.limit_concurrency) {
    if (!refusal.limits) refusal.limits.emplace();
    refusal.limits->limit_concurrency = words.limit_concurrency;
  }
  const UsedUp used_up = refusal.limits ? used_up_of(*refusal.limits) : UsedUp{};
  const auto plan = headers.plan_is_back();
  if (!refusal.limited_by && (plan || used_up.of_a_day)) refusal.limited_by = LimitedBy::day;
  if (!refusal.limited_by && used_up.any) refusal.limited_by = LimitedBy::rate;

  const auto first_of = [](std::initializer_list<std::optional<milliseconds>> waits) {
    for (const auto& wait : waits)
      if (wait) return wait;
    return std::optional<milliseconds>();
  };
  refusal.retry_after = first_of({headers.retry_after(), body.headers.retry_after(), body.retry_delay,
                                  find_wait_in_text(text, now), find_wait_in_text(body.text, now)});
  // Of a day nobody says more, and asking again each minute helps nobody.
  if (!refusal.retry_after && refusal.limited_by == LimitedBy::day)
    refusal.retry_after = plan && plan->count() > 0 ? plan : used_up.day_reset;
  return refusal;
}

std::string message_of(long status, const BodyFacts& facts) {
  std::string message = "the upstream answered " + std::to_string(status);
  if (status >= 300 && status < 400) return message + "; redirects are not followed, name the final URL";
  if (!facts.error_code.empty())
    message += " " + facts.error_code;
  else if (!facts.error_type.empty())
    message += " " + facts.error_type;
  if (!facts.error_message.empty()) message += ": " + facts.error_message;
  return message;
}

struct TransportMeaning {
  std::string_view code, text;
};

TransportMeaning meaning_of(CURLcode error) {
  switch (error) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
      return {"resolve", "the upstream's name has no address"};
    case CURLE_COULDNT_CONNECT:
      return {"connect", "no connection to the upstream"};
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return {"tls", "no TLS with the upstream"};
    case CURLE_OPERATION_TIMEDOUT:
      return {"timeout", "the upstream did not answer in time"};
    case CURLE_PARTIAL_FILE:
      return {"partial", "the upstream's answer broke off"};
    case CURLE_ABORTED_BY_CALLBACK:  // the client prevented a second sending
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return {"reset", "the upstream broke the connection"};
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
      return {"bad_reply", "the upstream's answer is not HTTP"};
    default:
      return {"transport", "the call to the upstream failed"};
  }
}

/// `json`: the whole of it; empty: it is none. `text`: the upstream's message for people.
JobFailure failure_of(long status, const UpstreamHeaders& headers, const BodyFacts& facts,
                      std::string_view json, std::string_view text) {
  const Meaning meaning = meaning_of(status, facts);
  JobFailure failure{
      .error_class = meaning.error_class,
      .code = meaning.code.empty() ? "upstream_" + std::to_string(status) : std::string(meaning.code),
      .message = message_of(status, facts),
      .retry_after = headers.retry_after(),
      .body = {},
      .usage = usage_of(status),
      .limits = {},
      .upstream_status = static_cast<int>(status)};
  if (status != 429) {
    failure.limits = headers.limits();
    return failure;
  }
  const Refusal refusal = refusal_of(headers, facts, json, text);
  failure.limits = refusal.limits;
  failure.retry_after = refusal.retry_after;
  if (meaning.error_class == ErrorClass::limited) failure.limited_by = refusal.limited_by;
  return failure;
}

}  // namespace

JobFailure status_failure(long status, const UpstreamHeaders& headers, std::string_view body) {
  const bool is_json = headers.is_json();
  const BodyFacts facts = is_json ? read_body(body) : BodyFacts{};
  return failure_of(status, headers, facts, is_json ? body : std::string_view(),
                    facts.error_message.empty() ? body : facts.error_message);
}

std::string where_nothing_is(long status, std::string_view url, std::string_view hint) {
  constexpr long kNotFound = 404, kMethodNotAllowed = 405;
  if (status != kNotFound && status != kMethodNotAllowed) return {};
  return std::string(url.substr(0, url.find('?'))) + (hint.empty() ? "" : "; " + std::string(hint));
}

JobFailure error_event_failure(std::string_view error, const UpstreamHeaders& headers) {
  const std::string json = "{\"error\":" + std::string(error) + "}";
  const BodyFacts facts = read_body(json);
  return failure_of(status_of(facts), headers, facts, json, facts.error_message);
}

std::optional<JobFailure> success_failure(const UpstreamHeaders& headers, std::string_view body) {
  // A longer answer of another type is no error in JSON.
  constexpr std::size_t kUntypedErrorMax = std::size_t{64} * 1024;
  if (body.size() > kUntypedErrorMax && !headers.is_json()) return std::nullopt;
  const std::string_view error = only_error_of(body);
  return error.empty() ? std::nullopt : std::optional(error_event_failure(error, headers));
}

JobFailure empty_reply_failure(long status) {
  JobFailure failure{
      .error_class = ErrorClass::retry,
      .code = "bad_reply",
      .message = "the upstream answered with status " + std::to_string(status) + " and an empty body"};
  failure.usage.emplace().requests = 1;
  return failure;
}

JobFailure late_failure(LateToken token, std::chrono::milliseconds limit) {
  JobFailure failure;
  const bool first = token == LateToken::first;
  failure.code = first ? "timeout_first_token" : "timeout_between_tokens";
  failure.message = std::string("the upstream's stream ") +
                    (first ? "did not begin within " : "said nothing more for ") +
                    std::to_string(limit.count()) + " ms (" + (first ? "first" : "between") +
                    (first ? "_token_ms)" : "_tokens_ms)");
  failure.usage.emplace().requests = 1;
  return failure;
}

JobFailure deadline_failure(bool was_sent, std::string_view detail) {
  JobFailure failure;
  failure.error_class = ErrorClass::deadline;
  failure.code = "deadline";
  failure.message = "the job's time was over before the upstream had answered: the call ";
  failure.message += detail;
  failure.usage.emplace().requests = was_sent ? 1 : 0;
  if (!was_sent) failure.usage->input_tokens = failure.usage->output_tokens = 0;
  return failure;
}

JobFailure transport_failure(CURLcode error, const TransportFacts& facts) {
  JobFailure failure;
  failure.usage.emplace().requests = facts.was_sent ? 1 : 0;
  if (!facts.was_sent) failure.usage->input_tokens = failure.usage->output_tokens = 0;
  if (facts.over_limit) {
    failure.error_class = ErrorClass::permanent;
    failure.code = "too_large";
    failure.message = "the upstream's answer is over body_bytes_max " +
                      std::to_string(facts.answer_bytes_max) +
                      "; ask for less or raise the limit of broker and worker";
    return failure;
  }
  const TransportMeaning meaning =
      error == CURLE_OPERATION_TIMEDOUT && !facts.was_sent
          ? TransportMeaning{"timeout_connect", "no connection to the upstream in time"}
          : meaning_of(error);
  failure.error_class = ErrorClass::retry;
  failure.code = meaning.code;
  failure.message = meaning.text;
  if (facts.status != 0) failure.message += " after status " + std::to_string(facts.status);
  if (!facts.detail.empty()) failure.message += ": " + facts.detail;
  return failure;
}

}  // namespace lanemq::worker
