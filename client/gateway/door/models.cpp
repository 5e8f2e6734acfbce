// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/models.hpp"

#include <algorithm>

namespace lanemq::gateway {
namespace {

/// Marks of a prompt that exceeds the context: OpenAI's code, Anthropic's words.
constexpr std::string_view kContextWords[] = {"context_length_exceeded", "prompt is too long",
                                              "maximum context length"};

bool is_context(const ClientError& error) {
  if (error.code == "unsatisfiable" || error.code == "too_large" || error.upstream_status == 413) return true;
  if (error.upstream_status != 400) return false;
  const std::string_view body = error.body.bytes();
  return std::any_of(std::begin(kContextWords), std::end(kContextWords),
                     [&](std::string_view words) { return body.find(words) != std::string_view::npos; });
}

bool is_server_error(const ClientError& error) {
  if (error.code == "worker_lost" || error.code == "stalled" || error.code == "internal" ||
      error.code == "paused" || error.code == "no_worker")
    return true;
  if (error.code == "limited") return false;
  if (error.upstream_status) return *error.upstream_status >= 500;
  return error.code == "upstream_failed";
}

}  // namespace

bool is_reason(const ClientError& error, FallBackOn reason) {
  switch (reason) {
    case FallBackOn::rate:
      return error.code == "limited" || error.upstream_status == 429 || error.code == "lane_full" ||
             error.code == "client_full" || error.code == "bytes_full";
    case FallBackOn::timeout:
      return error.code == "deadline";
    case FallBackOn::server_error:
      return is_server_error(error);
    case FallBackOn::context:
      return is_context(error);
    case FallBackOn::quota:
      return error.code == "upstream_quota" || error.upstream_status == 402;
  }
  return false;
}

bool falls_back(const ModelSettings& route, const ClientError& error) {
  for (std::size_t i = 0; i < kFallBackReasons; ++i)
    if (route.falls_back_on[i] && is_reason(error, static_cast<FallBackOn>(i))) return true;
  return false;
}

const ModelSettings* find_route(const std::vector<ModelSettings>& models, std::string_view name) {
  const auto at = std::find_if(models.begin(), models.end(),
                               [&](const ModelSettings& model) { return model.name == name; });
  return at == models.end() ? nullptr : &*at;
}

}  // namespace lanemq::gateway
