// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/messages.hpp>

namespace lanemq::worker {

/// Longer bodies are not read for their usage: this much takes some milliseconds, in which other calls wait.
inline constexpr std::size_t kReadBytesMax = std::size_t{8} * 1024 * 1024;

/// What an upstream's JSON body says. Texts are empty where it does not have them.
struct BodyFacts {
  /// From `usage`, in OpenAI's words (`prompt_tokens`, `completion_tokens`, their `_details`) or Anthropic's
  /// (`input_tokens` with `cache_creation_input_tokens`, `output_tokens`, `cache_read_input_tokens`). Never
  /// sets `requests`.
  std::optional<wire::Usage> usage;
  std::string error_code, error_type, error_message;  ///< from `error`, or from the top
  std::optional<long> error_status;  ///< `code` of `error`, where that is an HTTP error status
  bool says_error = false;           ///< there is an `error` that is an object or a text
};

/// Reads the facts as far as the body is JSON: in one pass, without a tree, at any depth.
BodyFacts read_body(std::string_view json);

/// The `error` of a body that is nothing else, in OpenAI's or Anthropic's shape: it has neither an answer
/// (`choices`, `data`, `content`, `output`, …) nor is it an object of the API that once failed (`object`).
/// Empty: it is none. For answers with a status of success.
std::string_view only_error_of(std::string_view json);

}  // namespace lanemq::worker
