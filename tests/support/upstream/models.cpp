// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/models.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "tests/support/upstream/limit_headers.hpp"

namespace lanemq::upstream {
namespace {

constexpr std::array<std::string_view, 5> kOpenaiModels = {"gpt-4o-mini", "gpt-4o", "gpt-4.1-mini", "o4-mini",
                                                           "text-embedding-3-small"};
constexpr std::array<std::string_view, 3> kAnthropicModels = {"claude-sonnet-4-5", "claude-haiku-4-5",
                                                              "claude-opus-4-1"};

std::span<const std::string_view> models_of(Dialect dialect) {
  if (dialect == Dialect::openai) return kOpenaiModels;
  return kAnthropicModels;
}

OrderedJson model(Dialect dialect, std::string_view id, std::int64_t created_s) {
  if (dialect == Dialect::openai)
    return {{"id", id}, {"object", "model"}, {"created", created_s}, {"owned_by", "lanemq-upstream"}};
  return {{"type", "model"},
          {"id", id},
          {"display_name", id},
          {"created_at", format_utc(std::chrono::seconds(created_s))}};
}

}  // namespace

std::string models_body(Dialect dialect, std::int64_t created_s) {
  const auto ids = models_of(dialect);
  OrderedJson models = OrderedJson::array();
  for (const std::string_view id : ids)
    models.push_back(model(dialect, id, created_s));
  if (dialect == Dialect::openai) return written({{"object", "list"}, {"data", models}});
  return written({{"data", models}, {"has_more", false}, {"first_id", ids.front()}, {"last_id", ids.back()}});
}

std::string model_body(Dialect dialect, std::string_view id, std::int64_t created_s) {
  const auto ids = models_of(dialect);
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) return {};
  return written(model(dialect, id, created_s));
}

}  // namespace lanemq::upstream
