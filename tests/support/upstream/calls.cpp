// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/calls.hpp"

#include <algorithm>
#include <sstream>

#include "tests/support/upstream/schema_sample.hpp"

namespace lanemq::upstream {

void read_asked_call(std::string_view text, ModelRequest& request) {
  const auto at = text.rfind(kCallWords);
  if (at == std::string_view::npos) return;
  std::istringstream words(std::string(text.substr(at + kCallWords.size())));
  std::string name;
  OrderedJson arguments;
  try {
    // What follows the object is the caller's own: an agent may quote its prompt.
    words >> name >> arguments;
  } catch (const OrderedJson::parse_error&) {
    return;
  }
  if (!arguments.is_object()) return;
  request.asked_tool = name;
  request.asked_arguments = arguments.dump();
}

void choose_call(const std::vector<OfferedTool>& tools, const Json& forced, ModelRequest& request) {
  const std::string wanted = forced.is_string() ? forced.get<std::string>() : request.asked_tool;
  const auto tool = std::find_if(tools.begin(), tools.end(), [&](const OfferedTool& offered) {
    return wanted.empty() || offered.name == wanted;
  });
  if (tool == tools.end()) return;
  request.tool = tool->name;
  request.fitting =
      tool->name == request.asked_tool ? request.asked_arguments : sample_of(*tool->schema).dump();
  if (request.fitting == "null") request.fitting = "{}";
}

}  // namespace lanemq::upstream
