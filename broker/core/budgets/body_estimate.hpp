// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lanemq::core {

/// What a request's body shows of its cost, without a tokenizer.
struct BodyEstimate {
  std::int64_t text_tokens = 0;            ///< of the text that the model reads; a first guess
  std::int64_t media = 0;                  ///< images, sounds and files that it reads, whatever their size
  std::optional<std::int64_t> max_output;  ///< the request's bound on its answer, all choices together
};

/// Reads a body in one pass, without a tree and without an allocation: over 1 GB/s.
///
/// In JSON it counts the texts of values, and of keys only where tools are declared. It leaves out what only
/// names things (`model`, `role`, `id`) and media (base64, data URLs). Any other body is taken for one text.
/// Malformed JSON is read as far as it goes. Tokens are weighed by byte classes, at about 4.2 bytes a token
/// for English; Estimates learns from the upstream how far that is off for a model.
BodyEstimate estimate_body(std::string_view body);

}  // namespace lanemq::core
