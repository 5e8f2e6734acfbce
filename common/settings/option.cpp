// SPDX-License-Identifier: Apache-2.0
#include "common/settings/option.hpp"

#include <algorithm>

namespace lanemq::settings {

std::string joined(const Values& values) {
  std::string text;
  for (const std::string& value : values)
    text += (&value == &values.front() ? "" : ",") + value;
  return text;
}

void set(const BoundOption& option, const Values& values) {
  const bool is_list = option.kind == Kind::list;
  const bool is_empty = std::all_of(values.begin(), values.end(), [](const auto& v) { return v.empty(); });
  if (is_empty && !option.empty.empty()) return option.set(is_list ? Values{} : Values{""});
  const bool has_empty = std::any_of(values.begin(), values.end(), [](const auto& v) { return v.empty(); });
  if ((is_list && is_empty) || (has_empty && (is_list || option.kind == Kind::text)))
    throw UsageError("must not be empty");
  option.set(values);
}

}  // namespace lanemq::settings
