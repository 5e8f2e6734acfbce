// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/limit_headers.hpp"

#include <ctime>

namespace lanemq::upstream {

void add_limit_headers(HeaderFields& headers, Dialect dialect, const Limiter& limiter, TimePoint now,
                       Duration now_unix) {
  for (const auto& [dimension, name] :
       {std::pair(Dimension::requests, "requests"), std::pair(Dimension::tokens, "tokens")}) {
    const auto gauge = limiter.gauge(dimension, now);
    if (!gauge) continue;
    const auto add = [&](const char* what, std::string value) {
      headers.emplace_back(dialect == Dialect::openai
                               ? std::string("x-ratelimit-") + what + "-" + name
                               : std::string("anthropic-ratelimit-") + name + "-" + what,
                           std::move(value));
    };
    add("limit", std::to_string(gauge->limit));
    add("remaining", std::to_string(gauge->remaining));
    add("reset",
        dialect == Dialect::openai ? format_duration(gauge->reset) : format_utc(now_unix + gauge->reset));
  }
}

std::string format_duration(Duration duration) {
  const auto total = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  if (total == 0) return "0s";
  if (total < 1000) return std::to_string(total) + "ms";
  std::string text;
  if (total >= 3'600'000) text += std::to_string(total / 3'600'000) + "h";
  if (total >= 60'000) text += std::to_string(total / 60'000 % 60) + "m";
  text += std::to_string(total / 1000 % 60);
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

}  // namespace lanemq::upstream
