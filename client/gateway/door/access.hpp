// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/apis/api.hpp"
#include "client/gateway/apis/api_error.hpp"
#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/door/lane_choice.hpp"
#include "common/http/server/access/secret.hpp"
#include "common/http/server/base/message.hpp"
#include "common/settings/values.hpp"

namespace lanemq::gateway {

/// Defaults of delay_max and retain_max.
inline constexpr std::chrono::milliseconds kWeek{std::chrono::hours(7 * 24)};

/// Whether callers need a key.
enum class Auth : unsigned char { keys, none };

/// A configured key that callers may show.
struct KeySettings {
  std::string name{};
  std::string secret{};  ///< the secret's source, as written; empty: `sha256` is given instead
  std::string sha256{};  ///< of the secret, 64 hexadecimal digits
  std::string client{};  ///< in whose share of the broker its jobs count; empty: the key's name
  LaneRules lanes{};
  std::vector<std::string> models{};              ///< allowed, with * and ?; empty: all
  std::vector<std::string> services{};            ///< allowed, with * and ?; parse() adds those of the APIs
  std::vector<std::string> ops{};                 ///< allowed, of op_names(); empty: all
  settings::Moment not_after = settings::kNever;  ///< the key counts until then
  std::chrono::milliseconds delay_max{kWeek};     ///< of jobs left at /v1/jobs
  std::chrono::milliseconds retain_max{kWeek};    ///< of their answers, where a job states a time
  bool any_stored_response = false;  ///< may also use responses that other keys stored in the shared account
  std::optional<bool> forward_service_tier{};  ///< none: as Settings::forward_service_tier
  std::int64_t requests_per_minute = 0, tokens_per_minute = 0, concurrency = 0;  ///< 0: no limit
  std::size_t files_bytes_max = 0;  ///< of its files that are kept; 0: as files_bytes_per_caller_max

  bool operator==(const KeySettings&) const = default;
};

/// The caller of a request.
struct Caller {
  std::string name{};                  ///< the key's; without keys a name made of the caller's secret
  std::string client{};                ///< JobRequest::client
  const Api* api = &kOpenai;           ///< of the request
  const KeySettings* key = nullptr;    ///< as it was when the caller came; null: no keys are configured
  std::shared_ptr<const void> keys{};  ///< keeps `key` alive through a reload

  /// The rules of the caller's lanes; without keys the same for all.
  const LaneRules& lanes() const;
  bool may_use_model(std::string_view model) const;
  /// Whether what upstreams store is looked at for its owner.
  bool is_bound_to_its_own() const;
  /// Whether it is bound to some models.
  bool has_models() const;
  /// Whether the caller may name that service, or use the API with that service. The services of a [[model]]
  /// need no permission.
  bool may_use_service(std::string_view service) const;
  /// Whether the caller's `service_tier` goes on to the upstream. `otherwise`: if its key does not say.
  bool forwards_service_tier(bool otherwise) const {
    return key != nullptr ? key->forward_service_tier.value_or(otherwise) : otherwise;
  }
};

/// The error of a key that may not use a model, which stands in `param`.
ApiError forbidden_model(std::string_view model, std::string param);
/// Why a key that is bound to some models may not send a body: a model that it names beside `model`.
/// `before`: in front of the body's members, in the error's param.
std::optional<ApiError> why_not_named_models(const Caller& caller, std::string_view body,
                                             std::string_view before);
/// The error of a key that may not use a service.
ApiError forbidden_service(std::string_view service);

/// What keys may be for, as their `ops` name it: the paths of a request say which it is.
std::span<const std::string_view> op_names();
/// The op of a path; empty: it is none, and any key may ask for it.
std::string_view op_of(std::string_view path);

/// ApiError::reason of an unknown key.
inline constexpr std::string_view kUnknownKey = "unknown_key";

/// The keys, which may be replaced. Belongs to the loop's thread. Finds secrets by their hashes, so that the
/// time of a search tells nothing about a secret.
class Access {
 public:
  explicit Access(std::vector<KeySettings> keys);
  /// Replaces the keys for later requests; present callers keep theirs.
  void replace(std::vector<KeySettings> keys);

  /// Why the request may not see figures of all callers; none: it may. Where there are keys that is a request
  /// from this machine, or with a key whose `ops` say so.
  /// `hosts`: names that this host may have in a browser, besides those of loopback: a page at another name
  /// is a stranger.
  std::optional<ApiError> why_no_metrics(const HttpRequest& request,
                                         const std::vector<std::string>& hosts) const;
  /// Whether the caller's key is still there, under the same name.
  bool still_has(const Caller& caller) const;
  /// Whether there is a key of that name.
  bool has_key(std::string_view name) const;
  /// The name of who has that secret, which may count no more; empty: nobody is known by it.
  std::string name_of(const std::string& secret_hash) const;

  /// The caller of a request, by `authorization: Bearer` or `x-api-key`; an error where its key is unknown,
  /// has run out, or is not for what the path asks for.
  tl::expected<Caller, ApiError> caller_of(const HttpRequest& request) const;

 private:
  using ByHash = std::unordered_map<std::string, KeySettings>;
  std::shared_ptr<const ByHash> keys_;
};

}  // namespace lanemq::gateway
