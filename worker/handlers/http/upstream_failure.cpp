// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/upstream_failure.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace lanemq::worker {
namespace {

/// The part of an upstream's text that is searched for a time to wait.
constexpr std::size_t kTextScanMax = 4096;

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

/// The number at the front of a text for people: 1200 for `1,200.`
std::optional<std::int64_t> leading_number(std::string_view text) {
  std::int64_t value = 0;
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == ',' && digits > 0) continue;
    if (c < '0' || c > '9' || digits == 15) break;
    value = value * 10 + (c - '0');
    ++digits;
  }
  return digits > 0 ? std::optional(value) : std::nullopt;
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
    {"overloaded_error", 529},      {"rate_limit_error", 429},  {"rate_limit_exceeded", 429},
    {"insufficient_quota", 429},    {"billing_error", 402},     {"authentication_error", 401},
    {"invalid_api_key", 401},       {"permission_error", 403},  {"not_found_error", 404},
    {"model_not_found", 404},       {"request_too_large", 413}, {"context_length_exceeded", 400},
    {"invalid_request_error", 400}, {"invalid_prompt", 400},    {"content_filter", 400},
    {"timeout_error", 504},         {"api_error", 500},         {"server_error", 500},
    {"service_unavailable", 503},   {"overloaded", 503},
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

std::optional<std::chrono::milliseconds> wait_of(long status, const UpstreamHeaders& headers,
                                                 std::string_view text) {
  if (const auto wait = headers.retry_after()) return wait;
  if (status != 429) return std::nullopt;
  if (const auto wait = headers.exhausted_reset()) return wait;
  return find_wait_in_text(text.substr(0, kTextScanMax));
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

/// `text`: the upstream's message for people.
JobFailure failure_of(long status, const UpstreamHeaders& headers, const BodyFacts& facts,
                      std::string_view text) {
  const Meaning meaning = meaning_of(status, facts);
  return {.error_class = meaning.error_class,
          .code = meaning.code.empty() ? "upstream_" + std::to_string(status) : std::string(meaning.code),
          .message = message_of(status, facts),
          .retry_after = wait_of(status, headers, text),
          .body = {},
          .usage = usage_of(status),
          .limits = headers.limits(),
          .upstream_status = static_cast<int>(status)};
}

}  // namespace

JobFailure status_failure(long status, const UpstreamHeaders& headers, std::string_view body) {
  const BodyFacts facts = headers.is_json() ? read_body(body) : BodyFacts{};
  return failure_of(status, headers, facts, facts.error_message.empty() ? body : facts.error_message);
}

JobFailure error_event_failure(std::string_view error, const UpstreamHeaders& headers) {
  const BodyFacts facts = read_body("{\"error\":" + std::string(error) + "}");
  return failure_of(status_of(facts), headers, facts, facts.error_message);
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
