// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/flat_schema.hpp"

#include <algorithm>
#include <array>

namespace lanemq::upstream {
namespace {

/// Of one schema; circles of several references would not end.
constexpr int kPartsMax = 1'000;

constexpr std::array<const char*, 5> kLeast = {"minimum", "exclusiveMinimum", "minLength", "minItems",
                                               "minProperties"};
constexpr std::array<const char*, 5> kMost = {"maximum", "exclusiveMaximum", "maxLength", "maxItems",
                                              "maxProperties"};

bool among(const std::array<const char*, 5>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Json as_list(const Json& value) {
  return value.is_array() ? value : Json::array({value});
}

bool contains(const Json& list, const Json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// The types of both; an integer is a number, too.
Json common_types(const Json& one, const Json& other) {
  Json common = Json::array();
  for (const Json& type : as_list(one))
    for (const Json& beside : as_list(other)) {
      if (type == beside || (type == "integer" && beside == "number")) common.push_back(type);
      if (type == "number" && beside == "integer") common.push_back(beside);
    }
  return common;
}

bool agree(const Json& one, const Json& other) {
  return !one.contains("type") || !other.contains("type") ||
         !common_types(one.at("type"), other.at("type")).empty();
}

Json both(const Json& one, const Json& other) {
  return {{"allOf", Json::array({one, other})}};
}

Json narrower(const std::string& name, const Json& one, const Json& other) {
  if (name == "type") return common_types(one, other);
  if (name == "items" || name == "additionalProperties") return both(one, other);
  if (one.is_number() && other.is_number() && among(kLeast, name)) return std::max(one, other);
  if (one.is_number() && other.is_number() && among(kMost, name)) return std::min(one, other);
  Json merged = one;
  if (name == "required" && one.is_array() && other.is_array())
    for (const Json& each : other)
      if (!contains(merged, each)) merged.push_back(each);
  if (name == "enum" && one.is_array() && other.is_array()) {
    merged = Json::array();
    for (const Json& each : one)
      if (contains(other, each)) merged.push_back(each);
  }
  if (name == "properties" && one.is_object() && other.is_object())
    for (const auto& [property, schema] : other.items())
      merged[property] = one.contains(property) ? both(one.at(property), schema) : schema;
  return merged;
}

void narrow(Json& schema, const Json& other) {
  for (const auto& [name, value] : other.items())
    schema[name] = schema.contains(name) ? narrower(name, schema.at(name), value) : value;
}

class Flattener {
 public:
  explicit Flattener(const Json& root) : root_(root) {}

  Json flat(const Json& schema, int depth) {
    if (!schema.is_object() || depth > kJsonDepthMax || ++parts_ > kPartsMax) return nullptr;
    Json flat_one = schema;
    for (const char* name : {"$ref", "allOf", "anyOf", "oneOf"})
      flat_one.erase(name);
    if (schema.contains("$ref")) {
      const Json led_to = flat(target(schema.at("$ref")), depth + 1);
      if (led_to.is_null()) return nullptr;
      narrow(flat_one, led_to);
    }
    if (const Json& all = member(schema, "allOf"); all.is_array())
      for (const Json& each : all)
        if (const Json part = flat(each, depth + 1); part.is_object()) narrow(flat_one, part);
    choose(member(schema, "anyOf"), depth, flat_one);
    if (const Json* chosen = choose(member(schema, "oneOf"), depth, flat_one); chosen != nullptr)
      leave_out_others(schema.at("oneOf"), *chosen, flat_one);
    return flat_one;
  }

 private:
  // A reference to nowhere says nothing.
  const Json& target(const Json& reference) const {
    static const Json kNothing;
    if (!reference.is_string() || !reference.get_ref<const std::string&>().starts_with("#")) return kNothing;
    try {
      return root_.at(Json::json_pointer(reference.get_ref<const std::string&>().substr(1)));
    } catch (const Json::exception&) {
      return kNothing;
    }
  }

  // Adds the first choice that can be; null where there is none.
  const Json* choose(const Json& choices, int depth, Json& flat_one) {
    if (!choices.is_array()) return nullptr;
    for (const Json& choice : choices) {
      const Json part = flat(choice, depth + 1);
      if (!part.is_object() || !agree(flat_one, part)) continue;
      narrow(flat_one, part);
      return &choice;
    }
    return nullptr;
  }

  // One alone of several may hold: what only others require stays away.
  void leave_out_others(const Json& choices, const Json& chosen, Json& flat_one) const {
    if (!member(flat_one, "properties").is_object()) return;
    for (const Json& choice : choices) {
      if (&choice == &chosen || !choice.is_object() || !member(choice, "required").is_array()) continue;
      for (const Json& name : choice.at("required"))
        if (name.is_string() && !contains(member(flat_one, "required"), name))
          flat_one.at("properties").erase(name.get<std::string>());
    }
  }

  const Json& root_;
  int parts_ = 0;
};

}  // namespace

Json flat_schema(const Json& schema, const Json& root) {
  return Flattener(root).flat(schema, 0);
}

}  // namespace lanemq::upstream
