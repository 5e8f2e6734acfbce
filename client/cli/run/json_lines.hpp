// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/client.hpp>

#include "common/json/members.hpp"

namespace lanemq::cli {

// What a line of the input and of the output of `lanemq run` says. Bodies are never written anew, they are
// cut out of the line and put into the answer's line as their bytes stand.

/// How the lines of a file are to be read.
enum class LineFormat : unsigned char {
  batch,  ///< OpenAI's batch format: {"custom_id", "method", "url", "body"}; the body is the job's,
          ///< and the url says where the service sends it
  plain   ///< one JSON value a line, which is the job's body
};

/// The format a line looks like: `batch` is an object with `custom_id` and `body`. Empty: the line is no
/// JSON.
std::optional<LineFormat> format_of(std::string_view line);

/// A line of the input.
struct InputLine {
  std::optional<std::string> custom_id{};
  std::string_view body{};  ///< inside the line, byte for byte
  std::string model{};      ///< the body's `model` where that is a usable text, else empty
  std::string path{};  ///< batch: `/embeddings` of the url `/v1/embeddings`; empty: the service's usual one
  std::string problem{};  ///< why the line cannot be a job; empty: it can
};

/// Reads a line without its line end. The line must outlive the result.
InputLine read_input(LineFormat format, std::string_view line);

/// Which line of the input an answer belongs to.
struct LineName {
  LineFormat format = LineFormat::batch;
  std::optional<std::string> custom_id{};  ///< batch; empty: the line had none
  std::uint64_t number = 0;                ///< plain: from 1
  std::string input_hash{};                ///< plain: names the line's content
};

/// The answer's line in the output, with its line end: OpenAI's batch output format, or for plain lines
/// {"line", "input", "response", "error"} with the same two inner objects.
std::string write_output(const LineName& name, std::string_view job_id, const Answer& answer);

/// A line of the output, read again.
struct OutputLine {
  LineName name;
  bool failed = false;
};

/// Empty: the line is none of ours.
std::optional<OutputLine> read_output(std::string_view line);

}  // namespace lanemq::cli
