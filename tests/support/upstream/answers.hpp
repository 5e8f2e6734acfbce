// SPDX-License-Identifier: Apache-2.0
// What is said over HTTP in JSON: reading a request for a chat completion, writing every kind of answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "tests/support/upstream/draws.hpp"

namespace lanemq::upstream {

/// The deepest nesting of a request's JSON.
inline constexpr int kJsonDepthMax = 64;
/// The largest `max_tokens` a request may ask for.
inline constexpr std::uint64_t kMaxTokensMax = 10'000'000;
/// What a request without `max_tokens` is charged and may be answered.
inline constexpr std::uint64_t kMaxTokensDefault = 512;
/// No answer is longer than this, whatever `max_tokens` allows. A token is four bytes.
inline constexpr std::uint64_t kAnswerTokensMax = 4096;
inline constexpr std::size_t kBytesPerToken = 4;

/// The part of a chat request that matters to the double.
struct ChatRequest {
  std::string model;
  std::uint64_t prompt_tokens = 1;  ///< The text of all messages in bytes / 4, rounded up; at least 1.
  std::uint64_t max_tokens = kMaxTokensDefault;

  /// What the limits are charged at arrival: the worst the call can come to.
  std::uint64_t charge() const { return prompt_tokens + max_tokens; }
};

/// The `error` object of every refusal. Empty `param` and `code` are written as null.
struct ApiError {
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {};
  std::string code = {};
};

/// Reads the body of POST /v1/chat/completions. `messages` is required; an absent model is "gpt-4o-mini".
/// Strings and lists of text parts count as prompt. `stream: true` is refused, for the double does not
/// stream.
tl::expected<ChatRequest, ApiError> parse_chat(std::string_view body);

std::string error_body(const ApiError& error);

struct Answer {
  std::string text;
  std::uint64_t tokens = 0;
  bool cut = false;  ///< The text ended because max_tokens was reached.
};

/// Draws a plausible text of at most `tokens_max` tokens. Requires: 1 <= tokens_max.
Answer draw_answer(Draws& draws, std::uint64_t tokens_max);

/// The body of a chat completion; `created_s` is in seconds since 1970.
std::string completion_body(std::string_view id, std::int64_t created_s, const ChatRequest& request,
                            const Answer& answer);

/// The body of GET /v1/models.
std::string models_body(std::int64_t created_s);

/// What GET /stats tells of one key.
struct KeyStats {
  std::uint64_t accepted = 0;
  std::uint64_t rejected_429 = 0;  ///< By its limits.
  std::uint64_t refused_dead = 0;  ///< After it was declared dead.
  std::uint64_t peak_calls_60s = 0;
  std::uint64_t peak_tokens_60s = 0;
};

/// What GET /stats tells: counters since the start, and the state now. See Upstream for what each counts.
struct Stats {
  std::uint64_t calls = 0;
  std::uint64_t accepted = 0;
  std::uint64_t ok = 0;
  std::uint64_t rejected_429 = 0;
  std::uint64_t bad_requests = 0;
  std::uint64_t unauthorized = 0;
  std::uint64_t malformed = 0;
  std::uint64_t hung_up = 0;
  std::uint64_t faults_5xx = 0;
  std::uint64_t faults_reset = 0;
  std::uint64_t faults_stall = 0;
  std::uint64_t faults_half = 0;
  std::uint64_t duplicate_jobs = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t charged_tokens = 0;
  std::uint64_t in_flight = 0;
  std::uint64_t in_flight_peak = 0;
  std::uint64_t connections = 0;
  std::uint64_t connections_peak = 0;
  std::uint64_t connections_refused = 0;
  std::map<std::string, KeyStats> keys{};  ///< By name; empty where any key is welcome.
};

/// The body of GET /stats. A limit that is not set is null.
std::string stats_body(const Stats& stats, const Quota& quota, std::uint64_t calls_peak,
                       std::uint64_t tokens_peak, Duration uptime);

/// A duration as Go prints it, in whole milliseconds, rounded up: "0s", "20ms", "8.64s", "6m0s", "1h0m0.5s".
std::string format_duration(Duration duration);

/// FNV-1a, 64 bits: a short name for a body that any language recomputes in three lines.
std::uint64_t fnv1a(std::string_view bytes);

}  // namespace lanemq::upstream
