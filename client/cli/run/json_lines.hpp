// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/client.hpp>

#include "common/json/members.hpp"

namespace lanemq::cli {

// Lines of the input and the output of `lanemq run`. Bodies are cut out of one line and put into the other,
// byte for byte.

/// The format of a file's lines.
enum class LineFormat : unsigned char {
  batch,  ///< OpenAI's batch format: {"custom_id", "method", "url", "body"}; the body is the job's,
          ///< and the url says where the service sends it
  plain   ///< one JSON value a line, which is the job's body
};

/// The format of a line: `batch` for an object with `custom_id` and `body`. Empty: the line is no JSON.
std::optional<LineFormat> format_of(std::string_view line);

/// A line of the input.
struct InputLine {
  std::optional<std::string> custom_id{};
  std::string_view body{};  ///< inside the line, byte for byte
  std::string model{};      ///< the body's `model`, where it is a usable text
  std::string path{};  ///< batch: `/embeddings` of the url `/v1/embeddings`; empty: the service's usual one
  std::string problem{};  ///< why the line is no job; empty: it is one
};

/// Reads a line without its line end. Requires: the line outlives the result.
InputLine read_input(LineFormat format, std::string_view line);

/// The line of the input that an answer belongs to.
struct LineName {
  LineFormat format = LineFormat::batch;
  std::optional<std::string> custom_id{};  ///< batch; empty: the line has none
  std::uint64_t number = 0;                ///< plain: from 1
};

/// The answer's line in the output, with its line end: in OpenAI's batch output format; for plain lines
/// {"id", "line", "response", "error"} with the same two inner objects.
std::string write_output(const LineName& name, std::string_view job_id, const Answer& answer);

/// A line of an output that is read again.
struct OutputLine {
  LineName name;
  std::string job_id;
  bool failed = false;
};

/// Empty: write_output() did not write the line.
std::optional<OutputLine> read_output(std::string_view line);

}  // namespace lanemq::cli
