// SPDX-License-Identifier: Apache-2.0
// As the services document it:
//   OpenAI     https://platform.openai.com/docs/guides/rate-limits
//   Anthropic  https://docs.anthropic.com/en/api/rate-limits
//   Azure      https://learn.microsoft.com/en-us/azure/ai-services/openai/how-to/quota
//   Groq       https://console.groq.com/docs/rate-limits
//   IETF       https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
#include "tests/support/upstream/limit_headers.hpp"

#include <ctime>

namespace lanemq::upstream {
namespace {

constexpr std::pair<Dimension, const char*> kDimensions[] = {{Dimension::requests, "requests"},
                                                             {Dimension::tokens, "tokens"}};

/// Structured fields, RFC 9651: a list of strings with parameters.
void add_ietf(HeaderFields& headers, Limiter& limiter, TimePoint now) {
  std::string policy;
  std::string state;
  for (const auto& [dimension, name] : kDimensions) {
    const auto gauge = limiter.gauge(dimension, now);
    if (!gauge) continue;
    const std::string item = (policy.empty() ? "\"" : ", \"") + std::string(name) + "\"";
    policy += item + ";q=" + std::to_string(gauge->limit) + ";w=" + whole_seconds(gauge->period);
    state += item + ";r=" + std::to_string(gauge->remaining) + ";t=" + whole_seconds(gauge->reset);
  }
  if (policy.empty()) return;
  headers.emplace_back("ratelimit-policy", policy);
  headers.emplace_back("ratelimit", state);
}

void add_x_ratelimit(HeaderFields& headers, Tongue tongue, const std::string& name, const Gauge& gauge) {
  headers.emplace_back("x-ratelimit-limit-" + name, std::to_string(gauge.limit));
  headers.emplace_back("x-ratelimit-remaining-" + name, std::to_string(gauge.remaining));
  if (tongue != Tongue::azure)
    headers.emplace_back("x-ratelimit-reset-" + name, format_duration(gauge.reset));
}

void add_anthropic(HeaderFields& headers, const std::string& name, const Gauge& gauge, Duration now_unix) {
  const std::string field = "anthropic-ratelimit-" + name;
  headers.emplace_back(field + "-limit", std::to_string(gauge.limit));
  headers.emplace_back(field + "-remaining", std::to_string(gauge.remaining));
  headers.emplace_back(field + "-reset", format_utc(now_unix + gauge.reset));
}

}  // namespace

void add_limit_headers(HeaderFields& headers, Tongue tongue, Limiter& limiter, TimePoint now,
                       Duration now_unix) {
  if (tongue == Tongue::ietf) return add_ietf(headers, limiter, now);
  const bool x_ratelimit = tongue == Tongue::openai || tongue == Tongue::azure || tongue == Tongue::groq;
  if (!x_ratelimit && tongue != Tongue::anthropic) return;
  for (const auto& [dimension, name] : kDimensions) {
    const auto gauge = limiter.gauge(dimension, now);
    if (!gauge || (tongue == Tongue::groq && dimension == Dimension::requests)) continue;
    if (x_ratelimit)
      add_x_ratelimit(headers, tongue, name, *gauge);
    else
      add_anthropic(headers, name, *gauge, now_unix);
  }
}

std::string format_duration(Duration duration) {
  const auto total = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  if (total == 0) return "0s";
  if (total < 1000) return std::to_string(total) + "ms";
  std::string text;
  if (total >= 3'600'000) text += std::to_string(total / 3'600'000) + "h";
  if (total >= 60'000) text += std::to_string(total / 60'000 % 60) + "m";
  return text + format_seconds(std::chrono::milliseconds(total % 60'000));
}

std::string format_seconds(Duration duration) {
  const auto total = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  std::string text = std::to_string(total / 1000);
  if (const auto fraction = total % 1000; fraction != 0) {
    const std::string digits = std::to_string(1000 + fraction).substr(1);
    text += "." + digits.substr(0, digits.find_last_not_of('0') + 1);
  }
  return text + "s";
}

std::string format_utc(Duration since_1970) {
  const std::time_t seconds = std::chrono::ceil<std::chrono::seconds>(since_1970).count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string whole_seconds(Duration duration) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(duration).count());
}

std::string whole_milliseconds(Duration duration) {
  return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

}  // namespace lanemq::upstream
