// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/api.hpp"
#include "client/gateway/api_error.hpp"
#include "client/gateway/http/message.hpp"
#include "client/gateway/lane_choice.hpp"

namespace lanemq::gateway {

/// How far ahead a key may leave work, and how long answers are kept for it, where nobody says.
inline constexpr std::chrono::milliseconds kWeek{std::chrono::hours(7 * 24)};

/// Whether callers need a key.
enum class Auth : unsigned char { keys, none };

/// One key that callers may show, as configured.
struct KeySettings {
  std::string name{};
  std::string secret{};  ///< where it stands, as written; empty: `sha256` is given instead
  std::string sha256{};  ///< of the secret, 64 hexadecimal digits
  std::string client{};  ///< whose share its jobs take at the broker; empty: the key's name
  LaneRules lanes{};
  std::vector<std::string> models{};            ///< allowed, with * and ?; empty: all
  std::vector<std::string> services{};          ///< allowed, with * and ?; parse() puts in those of the APIs
  std::chrono::milliseconds delay_max{kWeek};   ///< of a job that is left
  std::chrono::milliseconds retain_max{kWeek};  ///< of its answer, where the job says how long
  bool any_stored_response = false;             ///< also those that others asked for, of the shared account
  std::optional<bool> forward_service_tier{};   ///< Settings::forward_service_tier where it says nothing
  std::int64_t requests_per_minute = 0, tokens_per_minute = 0, concurrency = 0;  ///< 0: no limit

  bool operator==(const KeySettings&) const = default;
};

/// Who calls.
struct Caller {
  std::string name{};    ///< of the key; where there are no keys, what stands for the caller's secret
  std::string client{};  ///< JobRequest::client
  Api api = Api::openai;
  const KeySettings* key = nullptr;    ///< null: there are no keys; else as it was when the caller came
  std::shared_ptr<const void> keys{};  ///< keeps `key`, whatever is read again

  /// What the caller may use of lanes; the same for all where there are no keys.
  const LaneRules& lanes() const;
  bool may_use_model(std::string_view model) const;
  /// Whether it may name that service, or the API whose service that is; what a [[model]] leads to is a
  /// matter of models.
  bool may_use_service(std::string_view service) const;
  /// Whether its `service_tier` goes on to the upstream. `otherwise`: where its key does not say.
  bool forwards_service_tier(bool otherwise) const {
    return key != nullptr ? key->forward_service_tier.value_or(otherwise) : otherwise;
  }
};

/// That a key may not use a service.
ApiError forbidden_service(std::string_view service);

/// The API that a request speaks: Anthropic's where it says `anthropic-version`, has the prefix or comes with
/// an `x-api-key` and no `authorization`.
Api api_of(const HttpRequest& request);

/// ApiError::reason of a key that is not known.
inline constexpr std::string_view kUnknownKey = "unknown_key";

/// The hash of the secret that a request shows; empty: it shows none. Made once for a request: it is asked
/// for its head, and again when its body is there.
const std::string& secret_hash_of(const HttpRequest& request);

/// Knows the keys, which may be replaced. Belongs to the loop's thread. Secrets are known by their hashes
/// alone: how long it takes to find one tells nothing of the secret.
class Access {
 public:
  explicit Access(std::vector<KeySettings> keys);
  /// From the next request on these count; who is served already keeps the key that it came with.
  void replace(std::vector<KeySettings> keys);

  /// Who sends this request: by `authorization: Bearer` or `x-api-key`.
  tl::expected<Caller, ApiError> caller_of(const HttpRequest& request) const;

 private:
  using ByHash = std::unordered_map<std::string, KeySettings>;
  std::shared_ptr<const ByHash> keys_;
};

}  // namespace lanemq::gateway
