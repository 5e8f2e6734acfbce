// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/calls/upstream_meta.hpp"

#include <lanemq/codec.hpp>

namespace lanemq::gateway {

std::string upstream_meta(const Api& api, const HttpRequest& request, ServiceTier tier) {
  std::string path = request.path.substr(api.base_path.size());
  if (!request.query.empty()) path += "?" + request.query;
  const bool has_method = request.method != "POST", forwards_tier = tier == ServiceTier::goes_on;
  std::size_t headers = 0;
  for (const std::string_view name : forwarded_headers())
    if (!request.headers.get(name).empty()) ++headers;
  Buffer bytes;
  DocumentWriter http(bytes);
  http.map(1).text("http").map(std::size_t{1} + has_method + forwards_tier + (headers > 0));
  http.text("path").text(path);
  if (has_method) http.text("method").text(request.method == "HEAD" ? "GET" : request.method);
  if (forwards_tier) http.text("service_tier").text("forward");
  if (headers > 0) http.text("headers").map(headers);
  for (const std::string_view name : forwarded_headers())
    if (const std::string_view value = request.headers.get(name); !value.empty()) http.text(name).text(value);
  return std::string(bytes.view());
}

std::optional<wire::Cost> stated_cost(std::string_view method, std::string_view path) {
  constexpr std::int64_t kInput = wire::Cost::kInput, kOutput = wire::Cost::kOutput;
  if (path == "/v1/embeddings") return wire::Cost{.input_tokens = {}, .output_tokens = 0, .certain = kOutput};
  if (method != "POST" || path.ends_with("/count_tokens") || path.ends_with("/cancel"))
    return wire::Cost{.input_tokens = 0, .output_tokens = 0, .certain = kInput | kOutput};
  return std::nullopt;
}

}  // namespace lanemq::gateway
