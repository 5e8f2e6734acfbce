// SPDX-License-Identifier: Apache-2.0
// Which of a request's tools its answer calls, and with what, whichever API the request came by.
#pragma once

#include <string>
#include <vector>

#include "tests/support/upstream/json.hpp"

namespace lanemq::upstream {

/// What a prompt says to have one tool called, in the words of that API's tools:
/// `upstream: call write_file {"path": "a.txt", "content": "hello"}`.
inline constexpr std::string_view kCallWords = "upstream: call ";

/// A tool that the answer may call.
struct OfferedTool {
  std::string name{};
  const Json* schema = nullptr;  ///< Of its arguments; must outlive the choice.
};

/// Reads the last such words of a text into `request`; without any, or where no JSON object follows the name,
/// nothing happens.
void read_asked_call(std::string_view text, ModelRequest& request);

/// Chooses the tool that the answer calls: the one that tool_choice names (`forced`; null: none), else the
/// one that the prompt names, else the first; none where the prompt names one that is not there. Arguments
/// are those that the prompt names for this tool, else what fits the schema.
void choose_call(const std::vector<OfferedTool>& tools, const Json& forced, ModelRequest& request);

}  // namespace lanemq::upstream
