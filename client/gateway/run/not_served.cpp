// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/run/not_served.hpp"

#include <algorithm>

#include <lanemq/text.hpp>

namespace lanemq::gateway {
namespace {

/// Where the base URLs stand in the welcome.
constexpr std::size_t kSdksColumn = 19;

constexpr std::string_view kStraight = "ask the provider itself";

constexpr NotServed kNotServed[] = {
    {"/v1/moderations", "moderations", kStraight},
    {"/v1/audio", "speech and transcriptions", kStraight},
    {"/v1/images", "images", kStraight},
    {"/v1/videos", "videos", kStraight},
    {"/v1/realtime", "realtime sessions", kStraight},
    {"/v1/uploads", "uploads in parts", "send the file whole to /v1/files"},
    {"/v1/responses/compact", "compaction of responses", kStraight},
    {"/v1/responses/input_tokens", "counts of a response's input", kStraight},
    {"/v1/conversations", "conversations", "use previous_response_id, or send what was said"},
    {"/v1/assistants", "assistants", "use /v1/responses"},
    {"/v1/threads", "threads of assistants", "use /v1/responses"},
    {"/v1/vector_stores", "vector stores", kStraight},
    {"/v1/containers", "containers", kStraight},
    {"/v1/fine_tuning", "fine-tuning", kStraight},
    {"/v1/evals", "evaluations", kStraight},
    {"/v1/organization", "an organization's administration", kStraight},
    {"/v1/organizations", "an organization's administration", kStraight},
    {"/v1/skills", "skills", kStraight},
    {"/v1/chatkit", "ChatKit", kStraight},
    {"/v1/projects", "projects", kStraight},
    {"/v1/agents", "agents", kStraight},
    {"/v1/environments", "environments of agents", kStraight},
    {"/v1/sessions", "sessions of agents", kStraight},
    {"/v1/deployments", "deployments of agents", kStraight},
    {"/v1/deployment_runs", "runs of deployments", kStraight},
    {"/v1/vaults", "vaults", kStraight},
    {"/v1/memory_stores", "stores of memories", kStraight},
    {"/v1/dreams", "dreams", kStraight},
    {"/v1/tunnels", "tunnels", kStraight},
    {"/v1/user_profiles", "profiles of users", kStraight},
    {"/v1/complete", "Anthropic's text completions", "use /v1/messages"},
    {"/v1/chat/completions", "stored chat completions", "POST makes one; none are listed or kept"},
};

bool is_below(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

bool is_served(const Router& router, std::string path) {
  HttpRequest other;
  other.path = std::move(path);
  const Router::Found found = router.find(other);
  return found.route != nullptr || !found.allowed.empty();
}

}  // namespace

std::span<const NotServed> not_served() {
  return kNotServed;
}

std::string hint_for(const Router& router, const HttpRequest& request) {
  constexpr std::string_view kVersion = "/v1";
  if (request.path.ends_with('/') && is_served(router, request.path.substr(0, request.path.size() - 1)))
    return "leave out the / at the path's end";
  const NotServed* closest = nullptr;
  for (const NotServed& row : kNotServed)
    if (is_below(request.path, row.path) && (!closest || row.path.size() > closest->path.size()))
      closest = &row;
  if (closest) return std::string(closest->what) + ": not served here; " + std::string(closest->instead);
  if (is_served(router, std::string(kVersion) + request.path))
    return "the base URL of OpenAI's SDKs ends in /v1 here";
  if (is_below(request.path, kVersion) && is_below(request.path.substr(kVersion.size()), kVersion) &&
      is_served(router, request.path.substr(kVersion.size())))
    return "the path has /v1 twice: the base URL of Anthropic's SDKs has none here, as they add it "
           "themselves, and that of "
           "OpenAI's SDKs one";
  return {};
}

void hide_not_served(Router& router) {
  for (const NotServed& row : kNotServed)
    if (row.path.starts_with("/v1/responses/")) router.hide(std::string(row.path));
}

std::string welcome(const Settings& settings, const HttpRequest& request) {
  const std::string_view host = request.headers.get("host");
  const std::string base = !settings.public_url.empty()
                               ? settings.public_url
                               : (settings.tls_certificate.empty() ? "http://" : "https://") +
                                     (host.empty() ? "HOST" : printable(host, 255));
  std::string text =
      "LaneMQ's gateway: the APIs of " + api_makers() + ", with lanes, fairness and shared limits.\n\n";
  for (const Api* api : kApis) {
    std::string sdks = std::string(api->maker) + "'s SDKs:";
    sdks.resize(std::max(sdks.size() + 2, kSdksColumn), ' ');
    text.append(sdks).append("base_url = ").append(base).append(api->base_path).append("\n");
  }
  return text +
         "\n"
         "/v1/models lists the models, /readyz tells whether there is a broker, /metrics how it goes.\n";
}

}  // namespace lanemq::gateway
