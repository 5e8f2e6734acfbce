// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include <lanemq/client.hpp>
#include <lanemq/limits.hpp>

#include "client/gateway/api.hpp"
#include "client/gateway/batches/batch_store.hpp"

namespace lanemq::gateway {

// What a line of a batch's input says, and the line of its output. Bodies are never written anew: they are
// cut out of one line and put into the other.

inline constexpr std::size_t kLineBytesMax = limits::body_bytes_max;
inline constexpr std::size_t kCustomIdBytesMax = 512;        ///< of OpenAI's
inline constexpr std::size_t kMessageCustomIdBytesMax = 64;  ///< of Anthropic's

/// A request in a batch.
struct LineRequest {
  std::string custom_id{};
  std::string_view body{};  ///< a JSON object, inside the line
  std::string model{};      ///< as the caller says it; never empty
};

/// What is wrong with a line, in OpenAI's words.
struct LineFault {
  std::string code{}, message{};
  std::string param{};  ///< empty: none
};

/// Reads a line without its line end: OpenAI's {"custom_id", "method", "url", "body"}, whose url must be
/// `endpoint`, or {"custom_id", "params"} of Anthropic's. The line must outlive the result.
tl::expected<LineRequest, LineFault> read_batch_line(Api api, std::string_view endpoint,
                                                     std::string_view line);

/// Which line an answer belongs to.
struct LineName {
  Api api = Api::openai;
  std::string_view batch_id{};
  std::uint32_t line = 0;  ///< from 0
  std::string_view custom_id{};
};

/// The id of a line's job: the same whenever the line is submitted, so that the broker knows it again.
/// `step`: of its model's route.
std::string line_job_id(std::string_view batch_id, std::uint32_t line, std::size_t step = 0);

/// An answer's line in the output, with its line end.
std::string answer_line(const LineName& name, const Answer& answer);
/// The same for a line that was given up: the batch was cancelled, or its time was over.
enum class GivenUp : unsigned char { cancelled, expired };
std::string given_up_line(const LineName& name, GivenUp why);

}  // namespace lanemq::gateway
