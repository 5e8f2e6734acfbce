// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/named_models.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "client/gateway/apis/stored_references.hpp"
#include "common/json/cursor.hpp"
#include "common/json/named.hpp"

namespace lanemq::gateway {
namespace {

/// Of Anthropic, OpenRouter and LiteLLM; the last three are names of a model at Azure's and older APIs.
constexpr std::array<std::string_view, 8> kLists = {
    "fallbacks", "models",     "fallback_models", "context_window_fallbacks", "content_policy_fallbacks",
    "engine",    "deployment", "deployment_id"};

class Found {
 public:
  void add(std::string place, std::string_view value) {
    if (std::optional<std::string> model = unquoted_json(value); model && !model->empty())
      all.push_back({.param = std::move(place), .model = *std::move(model)});
  }

  /// Calls `tell` with the place and the bytes of each element; of what is no list, with itself.
  template <class Tell>
  static void each(std::string_view name, std::string_view list, Tell tell) {
    JsonCursor cursor(list);
    if (!cursor.enter_array()) return tell(std::string(name), list);
    for (std::size_t number = 0; cursor.element(); ++number)
      tell(std::string(name) + "[" + std::to_string(number) + "]", cursor.value());
  }

  /// Of tools, and of tools in them. Deeper ones are refused where what they refer to is read.
  void add_tools(const std::string& place, std::string_view list, int depth = 0) {
    if (depth > kToolsDeepMax) return;
    each(place, list, [&](const std::string& inside, std::string_view tool) {
      add_model_of(inside, tool);
      each_member(tool, "tools",
                  [&](std::string_view more) { add_tools(inside + ".tools", more, depth + 1); });
    });
  }

  /// The `model` of an object; false: it has none.
  bool add_model_of(const std::string& place, std::string_view object) {
    bool any = false;
    each_member(object, "model", [&](std::string_view value) {
      any = true;
      add(place + ".model", value);
    });
    return any;
  }

  /// A name, an object with a `model`, or LiteLLM's lists by the model that failed.
  void add_fallback(const std::string& place, std::string_view value) {
    if (!value.starts_with('{')) return add(place, value);
    if (add_model_of(place, value)) return;
    JsonCursor cursor(value);
    cursor.enter_object();
    for (std::string_view key; cursor.member(key);)
      each(place + "." + std::string(key), cursor.value(),
           [&](std::string inside, std::string_view name) { add(std::move(inside), name); });
  }

  std::vector<NamedModel> all{};
};

}  // namespace

std::vector<NamedModel> named_models_of(std::string_view body) {
  Found found;
  bool has_model = false, has_prompt = false;
  JsonCursor cursor(body);
  if (!cursor.enter_object()) return {};
  for (std::string_view key; cursor.member(key);) {
    const std::string_view value = cursor.value();
    has_model = has_model || (is_key(key, "model") && value.starts_with('"'));
    has_prompt = has_prompt || (is_key(key, "prompt") && value.starts_with('{'));
    for (const std::string_view list : kLists)
      if (is_key(key, list))
        Found::each(list, value,
                    [&](const std::string& place, std::string_view one) { found.add_fallback(place, one); });
    if (is_key(key, "tools")) found.add_tools("tools", value);
    if (is_key(key, "moderation")) found.add_model_of("moderation", value);
    if (is_key(key, "input"))
      Found::each("input", value, [&](const std::string& place, std::string_view item) {
        each_member(item, "tools", [&](std::string_view tools) { found.add_tools(place + ".tools", tools); });
      });
  }
  if (has_prompt && !has_model) found.all.push_back({.param = "prompt"});
  return std::move(found.all);
}

}  // namespace lanemq::gateway
