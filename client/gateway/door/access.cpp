// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/access.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/text.hpp>
#include <lanemq/words.hpp>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/apis/named_models.hpp"
#include "common/http/server/access/browsers.hpp"
#include "common/http/server/access/secret.hpp"
#include "common/http/server/listen.hpp"

namespace lanemq::gateway {
namespace {

/// Digits of a secret's hash that name a caller where no keys are configured.
constexpr std::size_t kNameDigits = 12;

/// What a key without `ops` may not do.
constexpr std::string_view kMetricsOp = "metrics";

/// LaneMQ's own.
constexpr ApiOp kOwnOps[] = {{"/v1/jobs", "jobs"}, {"/metrics", kMetricsOp}};
/// All, as they are listed.
constexpr std::string_view kOpNames[] = {"chat",  "responses", "embeddings", "jobs",
                                         "files", "batches",   kMetricsOp};

/// The longest path of `ops` that holds this one, where it is longer than `found`'s.
void find_op(std::span<const ApiOp> ops, std::string_view path, const ApiOp*& found) {
  for (const ApiOp& op : ops)
    if (path.starts_with(op.path) && (path.size() == op.path.size() || path[op.path.size()] == '/') &&
        (found == nullptr || op.path.size() > found->path.size()))
      found = &op;
}

bool matches(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return glob_match(pattern, name); });
}

}  // namespace

const LaneRules& Caller::lanes() const {
  static const LaneRules kAll;
  return key ? key->lanes : kAll;
}

bool Caller::may_use_model(std::string_view model) const {
  return !key || key->models.empty() || matches(key->models, model);
}

bool Caller::is_bound_to_its_own() const {
  return key && !key->any_stored_response;
}

bool Caller::has_models() const {
  return key && !key->models.empty();
}

bool Caller::may_use_service(std::string_view service) const {
  return !key || matches(key->services, service);
}

std::string_view op_of(std::string_view path) {
  const ApiOp* found = nullptr;
  find_op(kOwnOps, path, found);
  for (const Api* api : kApis)
    find_op(api->ops, path, found);
  return found == nullptr ? std::string_view() : found->name;
}

std::span<const std::string_view> op_names() {
  return kOpNames;
}

ApiError forbidden_model(std::string_view model, std::string param) {
  return {.name = "forbidden",
          .message = "model \"" + printable(model, 64) + "\" is not allowed with this key",
          .param = std::move(param)};
}

std::optional<ApiError> why_not_named_models(const Caller& caller, std::string_view body,
                                             std::string_view before) {
  if (!caller.has_models()) return std::nullopt;
  for (const NamedModel& named : named_models_of(body)) {
    const std::string param = std::string(before) + named.param;
    if (named.model.empty())
      return ApiError{
          .name = "forbidden",
          .message =
              "`" + param +
              "` is stored upstream and may name a model: with this key `model` has to stand beside it",
          .param = param};
    if (!caller.may_use_model(named.model)) return forbidden_model(named.model, param);
  }
  return std::nullopt;
}

ApiError forbidden_service(std::string_view service) {
  return {.name = "forbidden",
          .message = "service \"" + printable(service, 64) + "\" is not allowed with this key (services)",
          .param = "service"};
}

Access::Access(std::vector<KeySettings> keys) {
  replace(std::move(keys));
}

void Access::replace(std::vector<KeySettings> keys) {
  ByHash by_hash;
  for (KeySettings& key : keys) {
    std::string hash = key.sha256;
    by_hash.emplace(std::move(hash), std::move(key));
  }
  keys_ = std::make_shared<const ByHash>(std::move(by_hash));
}

std::string Access::name_of(const std::string& secret_hash) const {
  if (keys_->empty())
    return secret_hash.empty() ? "anonymous" : "caller-" + secret_hash.substr(0, kNameDigits);
  const auto found = keys_->find(secret_hash);
  return found == keys_->end() ? std::string() : found->second.name;
}

tl::expected<Caller, ApiError> Access::caller_of(const HttpRequest& request) const {
  const std::string& hash = secret_hash_of(request);
  const Api* const api = &api_of(request);
  if (keys_->empty()) {
    const std::string name = name_of(hash);
    return Caller{.name = name, .client = name, .api = api, .key = nullptr};
  }
  if (hash.empty())
    return tl::unexpected(
        ApiError{.name = "unauthorized",
                 .message = "a key is needed: send it as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"",
                 .reason = "no_key"});
  const auto found = keys_->find(hash);
  if (found == keys_->end())
    return tl::unexpected(ApiError{.name = "unauthorized",
                                   .message = "this key is not known here; ask who runs this gateway",
                                   .reason = kUnknownKey});
  const KeySettings& key = found->second;
  if (std::chrono::system_clock::now() > key.not_after)
    return tl::unexpected(ApiError{.name = "unauthorized",
                                   .message = "key \"" + key.name + "\" counts no more since " +
                                              settings::show_moment(key.not_after) +
                                              " (not_after); ask who runs this gateway for a new one",
                                   .reason = "key_expired"});
  const std::string_view op = key.ops.empty() ? std::string_view() : op_of(request.path);
  if (!op.empty() && std::find(key.ops.begin(), key.ops.end(), op) == key.ops.end())
    return tl::unexpected(
        ApiError{.name = "forbidden", .message = std::string(op) + " is not allowed with this key (ops)"});
  return Caller{.name = key.name,
                .client = key.client.empty() ? key.name : key.client,
                .api = api,
                .key = &key,
                .keys = keys_};
}

std::optional<ApiError> Access::why_no_metrics(const HttpRequest& request,
                                               const std::vector<std::string>& hosts) const {
  if (keys_->empty()) return std::nullopt;
  // What a proxy on this machine says of its caller may not be readable: then the proxy's address stands
  // there.
  if (is_loopback(request.peer) && request.headers.find("x-forwarded-for") == nullptr &&
      !why_not_without_keys(request, {.name = "gateway", .cure = "", .hosts = hosts}))
    return std::nullopt;
  const tl::expected<Caller, ApiError> caller = caller_of(request);
  if (!caller) return caller.error();
  const std::vector<std::string>& ops = caller->key->ops;
  if (std::find(ops.begin(), ops.end(), kMetricsOp) != ops.end()) return std::nullopt;
  return ApiError{.name = "forbidden",
                  .message =
                      "the metrics tell of all callers: from another machine a key whose `ops` name "
                      "\"metrics\" sees them"};
}

bool Access::still_has(const Caller& caller) const {
  if (caller.key == nullptr || caller.keys == keys_) return true;  // nothing was read again
  return has_key(caller.name);
}

bool Access::has_key(std::string_view name) const {
  return std::any_of(keys_->begin(), keys_->end(),
                     [&](const auto& item) { return item.second.name == name; });
}

}  // namespace lanemq::gateway
