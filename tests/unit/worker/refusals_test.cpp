// SPDX-License-Identifier: Apache-2.0
// What upstreams answer when they refuse, in the shapes of their public pages and reports, and what is read.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <lanemq/limits.hpp>

#include "worker/handlers/http/upstream_failure.hpp"
#include "worker/handlers/limits/limit_headers.hpp"
#include "worker/handlers/limits/providers.hpp"
#include "worker/handlers/limits/refusal_body.hpp"
#include "worker/handlers/limits/refusal_texts.hpp"

namespace lanemq::worker {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Number = std::optional<std::int64_t>;

/// 2026-01-01T00:00:00Z: 1767225600 in Unix time
const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 1 / 1);

constexpr auto kNone = std::nullopt;
constexpr std::int64_t kDay = 86'400'000;

struct Refusal {
  std::string_view who, source;
  long status = 429;
  std::vector<std::string> lines{};
  std::string body{};
  ErrorClass error_class = ErrorClass::limited;
  std::optional<LimitedBy> limited_by{};
  std::optional<milliseconds> retry_after{};
  wire::UpstreamLimits limits{};
  std::string_view url{};
};

std::string text_of(const wire::UpstreamLimits& limits) {
  std::string text;
  const auto say = [&](std::string_view name, Number number) {
    if (number) text.append(name).append("=").append(std::to_string(*number)).append(" ");
  };
  say("limit_requests", limits.limit_requests);
  say("remaining_requests", limits.remaining_requests);
  say("reset_requests", limits.reset_requests_ms);
  say("period_requests", limits.period_requests_ms);
  say("limit_tokens", limits.limit_tokens);
  say("remaining_tokens", limits.remaining_tokens);
  say("reset_tokens", limits.reset_tokens_ms);
  say("period_tokens", limits.period_tokens_ms);
  say("limit_input", limits.limit_input_tokens);
  say("remaining_input", limits.remaining_input_tokens);
  say("reset_input", limits.reset_input_tokens_ms);
  say("limit_output", limits.limit_output_tokens);
  say("remaining_output", limits.remaining_output_tokens);
  say("reset_output", limits.reset_output_tokens_ms);
  say("concurrency", limits.limit_concurrency);
  return text;
}

std::string text_of(std::optional<LimitedBy> kind) {
  return kind ? std::string(name_of(*kind)) : "-";
}

UpstreamHeaders headers_of(const std::vector<std::string>& lines, std::string_view url = {}) {
  UpstreamHeaders headers;
  headers.add_line("HTTP/1.1 429 Too Many Requests", kNow);
  headers.add_line("content-type: application/json", kNow);
  for (const std::string& line : lines)
    headers.add_line(line, kNow);
  if (!url.empty()) headers.came_from(provider_of(url));
  return headers;
}

std::string error_of(std::string_view message, std::string_view more = {}) {
  return R"({"error":{"message":")" + std::string(message) + "\"" + std::string(more) + "}}";
}

