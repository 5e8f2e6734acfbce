// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "common/json/cursor.hpp"
#include "common/json/members.hpp"

namespace lanemq {

/// Whether some reader takes a member's key for `name`: by its escapes, or in another case. `escaped`: as
/// JsonCursor::member() has it. Requires: `name` is in lower case.
inline bool is_key(std::string_view escaped, std::string_view name) {
  const std::optional<std::string> key = unquoted_json("\"" + std::string(escaped) + "\"");
  return key && reads_as(*key, name);
}

/// Whether the text stands in the body, wherever. What most bodies do not have is then not read in them.
inline bool says(std::string_view body, std::string_view text) {
  return ::memmem(body.data(), body.size(), text.data(), text.size()) != nullptr;
}

/// Calls `tell` with the bytes of each value that some reader takes for that member of the object; not at all
/// where the text is none.
template <class Tell>
void each_member(std::string_view object, std::string_view name, const Tell& tell) {
  JsonCursor cursor(object);
  if (!cursor.enter_object()) return;
  for (std::string_view key; cursor.member(key);) {
    const std::string_view value = cursor.value();
    if (is_key(key, name)) tell(value);
  }
}

}  // namespace lanemq
