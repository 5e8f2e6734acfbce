// SPDX-License-Identifier: Apache-2.0
// What the double understands of a request, whichever API it came by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::upstream {

/// The deepest nesting of a request's JSON.
inline constexpr int kJsonDepthMax = 64;
/// The largest `max_tokens` a request may ask for.
inline constexpr std::uint64_t kMaxTokensMax = 10'000'000;
/// What a request without `max_tokens` is charged and may be answered.
inline constexpr std::uint64_t kMaxTokensDefault = 512;
/// The most texts that one request for embeddings may have, and the most numbers that one embedding has.
inline constexpr std::size_t kInputsMax = 2048;
inline constexpr std::uint64_t kDimensionsMax = 4096;
inline constexpr std::size_t kBytesPerToken = 4;

/// Bytes / 4, rounded up; at least 1.
std::uint64_t tokens_of(std::size_t bytes);

/// FNV-1a, 64 bits: a short name for a body that any language recomputes in three lines.
std::uint64_t fnv1a(std::string_view bytes);

/// The `error` object of every refusal. Empty `param` and `code` are written as null.
struct ApiError {
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {};
  std::string code = {};
};

struct ModelRequest {
  std::string model{};
  std::uint64_t prompt_tokens = 1;  ///< All text of the request in bytes / 4, rounded up; at least 1.
  std::uint64_t prompt_hash = 0;    ///< fnv1a() of all that text: equal prompts get equal answers.
  std::uint64_t max_tokens = kMaxTokensDefault;
  bool max_tokens_asked = false;
  bool stream = false;
  bool include_usage = false;  ///< A chat's or a completion's stream ends with a chunk that tells the usage.
  bool thinking = false;       ///< A message begins with a block of thinking.
  std::string asked_tool{};    ///< The tool that the prompt asks to have called; empty: it names none.
  std::string asked_arguments{};  ///< Beside it: its arguments, in JSON.
  std::string tool{};             ///< The function that the answer calls; empty: it answers in words.
  std::string fitting{};          ///< JSON that fits the function's or the answer's schema; empty: no schema.
  std::string service_tier{};     ///< As it was asked for; empty: not at all.
  // For embeddings only.
  std::vector<std::uint64_t> inputs{};  ///< fnv1a() of each text.
  std::uint64_t dimensions = 0;
  bool base64 = false;

  /// What the limits are charged at arrival: the worst the call can come to.
  std::uint64_t charge() const { return prompt_tokens + max_tokens; }
};

}  // namespace lanemq::upstream
