// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/access.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/text.hpp>
#include <lanemq/words.hpp>

#include "client/gateway/secret.hpp"

namespace lanemq::gateway {
namespace {

constexpr std::string_view kBearer = "bearer ";
/// Digits of a secret's hash that name a caller where no keys are configured.
constexpr std::size_t kNameDigits = 12;

std::string_view secret_of(const HttpRequest& request) {
  const std::string_view value = request.headers.get("authorization");
  const bool bearer = value.size() > kBearer.size() && begins_with_word(value, kBearer);
  return bearer ? value.substr(kBearer.size()) : request.headers.get("x-api-key");
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

bool Caller::may_use_service(std::string_view service) const {
  return !key || matches(key->services, service);
}

ApiError forbidden_service(std::string_view service) {
  return {.name = "forbidden",
          .message = "service \"" + printable(service, 64) + "\" is not allowed with this key (services)",
          .param = "service"};
}

Api api_of(const HttpRequest& request) {
  const bool anthropic = request.anthropic_prefix || request.headers.find("anthropic-version") ||
                         request.path.starts_with("/v1/messages") ||
                         (request.headers.find("x-api-key") && !request.headers.find("authorization"));
  return anthropic ? Api::anthropic : Api::openai;
}

const std::string& secret_hash_of(const HttpRequest& request) {
  if (!request.secret_hash) {
    const std::string_view secret = secret_of(request);
    request.secret_hash = secret.empty() ? std::string() : sha256_hex(secret);
  }
  return *request.secret_hash;
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

tl::expected<Caller, ApiError> Access::caller_of(const HttpRequest& request) const {
  const std::string& hash = secret_hash_of(request);
  const Api api = api_of(request);
  if (keys_->empty()) {
    const std::string name = hash.empty() ? "anonymous" : "caller-" + hash.substr(0, kNameDigits);
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
  return Caller{.name = key.name,
                .client = key.client.empty() ? key.name : key.client,
                .api = api,
                .key = &key,
                .keys = keys_};
}

}  // namespace lanemq::gateway
