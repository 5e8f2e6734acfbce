// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/messages.hpp>

namespace lanemq::worker {

/// A longer body is not read for its usage, as reading it would hold up the other calls: this much takes some
/// milliseconds.
inline constexpr std::size_t kReadBytesMax = std::size_t{8} * 1024 * 1024;

/// What is read of an upstream's JSON body. Texts are absent (empty) where the body does not say them.
struct BodyFacts {
  /// From `usage`, in the words of OpenAI (`prompt_tokens`, `completion_tokens`, their `_details`) or of
  /// Anthropic
  /// (`input_tokens` with `cache_creation_input_tokens`, `output_tokens`, `cache_read_input_tokens`).
  /// `requests` is not set.
  std::optional<wire::Usage> usage;
  std::string error_code, error_type, error_message;  ///< from `error`, or from the top
  std::optional<long> error_status;  ///< `code` of `error` where it is an HTTP status of an error
};

/// Reads the facts, as far as the body is JSON: in one pass, without a tree, however deep it nests.
BodyFacts read_body(std::string_view json);

}  // namespace lanemq::worker
