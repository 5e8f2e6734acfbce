// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/schema_sample.hpp"

#include <algorithm>

namespace lanemq::upstream {
namespace {

const Json& follow(const Json& schema, const Json& root) {
  const Json& reference = member(schema, "$ref");
  if (!reference.is_string() || !reference.get_ref<const std::string&>().starts_with("#")) return schema;
  try {
    const Json& found = root.at(Json::json_pointer(reference.get_ref<const std::string&>().substr(1)));
    return found.is_object() ? found : schema;
  } catch (const Json::exception&) {
    return schema;  // A reference to nowhere says nothing.
  }
}

std::string type_of(const Json& schema) {
  const Json& type = member(schema, "type");
  const Json& first = type.is_array() && !type.empty() ? type[0] : type;
  if (first.is_string()) return first.get<std::string>();
  return member(schema, "properties").is_object() ? "object" : "null";
}

OrderedJson sample(const Json& unresolved, const Json& root, int depth);

OrderedJson sample_object(const Json& schema, const Json& root, int depth) {
  OrderedJson object = OrderedJson::object();
  if (const Json& properties = member(schema, "properties"); properties.is_object())
    for (const auto& [name, property] : properties.items())
      object[name] = sample(property, root, depth);
  return object;
}

OrderedJson sample_array(const Json& schema, const Json& root, int depth) {
  const Json& least = member(schema, "minItems");
  const std::size_t count =
      least.is_number_unsigned() ? std::min<std::size_t>(least.get<std::size_t>(), 100) : 1;
  OrderedJson array = OrderedJson::array();
  while (array.size() < count)
    array.push_back(sample(member(schema, "items"), root, depth));
  return array;
}

OrderedJson sample_number(const Json& schema) {
  if (const Json& least = member(schema, "minimum"); least.is_number()) return OrderedJson(least);
  if (const Json& below = member(schema, "exclusiveMinimum"); below.is_number_integer())
    return OrderedJson(below.get<std::int64_t>() + 1);
  return 7;
}

OrderedJson sample(const Json& unresolved, const Json& root, int depth) {
  if (depth > kJsonDepthMax || !unresolved.is_object()) return nullptr;
  const Json& schema = follow(unresolved, root);
  if (const Json& constant = member(schema, "const"); !constant.is_null()) return OrderedJson(constant);
  for (const char* choices : {"enum", "anyOf", "oneOf", "allOf"})
    if (const Json& several = member(schema, choices); several.is_array() && !several.empty())
      return std::string_view(choices) == "enum" ? OrderedJson(several[0])
                                                 : sample(several[0], root, depth + 1);
  const std::string type = type_of(schema);
  if (type == "object") return sample_object(schema, root, depth + 1);
  if (type == "array") return sample_array(schema, root, depth + 1);
  if (type == "string") return "text";
  if (type == "boolean") return true;
  if (type == "integer" || type == "number") return sample_number(schema);
  return nullptr;
}

}  // namespace

OrderedJson sample_of(const Json& schema) {
  return sample(schema, schema, 0);
}

}  // namespace lanemq::upstream
