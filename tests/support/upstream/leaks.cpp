// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/leaks.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace lanemq::upstream {
namespace {

std::string in_small_letters(std::string_view name) {
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char byte) { return std::tolower(byte); });
  return small;
}

}  // namespace

std::vector<std::string> leaks_of(const Request& request, const Api& api, const Json& body,
                                  SdkHeaders sdk_headers) {
  std::vector<std::string> leaks;
  const auto leak = [&](std::string name) {
    if (leaks.size() < kLeaksMax) leaks.push_back(std::move(name));
  };
  for (const auto& [field, value] : request.headers) {
    const std::string name = in_small_letters(field);
    const bool own = name.starts_with("x-lanemq-") && name != "x-lanemq-job" && name != "x-lanemq-attempt";
    const bool sdk = name.starts_with("x-stainless-") && sdk_headers == SdkHeaders::refused;
    if (own || sdk || name == "x-priority") leak(name);
  }
  const auto known = api.parameters();
  for (const auto& [name, value] : body.items())
    if (std::find(known.begin(), known.end(), name) == known.end()) leak(name);
  if (const Json& model = member(body, "model");
      model.is_string() && model.get_ref<const std::string&>().find('@') != std::string::npos)
    leak("model " + model.get<std::string>());
  return leaks;
}

}  // namespace lanemq::upstream
