// SPDX-License-Identifier: Apache-2.0
// As the services do it; what headers they have limit_headers.cpp tells:
//   Gemini      https://github.com/google-gemini/gemini-cli/issues/8437 (QuotaFailure),
//               https://github.com/RooCodeInc/Roo-Code/issues/3883 (RetryInfo)
//   Azure       https://learn.microsoft.com/en-us/answers/questions/2184807/
//   DeepSeek    https://api-docs.deepseek.com/quick_start/error_codes
//   OpenRouter  https://github.com/Gitlawb/openclaude/issues/936
//   Groq        https://console.groq.com/docs/rate-limits
//   a slope     https://www.alibabacloud.com/help/en/model-studio/rate-limiting-best-practices
//   IETF        https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
#include "tests/support/upstream/rate_refusal.hpp"

#include "tests/support/upstream/errors.hpp"

namespace lanemq::upstream {
namespace {

const char* noun(Dimension dimension) {
  return dimension == Dimension::tokens ? "tokens" : "requests";
}

std::string unit(const RefusedCall& call) {
  const bool tokens = call.verdict.dimension == Dimension::tokens;
  if (call.period == kPeriodDefault) return tokens ? "tokens per min (TPM)" : "requests per min (RPM)";
  return std::string(noun(call.verdict.dimension)) + " per " + format_duration(call.period);
}

/// When to come back, if that is to be told and anybody knows.
std::optional<Duration> told_wait(const RefusedCall& call) {
  return call.tells == Tells::all ? call.verdict.wait : std::nullopt;
}

std::string sentence(const RefusedCall& call) {
  const Verdict& verdict = call.verdict;
  const auto number = [](std::uint64_t count) { return std::to_string(count); };
  if (verdict.too_large)
    // Requested > Limit: no wait would help, so none is told.
    return "Request too large for " + call.model + " on " + unit(call) + ": Limit " + number(verdict.limit) +
           ", Requested " + number(verdict.requested) +
           ". The input or output tokens must be reduced in order to run successfully.";
  if (verdict.dimension == Dimension::slope)
    return "The rate of requests rose too quickly; let it rise more smoothly over time.";
  if (call.tells != Tells::all) return "Rate limit reached for " + call.model + ". Please try again later.";
  if (verdict.dimension == Dimension::at_once)
    return "Too many concurrent requests for " + call.model + ": Limit " + number(verdict.limit) + ", Used " +
           number(verdict.used) + ". Please try again later.";
  return "Rate limit reached for " + call.model + " on " + unit(call) + ": Limit " + number(verdict.limit) +
         ", Used " + number(verdict.used) + ", Requested " + number(verdict.requested) +
         ". Please try again in " + format_duration(*verdict.wait) + ".";
}

ApiError plain_error(const RefusedCall& call) {
  const bool slope = call.verdict.dimension == Dimension::slope;
  return {.message = sentence(call),
          .type = noun(call.verdict.dimension),
          .code = slope ? "limit_burst_rate" : "rate_limit_exceeded"};
}

OrderedJson azure_error(const RefusedCall& call) {
  const bool tokens = call.verdict.dimension == Dimension::tokens;
  std::string message = "Requests to the ChatCompletions_Create Operation have exceeded " +
                        std::string(tokens ? "token" : "call") +
                        " rate limit of your current OpenAI S0 pricing tier.";
  if (const auto wait = told_wait(call))
    message += " Please retry after " + whole_seconds(*wait) + " seconds.";
  return {{"error", {{"code", "429"}, {"message", message}}}};
}

OrderedJson gemini_error(const RefusedCall& call) {
  OrderedJson error = {{"code", 429}, {"message", sentence(call)}, {"status", "RESOURCE_EXHAUSTED"}};
  const auto wait = told_wait(call);
  if (call.tells == Tells::all && call.gauge) {
    const bool tokens = call.verdict.dimension == Dimension::tokens;
    const OrderedJson violation = {
        {"quotaMetric", tokens
                            ? "generativelanguage.googleapis.com/generate_content_paid_tier_input_token_count"
                            : "generativelanguage.googleapis.com/generate_content_paid_tier_requests"},
        {"quotaId", tokens ? "GenerateContentInputTokensPerModelPerMinute"
                           : "GenerateRequestsPerMinutePerProjectPerModel"},
        {"quotaDimensions", {{"model", call.model}, {"location", "global"}}},
        {"quotaValue", std::to_string(call.gauge->limit)}};
    error["details"] = OrderedJson::array({{{"@type", "type.googleapis.com/google.rpc.QuotaFailure"},
                                            {"violations", OrderedJson::array({violation})}}});
    if (wait)
      error["details"].push_back(
          {{"@type", "type.googleapis.com/google.rpc.RetryInfo"}, {"retryDelay", format_seconds(*wait)}});
  }
  return {{"error", error}};
}

OrderedJson openrouter_error(const RefusedCall& call) {
  OrderedJson error = {{"message", sentence(call)}, {"code", 429}};
  if (call.tells == Tells::all && call.gauge)
    error["metadata"]["headers"] = {
        {"X-RateLimit-Limit", std::to_string(call.gauge->limit)},
        {"X-RateLimit-Remaining", std::to_string(call.gauge->remaining)},
        {"X-RateLimit-Reset", whole_milliseconds(call.now_unix + call.gauge->reset)}};
  return {{"error", error}};
}

OrderedJson ietf_problem(const RefusedCall& call) {
  OrderedJson problem = {{"type", "https://iana.org/assignments/http-problem-types#quota-exceeded"},
                         {"title", sentence(call)},
                         {"status", 429}};
  if (call.tells == Tells::all && call.gauge)
    problem["violated-policies"] = OrderedJson::array({noun(call.verdict.dimension)});
  return problem;
}

std::string body_of(const RefusedCall& call) {
  switch (call.tongue) {
    case Tongue::anthropic:
      return written(anthropic_error(429, plain_error(call), call.request_id));
    case Tongue::azure:
      return written(azure_error(call));
    case Tongue::gemini:
      return written(gemini_error(call));
    case Tongue::deepseek:
      return written(openai_error({.message = "Rate limit reached: please pace your requests reasonably.",
                                   .type = "rate_limit_error"}));
    case Tongue::openrouter:
      return written(openrouter_error(call));
    case Tongue::ietf:
      return written(ietf_problem(call));
    case Tongue::none:
      return {};
    case Tongue::by_endpoint:
    case Tongue::openai:
    case Tongue::groq:
      break;
  }
  return written(openai_error(plain_error(call)));
}

bool tells_retry_after(Tongue tongue) {
  return tongue == Tongue::openai || tongue == Tongue::anthropic || tongue == Tongue::azure ||
         tongue == Tongue::groq || tongue == Tongue::ietf;
}

}  // namespace

RateRefusal refuse_rate(const RefusedCall& call) {
  RateRefusal refusal{.body = body_of(call)};
  const auto& wait = call.verdict.wait;
  if (!wait || call.tells == Tells::none) return refusal;
  const bool cut_down = call.tells == Tells::retry_after;
  if (cut_down || tells_retry_after(call.tongue))
    refusal.headers.emplace_back("retry-after", whole_seconds(*wait));
  if (!cut_down && (call.tongue == Tongue::openai || call.tongue == Tongue::azure))
    refusal.headers.emplace_back("retry-after-ms", whole_milliseconds(*wait));
  return refusal;
}

}  // namespace lanemq::upstream