std::vector<Refusal> refusals() {
  std::vector<Refusal> all;
  const std::string_view openai = "https://platform.openai.com/docs/guides/rate-limits";
  all.push_back(
      {.who = "OpenAI, requests of a minute",
       .source = openai,
       .lines = {"x-ratelimit-limit-requests: 500", "x-ratelimit-remaining-requests: 0",
                 "x-ratelimit-reset-requests: 60s", "retry-after-ms: 1100"},
       .body = error_of("Rate limit reached on requests per min (RPM): Limit 500, Used 500, Requested 1.",
                        R"(,"type":"requests","code":"rate_limit_exceeded")"),
       .limited_by = LimitedBy::rate,
       .retry_after = 1100ms,
       .limits = {.remaining_requests = 0, .reset_requests_ms = 60'000, .limit_requests = 500}});
  all.push_back(
      {.who = "OpenAI, tokens of a minute, by its text alone",
       .source = "https://community.openai.com/t/1201052",
       .body = error_of("Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, "
                        "Requested 1200. Please try again in 1m2.5s.",
                        R"(,"type":"tokens","code":"rate_limit_exceeded")"),
       .limited_by = LimitedBy::rate,
       .retry_after = 62'500ms});
  all.push_back(
      {.who = "OpenAI, requests of a day",
       .source = openai,
       .body = error_of("Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1. "
                        "Please try again in 7m12s."),
       .limited_by = LimitedBy::day,
       .retry_after = 432s});
  all.push_back({.who = "OpenAI, no money",
                 .source = openai,
                 .body = error_of("You exceeded your current quota", R"(,"code":"insufficient_quota")"),
                 .error_class = ErrorClass::quota});
  all.push_back({.who = "Azure OpenAI",
                 .source = "https://learn.microsoft.com/azure/ai-services/openai/how-to/quota",
                 .lines = {"x-ratelimit-limit-tokens: 1000", "x-ratelimit-remaining-tokens: 0",
                           "x-ratelimit-renewalperiod-tokens: 60", "retry-after: 26"},
                 .body = error_of("Please retry after 26 seconds.", R"(,"code":"429")"),
                 .limited_by = LimitedBy::rate,
                 .retry_after = 26s,
                 .limits = {.remaining_tokens = 0, .limit_tokens = 1000}});
  all.push_back({.who = "Azure OpenAI, requests of 10 s",
                 .source = "https://learn.microsoft.com/azure/ai-services/openai/how-to/quota",
                 .lines = {"x-ratelimit-limit-requests: 6", "x-ratelimit-remaining-requests: 0",
                           "x-ratelimit-renewalperiod-requests: 10", "x-ms-retry-after-ms: 9000"},
                 .limited_by = LimitedBy::rate,
                 .retry_after = 9s,
                 .limits = {.remaining_requests = 0, .limit_requests = 6, .period_requests_ms = 10'000}});
  all.push_back({.who = "Azure OpenAI, in a sentence alone",
                 .source = "https://learn.microsoft.com/azure/ai-services/openai/how-to/quota",
                 .body = error_of("Requests have exceeded token rate limit. Please retry after 26 seconds."),
                 .retry_after = 26s});
  const std::string_view anthropic = "https://docs.anthropic.com/en/api/rate-limits";
  all.push_back(
      {.who = "Anthropic",
       .source = anthropic,
       .lines = {"anthropic-ratelimit-input-tokens-limit: 40000",
                 "anthropic-ratelimit-input-tokens-remaining: 0",
                 "anthropic-ratelimit-input-tokens-reset: 2026-01-01T00:00:30Z", "retry-after: 7"},
       .body = R"({"type":"error","error":{"type":"rate_limit_error","message":"slow down"}})",
       .limited_by = LimitedBy::rate,
       .retry_after = 7s,
       .limits = {
           .remaining_input_tokens = 0, .reset_input_tokens_ms = 30'000, .limit_input_tokens = 40'000}});
  all.push_back(
      {.who = "Anthropic, the pace rises",
       .source = anthropic,
       .body = R"({"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed )"
               R"(your organization's maximum usage increase rate for input tokens per minute"}})",
       .limited_by = LimitedBy::slope});
  all.push_back({.who = "Anthropic, a person's plan",
                 .source = "https://github.com/anthropics/claude-code",
                 .lines = {"anthropic-ratelimit-unified-status: rejected",
                           "anthropic-ratelimit-unified-reset: 1767240000"},
                 .body = R"({"type":"error","error":{"type":"rate_limit_error","message":"x"}})",
                 .limited_by = LimitedBy::day,
                 .retry_after = 14'400s});
  const std::string minute =
      R"({"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]})";
  const std::string day =
      R"({"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]})";
  const std::string retry_info = R"({"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"27s"})";
  const std::string_view gemini = "https://github.com/google-gemini/gemini-cli/issues/8437";
  all.push_back(
      {.who = "Gemini, a minute",
       .source = gemini,
       .body = R"({"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[)" +
               minute + "," + retry_info + "]}}",
       .limited_by = LimitedBy::rate,
       .retry_after = 27s});
  all.push_back(
      {.who = "Gemini, a day, in a list",
       .source = gemini,
       .body = R"([{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[)" +
               retry_info + "," + day + "]}}]",
       .limited_by = LimitedBy::day,
       .retry_after = 27s});
  all.push_back(
      {.who = "Gemini, without details",
       .source = "https://github.com/googleapis/python-genai/issues/2065",
       .body =
           R"({"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}})"});
  all.push_back(
      {.who = "Mistral",
       .source = "https://github.com/mistralai/client-ts/issues/169",
       .lines = {"x-ratelimit-limit-tokens-minute: 5000000", "x-ratelimit-remaining-tokens-minute: 4999911",
                 "x-ratelimit-tokens-query-cost: 52", "x-ratelimit-limit-req-minute: 720",
                 "x-ratelimit-remaining-req-minute: 0"},
       .body = R"({"object":"error","message":"Rate limit exceeded","type":"rate_limited","code":"1300"})",
       .limited_by = LimitedBy::rate,
       .limits = {.remaining_requests = 0,
                  .remaining_tokens = 4'999'911,
                  .limit_requests = 720,
                  .limit_tokens = 5'000'000}});
  const std::string_view groq = "https://console.groq.com/docs/rate-limits";
  all.push_back({.who = "Groq, tokens of a minute",
                 .source = groq,
                 .lines = {"retry-after: 2", "x-ratelimit-limit-requests: 14400",
                           "x-ratelimit-remaining-requests: 14399", "x-ratelimit-reset-requests: 6s",
                           "x-ratelimit-limit-tokens: 18000", "x-ratelimit-remaining-tokens: 0",
                           "x-ratelimit-reset-tokens: 7.66s"},
                 .limited_by = LimitedBy::rate,
                 .retry_after = 2s,
                 .limits = {.remaining_requests = 14'399,
                            .remaining_tokens = 0,
                            .reset_requests_ms = 6000,
                            .reset_tokens_ms = 7660,
                            .limit_requests = 14'400,
                            .limit_tokens = 18'000,
                            .period_requests_ms = kDay},
                 .url = "https://api.groq.com/openai/v1"});
  all.push_back({.who = "Groq behind a proxy: the reset tells the day",
                 .source = groq,
                 .lines = {"retry-after: 2", "x-ratelimit-limit-requests: 14400",
                           "x-ratelimit-remaining-requests: 14370", "x-ratelimit-reset-requests: 2m59.56s"},
                 .retry_after = 2s,
                 .limits = {.remaining_requests = 14'370,
                            .reset_requests_ms = 179'560,
                            .limit_requests = 14'400,
                            .period_requests_ms = kDay}});
  all.push_back(
      {.who = "Groq, tokens of a day",
       .source = groq,
       .body = error_of("Rate limit reached for model `x` on tokens per day (TPD): Limit 100000, Used 99999, "
                        "Requested 100. Please try again in 1m25.5s."),
       .limited_by = LimitedBy::day,
       .retry_after = 85'500ms});
  const std::string_view cerebras = "https://inference-docs.cerebras.ai/support/rate-limits";
  all.push_back(
      {.who = "Cerebras, a day is used up",
       .source = cerebras,
       .lines = {"x-ratelimit-limit-requests-day: 14400", "x-ratelimit-remaining-requests-day: 0",
                 "x-ratelimit-reset-requests-day: 33011.382867", "x-ratelimit-limit-tokens-minute: 60000",
                 "x-ratelimit-remaining-tokens-minute: 59000", "x-ratelimit-reset-tokens-minute: 11.382867"},
       .limited_by = LimitedBy::day,
       .retry_after = 33'011'383ms,
       .limits = {.remaining_requests = 0,
                  .remaining_tokens = 59'000,
                  .reset_requests_ms = 33'011'383,
                  .reset_tokens_ms = 11'383,
                  .limit_requests = 14'400,
                  .limit_tokens = 60'000,
                  .period_requests_ms = kDay}});
  all.push_back(
      {.who = "Cerebras, an hour beside a day",
       .source = cerebras,
       .lines = {"x-ratelimit-limit-requests-hour: 900", "x-ratelimit-remaining-requests-hour: 0",
                 "retry-after: 9", "x-ratelimit-limit-requests-day: 14400",
                 "x-ratelimit-remaining-requests-day: 5000"},
       .limited_by = LimitedBy::rate,
       .retry_after = 9s,
       .limits = {.remaining_requests = 0, .limit_requests = 900, .period_requests_ms = 3'600'000}});
  all.push_back(
      {.who = "DigitalOcean",
       .source =
           "https://docs.digitalocean.com/products/inference/reference/quota-specific-response-headers/",
       .lines = {"retry-after: 3", "x-ratelimit-limit-tokens-per-day: 1000",
                 "x-ratelimit-remaining-tokens-per-day: 0"},
       .limited_by = LimitedBy::day,
       .retry_after = 3s,
       .limits = {.remaining_tokens = 0, .limit_tokens = 1000, .period_tokens_ms = kDay}});
  all.push_back(
      {.who = "DeepSeek",
       .source = "https://github.com/tarigelamin1997/jobfetcher/pull/42",
       .body = error_of("Your current concurrency is 40, which exceeds your concurrency limit of 39 based on "
                        "your remaining balance."),
       .limited_by = LimitedBy::concurrency,
       .limits = {.limit_concurrency = 39}});
  all.push_back({.who = "DeepSeek, the shorter sentence",
                 .source = "https://api-docs.deepseek.com/quick_start/rate_limit",
                 .body = error_of("your concurrency is 40, which exceeds your limit of 39"),
                 .limited_by = LimitedBy::concurrency,
                 .limits = {.limit_concurrency = 39}});
  const std::string_view moonshot = "https://github.com/LLM-Red-Team/kimi-cc/issues/16";
  all.push_back({.who = "Moonshot, calls at once",
                 .source = moonshot,
                 .body = error_of(
                     "Your account org-1<ak-2> request reached max organization concurrency: 3, please try "
                     "again after 1 seconds",
                     R"(,"type":"rate_limit_reached_error")"),
                 .limited_by = LimitedBy::concurrency,
                 .retry_after = 1s,
                 .limits = {.limit_concurrency = 3}});
  all.push_back({.who = "Moonshot, requests",
                 .source = moonshot,
                 .body = error_of(
                     "Your account org-1 request reached organization max RPM: 3, please try again after 1 "
                     "seconds"),
                 .limited_by = LimitedBy::rate,
                 .retry_after = 1s});
  all.push_back(
      {.who = "Moonshot, a day",
       .source = "https://github.com/MoonshotAI/kimi-cli/issues/1599",
       .body = error_of("Your account org-1 request reached organization TPD rate limit, current: 1526210, "
                        "limit: 1500000"),
       .limited_by = LimitedBy::day});
  const std::string_view openrouter = "https://github.com/Gitlawb/openclaude/issues/936";
  all.push_back({.who = "OpenRouter, a day, in the body",
                 .source = openrouter,
                 .body = error_of("Rate limit exceeded: free-models-per-day. Add 10 credits",
                                  R"(,"code":429,"metadata":{"headers":{"X-RateLimit-Limit":"50",)"
                                  R"("X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1767240000000"}})"),
                 .limited_by = LimitedBy::day,
                 .retry_after = 14'400s,
                 .limits = {.remaining_requests = 0,
                            .reset_requests_ms = 14'400'000,
                            .limit_requests = 50,
                            .period_requests_ms = kDay}});
  all.push_back({.who = "OpenRouter, a provider behind it",
                 .source = "https://openrouter.ai/docs/api/reference/errors",
                 .body = error_of("Provider returned error",
                                  R"(,"code":429,"metadata":{"raw":"x is limited: tokens per )"
                                  R"(day. Please try again in 90s","provider_name":"X"})"),
                 .limited_by = LimitedBy::day,
                 .retry_after = 90s});
  all.push_back(
      {.who = "Together",
       .source = "https://docs.together.ai/docs/rate-limits",
       .lines = {"retry-after: 1", "x-ratelimit-limit: 10", "x-ratelimit-remaining: 0",
                 "x-ratelimit-reset: 1", "x-tokenlimit-limit: 4500", "x-tokenlimit-remaining: 4000"},
       .limited_by = LimitedBy::rate,
       .retry_after = 1s,
       .limits = {.remaining_requests = 0,
                  .remaining_tokens = 4000,
                  .reset_requests_ms = 1000,
                  .limit_requests = 10,
                  .limit_tokens = 4500}});
  all.push_back(
      {.who = "Fireworks",
       .source = "https://docs.fireworks.ai/guides/quotas_usage/rate-limits",
       .lines = {"retry-after: 1", "x-ratelimit-limit-tokens-prompt: 60000",
                 "x-ratelimit-remaining-tokens-prompt: 0", "x-ratelimit-limit-tokens-generated: 6000"},
       .limited_by = LimitedBy::rate,
       .retry_after = 1s,
       .limits = {.remaining_input_tokens = 0, .limit_input_tokens = 60'000, .limit_output_tokens = 6000}});
  all.push_back(
      {.who = "DeepInfra, a bare 429", .source = "https://deepinfra.com/docs/advanced/rate-limits"});
  all.push_back(
      {.who = "Cohere",
       .source = "https://docs.cohere.com/docs/rate-limits",
       .body = R"({"message":"You are using a Trial key, which is limited to 1000 API calls per month."})",
       .limited_by = LimitedBy::day});
  all.push_back(
      {.who = "xAI",
       .source = "https://docs.x.ai/docs/key-information/consumption-and-rate-limits",
       .lines = {"retry-after: 1", "x-ratelimit-limit-requests: 480", "x-ratelimit-remaining-requests: 0"},
       .body = R"({"code":"resource-exhausted","error":"Too many requests"})",
       .limited_by = LimitedBy::rate,
       .retry_after = 1s,
       .limits = {.remaining_requests = 0, .limit_requests = 480}});
  all.push_back({.who = "Alibaba, the pace rises",
                 .source = "https://github.com/QwenLM/Qwen/issues/2069",
                 .body = error_of("Request rate increased too quickly.", R"(,"code":"limit_burst_rate")"),
                 .limited_by = LimitedBy::slope});
  all.push_back({.who = "Alibaba behind a router: the sentence alone",
                 .source = "https://github.com/anomalyco/opencode/issues/21336",
                 .body = error_of("Upstream error from Alibaba: Request rate increased too quickly."),
                 .limited_by = LimitedBy::slope});
  all.push_back({.who = "Volcano Ark",
                 .source = "https://www.volcengine.com/docs/82379/1299023",
                 .body = error_of("surge", R"(,"code":"RequestBurstTooFast","type":"TooManyRequests")"),
                 .limited_by = LimitedBy::slope});
  const std::string_view github =
      "https://docs.github.com/github-models/use-github-models/prototyping-with-ai-models#rate-limits";
  all.push_back({.who = "GitHub Models, a day",
                 .source = github,
                 .body = error_of(
                     "Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 48256 seconds "
                     "before retrying.",
                     R"(,"code":"RateLimitReached")"),
                 .limited_by = LimitedBy::day,
                 .retry_after = 48'256s});
  all.push_back({.who = "GitHub Models, calls at once",
                 .source = github,
                 .body = error_of("Rate limit of 2 per 0s exceeded for UserConcurrentRequests."),
                 .limited_by = LimitedBy::concurrency});
  all.push_back({.who = "a server with slots",
                 .source = "https://github.com/ggml-org/llama.cpp",
                 .body = error_of("timed out waiting for a slot"),
                 .limited_by = LimitedBy::concurrency});
  all.push_back(
      {.who = "the same as 503",
       .source = "https://github.com/ggml-org/llama.cpp",
       .status = 503,
       .body = error_of("timed out waiting for a slot", R"(,"type":"unavailable_error","code":503)"),
       .error_class = ErrorClass::overloaded});
  all.push_back({.who = "Ollama's cloud, calls at once",
                 .source = "https://docs.ollama.com/api/errors",
                 .body = R"({"error":"Too many concurrent requests"})",
                 .limited_by = LimitedBy::concurrency});
  all.push_back(
      {.who = "Ollama's cloud, an hour",
       .source = "https://github.com/continuedev/continue/issues/9233",
       .body = R"({"error":"you've reached your hourly usage limit, please wait or upgrade to continue"})",
       .limited_by = LimitedBy::rate});
  all.push_back({.who = "Cloudflare",
                 .source = "https://developers.cloudflare.com/workers-ai/platform/errors/",
                 .body =
                     R"({"success":false,"errors":[{"code":3036,"message":"you have used up your daily free )"
                     R"(allocation of 10,000 neurons"}],"result":null})",
                 .limited_by = LimitedBy::day});
  const std::string_view ietf = "https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/";
  all.push_back({.who = "IETF, draft 06",
                 .source = ietf,
                 .lines = {"RateLimit-Limit: 100, 100;w=10, 1000;w=3600", "RateLimit-Remaining: 0",
                           "RateLimit-Reset: 4"},
                 .limited_by = LimitedBy::rate,
                 .limits = {.remaining_requests = 0,
                            .reset_requests_ms = 4000,
                            .limit_requests = 100,
                            .period_requests_ms = 10'000}});
  all.push_back({.who = "IETF, draft 07",
                 .source = ietf,
                 .lines = {"RateLimit: limit=100, remaining=0, reset=5", "RateLimit-Policy: 100;w=60",
                           "retry-after: 5"},
                 .limited_by = LimitedBy::rate,
                 .retry_after = 5s,
                 .limits = {.remaining_requests = 0, .reset_requests_ms = 5000, .limit_requests = 100}});
  all.push_back(
      {.who = "IETF, the structured drafts",
       .source = ietf,
       .lines =
           {R"(RateLimit-Policy: "burst";q=10;w=1, "daily";q=5000;w=86400, "at once";q=4;qu="concurrent-requests", "size";q=9;qu="content-bytes")",
            R"(RateLimit: "burst";r=9;t=1, "daily";r=0;t=7200)"},
       .limited_by = LimitedBy::day,
       .retry_after = 7200s,
       .limits = {.remaining_requests = 0,
                  .reset_requests_ms = 7'200'000,
                  .limit_requests = 5000,
                  .limit_concurrency = 4,
                  .period_requests_ms = kDay}});
  all.push_back({.who = "IETF, calls at once alone",
                 .source = ietf,
                 .lines = {R"(RateLimit-Policy: "c";q=8;qu="concurrent-requests")", R"(RateLimit: "c";r=0)"},
                 .limits = {.limit_concurrency = 8}});
  all.push_back({.who = "an account of a plan",
                 .source = "https://github.com/diegosouzapw/OmniRoute/issues/858",
                 .body = error_of("You have exhausted your capacity. Your quota will reset after 27h41m36s."),
                 .retry_after = 27h + 41min + 36s});
  all.push_back({.who = "an account of a plan, with a date",
                 .source = "https://docs.z.ai/api-reference/api-code",
                 .body = error_of("Weekly limit used up. Your limit will reset at 2026-01-01 05:00:00"),
                 .limited_by = LimitedBy::day,
                 .retry_after = 5h});
  return all;
}

TEST(Refusals, of_the_providers_are_understood) {
  for (const Refusal& row : refusals()) {
    const JobFailure failure = status_failure(row.status, headers_of(row.lines, row.url), row.body);
    const std::string where = std::string(row.who) + ", " + std::string(row.source);
    EXPECT_EQ(name_of(failure.error_class), name_of(row.error_class)) << where;
    EXPECT_EQ(text_of(failure.limited_by), text_of(row.limited_by)) << where;
    EXPECT_EQ(failure.retry_after.value_or(-1ms).count(), row.retry_after.value_or(-1ms).count()) << where;
    EXPECT_EQ(text_of(failure.limits.value_or(wire::UpstreamLimits{})), text_of(row.limits)) << where;
  }
}

TEST(Refusals, that_come_inside_an_answer_are_the_same) {
  const JobFailure failure = error_event_failure(
      R"({"code":429,"message":"Rate limit exceeded: free-models-per-day","metadata":{"headers":{"X-RateLimit-Remaining":"0"}}})",
      headers_of({}));

  EXPECT_EQ(failure.error_class, ErrorClass::limited);
  EXPECT_EQ(failure.limited_by, LimitedBy::day);
  EXPECT_EQ(failure.limits->remaining_requests, 0);
}

TEST(LimitHeaders, keep_the_shortest_period_while_nothing_is_used_up) {
  const auto limits =
      headers_of({"x-ratelimit-limit-requests-day: 9000", "x-ratelimit-remaining-requests-day: 8999",
                  "x-ratelimit-limit-requests-hour: 900", "x-ratelimit-remaining-requests-hour: 899"})
          .limits();
  EXPECT_EQ(text_of(*limits), "limit_requests=900 remaining_requests=899 period_requests=3600000 ");
}

TEST(LimitHeaders, without_a_kind_count_requests_whatever_their_reset_is_written_as) {
  for (const std::string_view reset : {"1767225660", "1767225660000", "60", "60s", "2026-01-01T00:01:00Z"}) {
    const auto limits = headers_of({"X-RateLimit-Limit: 20", "X-RateLimit-Remaining: 5",
                                    "X-RateLimit-Reset: " + std::string(reset)})
                            .limits();
    ASSERT_TRUE(limits) << reset;
    EXPECT_EQ(text_of(*limits), "limit_requests=20 remaining_requests=5 reset_requests=60000 ") << reset;
  }
}

TEST(LimitHeaders, a_minute_is_no_day_because_its_window_ends_late) {
  const auto limits = headers_of({"x-ratelimit-limit-requests: 1440", "x-ratelimit-remaining-requests: 1439",
                                  "x-ratelimit-reset-requests: 60s"})
                          .limits();
  EXPECT_EQ(limits->period_requests_ms, kNone);
}

TEST(LimitHeaders, are_bounded_in_number) {
  std::string policies;
  for (int i = 0; i < 1000; ++i)
    policies += "\"p" + std::to_string(i) + "\";q=5;w=" + std::to_string(i + 100) + ",";
  const auto limits = headers_of({"RateLimit-Policy: " + policies}).limits();
  EXPECT_EQ(text_of(*limits), "limit_requests=5 period_requests=100000 ");
}

TEST(Refusals, absurd_words_do_no_harm) {
  const std::string huge(10'000'000, '9');
  const std::vector<std::string> values = {
      "",       "-1",       "1e300",     "-1e300",    "NaN",    "inf",
      ";",      ",",        "=",         "\"",        ";;;===", "0;w=0",
      "1;w=-1", "\"a\";q=", "limit=,,,", "limit=1e9", huge,     std::string(100'000, ',') + ";w="};
  for (const std::string_view name :
       {"retry-after", "retry-after-ms", "x-ms-retry-after-ms", "x-ratelimit-limit-requests",
        "x-ratelimit-reset-requests", "x-ratelimit-remaining-tokens-day", "x-ratelimit-limit",
        "x-ratelimit-reset", "x-ratelimit-renewalperiod-requests", "ratelimit", "ratelimit-policy",
        "ratelimit-limit", "ratelimit-reset", "anthropic-ratelimit-tokens-reset",
        "anthropic-ratelimit-unified-reset", "x-tokenlimit-limit"})
    for (const std::string& value : values) {
      const UpstreamHeaders headers = headers_of({std::string(name) + ": " + value});
      const JobFailure failure = status_failure(429, headers, "");
      EXPECT_EQ(failure.error_class, ErrorClass::limited);
      const auto wait = failure.retry_after.value_or(0ms);
      EXPECT_TRUE(wait >= 0ms && wait <= milliseconds(limits::duration_ms_max)) << name;
    }
  for (const std::string& value : values)
    for (const std::string_view phrase :
         {"try again in ", "reset at ", "exceeds your limit of ", "concurrency is "}) {
      const std::string text = std::string(phrase) + value + "s";
      EXPECT_EQ(status_failure(429, headers_of({}), error_of(text)).error_class, ErrorClass::limited);
      EXPECT_EQ(status_failure(429, headers_of({}), text).error_class, ErrorClass::limited);
    }
  for (const std::string& body :
       {std::string(R"({"error":{"details":[[[[)"), std::string(R"({"error":{"details":{},"metadata":[]}})"),
        std::string(R"([)"), std::string(R"([1,2])"),
        std::string(R"({"error":{"metadata":{"headers":{"retry-after":)"),
        R"({"error":{"metadata":{"headers":{")" + huge + R"(":")" + huge + "\"}}}}",
        std::string(5'000'000, '['), R"({"error":{"details":[{"retryDelay":")" + huge + "s\"}]}}",
        std::string(R"({"errors":[1,{"code":[]}]})")})
    EXPECT_EQ(status_failure(429, headers_of({}), body).error_class, ErrorClass::limited);
}

TEST(Providers, that_count_seconds_are_read_so) {
  LimitHeaders headers;
  for (const auto& [name, value] :
       {std::pair("x-ratelimit-limit", "10"), std::pair("x-ratelimit-remaining", "9"),
        std::pair("x-ratelimit-reset", "1"), std::pair("x-tokenlimit-limit", "3000"),
        std::pair("x-tokenlimit-remaining", "2900")})
    headers.add(name, value, {});
  const auto limits = headers.limits(provider_of("https://api.together.xyz/v1"));
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->limit_requests, 10);
  EXPECT_EQ(limits->period_requests_ms, 1000);
  EXPECT_EQ(limits->limit_tokens, 3000);
  EXPECT_EQ(limits->period_tokens_ms, 1000);
  EXPECT_FALSE(headers.limits(provider_of("https://api.fireworks.ai/inference/v1"))->period_tokens_ms);
}

TEST(Providers, are_read_from_the_table) {
  const toml::table file = toml::parse_file(LANEMQ_SOURCE "/packaging/providers.toml");
  ASSERT_GE(file.size(), 15u);
  EXPECT_EQ(providers().size(), file.size()) << "the build reads each table";
  for (const auto& [name, node] : file) {
    const toml::table& row = *node.as_table();
    const std::string url = row["base_url"].value_or(std::string());
    const Provider* const provider = provider_of(url);
    ASSERT_NE(provider, nullptr) << name.str();
    EXPECT_EQ(provider->name, name.str());
    EXPECT_EQ(provider->requests_period_ms, row["requests_period_s"].value_or(std::int64_t{0}) * 1000);
    EXPECT_EQ(provider->tokens_period_ms, row["tokens_period_s"].value_or(std::int64_t{0}) * 1000);
    for (const char* text : {"key_header", "api", "dialect"})
      EXPECT_FALSE(row[text].value_or(std::string()).empty()) << name.str() << " " << text;
    for (const char* list : {"limits", "sources"}) {
      ASSERT_TRUE(row[list].is_array()) << name.str() << " " << list;
      EXPECT_FALSE(row[list].as_array()->empty()) << name.str() << " " << list;
    }
  }
  ASSERT_NE(provider_of("https://API.Groq.com/openai/v1"), nullptr);
  EXPECT_EQ(provider_of("https://api.groq.com/openai/v1")->requests_period_ms, kDay);
  EXPECT_EQ(provider_of("https://api.openai.com/v1")->requests_period_ms, 0);
  EXPECT_EQ(provider_of("https://api.groq.com.example/v1"), nullptr);
  EXPECT_EQ(provider_of(""), nullptr);
}

}  // namespace
}  // namespace lanemq::worker
