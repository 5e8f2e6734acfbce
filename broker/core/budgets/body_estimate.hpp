// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lanemq::core {

/// Features of a request's body that show its cost, read without a tokenizer.
struct BodyEstimate {
  std::int64_t text_tokens = 0;            ///< of what the model reads as text; a first guess
  std::int64_t media = 0;                  ///< images, sounds and files that it reads, whatever their size
  std::optional<std::int64_t> max_output;  ///< the request's bound on its answer, all choices together
  std::int64_t work = 0;                   ///< what finding out has taken: at most kBodyWorkMax
};

/// The most that estimate_body() does, whatever the body, in the time that weighing a byte takes: half a
/// nanosecond to one. A byte of JSON's structure counts for several, one that is only skipped for an eighth.
inline constexpr std::int64_t kBodyWorkMax = 1'600'000;

/// Whether a body is JSON by how it begins: an object or a list.
bool is_json(std::string_view body);

/// Reads a body without a tree and without an allocation.
///
/// In JSON it counts the texts of values, the numbers in lists as a token each, since that is how tokens are
/// sent, and keys and all numbers where tools are declared or called. It leaves out what only names things
/// (`model`, `role`, `id`). Base64 and data URLs are media under the keys that carry media, and text
/// elsewhere; what is named by its URL or id is media, too. Any other body is taken for one text. Malformed
/// JSON is read as far as it goes. Tokens are weighed by byte classes, at about 4.2 bytes a token for English
/// and at most 3 for a long text without spaces; Estimates learns from the upstream how far that is off.
///
/// After about a megabyte of text, or ten of media, the rest is guessed from pieces all over it, and the
/// bound on the answer is looked for at its end.
BodyEstimate estimate_body(std::string_view body);

}  // namespace lanemq::core
