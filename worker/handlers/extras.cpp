// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/extras.hpp"

namespace lanemq::worker {

nlohmann::json extras_as_json(const wire::Extras& extras) {
  if (extras.count == 0) return nullptr;
  // They are msgpack keys and values in turn: a map of 16 bits without its head.
  std::string map{static_cast<char>(0xDE), static_cast<char>(extras.count >> 8),
                  static_cast<char>(extras.count)};
  map += extras.bytes;
  nlohmann::json values = nlohmann::json::from_msgpack(map.begin(), map.end(), true, false);
  return values.is_object() ? values : nullptr;
}

std::optional<std::string> text_of_extra(const wire::Extras& extras, std::string_view name) {
  const nlohmann::json values = extras_as_json(extras);
  const auto found = values.find(name);
  if (found == values.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace lanemq::worker
