// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include <lanemq/client.hpp>
#include <lanemq/limits.hpp>

#include "client/gateway/apis/api.hpp"
#include "client/gateway/batches/batch_store.hpp"

namespace lanemq::gateway {

// Lines of a batch's input and output. Bodies are cut out of one and put into the other, byte for byte.

inline constexpr std::size_t kLineBytesMax = limits::body_bytes_max;
inline constexpr std::size_t kCustomIdBytesMax = 512;        ///< of OpenAI's
inline constexpr std::size_t kMessageCustomIdBytesMax = 64;  ///< of Anthropic's

/// A request in a batch.
struct LineRequest {
  std::string custom_id{};
  std::string_view body{};  ///< a JSON object, inside the line
  std::string model{};      ///< as the caller named it; never empty
};

/// A line's fault, in OpenAI's words.
struct LineFault {
  std::string code{}, message{};
  std::string param{};  ///< empty: none
};

/// Reads a line without its line end: OpenAI's {"custom_id", "method", "url", "body"}, whose url must be
/// `endpoint`, or Anthropic's {"custom_id", "params"}. Requires: the line outlives the result, and has no
/// mark of its file's encoding (without_mark()).
tl::expected<LineRequest, LineFault> read_openai_line(std::string_view endpoint, std::string_view line);
tl::expected<LineRequest, LineFault> read_anthropic_line(std::string_view endpoint, std::string_view line);
std::string_view without_mark(std::string_view line);

/// The line that an answer belongs to.
struct LineName {
  const Api* api = &kOpenai;
  std::string_view batch_id{};
  std::uint32_t line = 0;  ///< from 0
  std::string_view custom_id{};
};

/// The id of a line's job: the same each time, so that the broker recognises the job. `step`: of the model's
/// route.
std::string line_job_id(std::string_view batch_id, std::uint32_t line, std::size_t step = 0);

/// Why a line has no answer.
enum class GivenUp : unsigned char { cancelled, expired };

/// An answer's line in the output, with its line end; and that of a line without an answer.
std::string openai_answer_line(const LineName& name, const Answer& answer);
std::string openai_given_up_line(const LineName& name, GivenUp why);
std::string anthropic_answer_line(const LineName& name, const Answer& answer);
std::string anthropic_given_up_line(const LineName& name, GivenUp why);

}  // namespace lanemq::gateway
