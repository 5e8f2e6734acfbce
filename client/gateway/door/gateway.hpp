// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/loop_client.hpp>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/apis/stored_references.hpp"
#include "client/gateway/door/access.hpp"
#include "client/gateway/door/disk_log.hpp"
#include "client/gateway/door/metrics.hpp"
#include "client/gateway/door/refusal_log.hpp"
#include "client/gateway/door/request_traces.hpp"
#include "client/gateway/door/response_owners.hpp"
#include "client/gateway/door/settings.hpp"
#include "common/http/server/access/wrong_keys.hpp"
#include "common/http/server/base/loop.hpp"
#include "common/http/server/router.hpp"

namespace lanemq::gateway {

/// After this a request may be tried again that the broker could not take.
inline constexpr std::chrono::milliseconds kUnavailableRetryAfter{1'000};

/// When to try again where the gateway follows as much as it can.
inline constexpr std::chrono::milliseconds kFullRetryAfter{5'000};

/// What all routes share. Lives as long as the program. Belongs to the loop's thread, on which the client's
/// callbacks come, too, but never inside the call that asked.
struct Gateway {
  const Settings& settings;
  Loop& loop;
  LoopClient& broker;
  const Access& access;
  Metrics& metrics;

  WrongKeys wrong_keys{};
  RefusalLog refusal_log{};
  DiskLog disk_log{};
  ResponseOwners responses{};  ///< stored by upstreams
  RequestTraces traces{trace::Collector{}};
  bool leaving = false;   ///< /readyz refuses: draining will follow
  bool draining = false;  ///< new work is refused
  /// Whether the broker, or those of all shards, have been silent for so long that no request should wait.
  std::function<bool()> broker_is_away = [] { return false; };
  /// Called repeatedly while the broker is away.
  std::function<void()> on_broker_away = [] {};
  /// The shard that takes jobs of that service and client, if it is away; empty: none.
  std::function<std::string(const std::string& service, const std::string& client)> away_shard =
      [](const std::string&, const std::string&) { return std::string(); };
  /// Called repeatedly while that one is away.
  std::function<void(const std::string& shard)> on_shard_away = [](const std::string&) {};
};

/// Why the caller may not use what is stored under an id; empty: it may.
std::optional<ApiError> why_not_stored(const Gateway& gateway, const Caller& caller,
                                       const StoredReference& stored);

/// Why the caller may not use stored conversations; empty: it may.
std::optional<ApiError> why_no_conversation(const Caller& caller, std::string_view param);

/// Longer values of headers that go on to the upstream are refused, since the worker would refuse them.
inline constexpr std::size_t kForwardedHeaderBytesMax = 1'024;
std::optional<ApiError> why_not_forwarded(const Headers& headers);

/// Why a compressed body is refused: it must go to the upstream byte for byte, and is read here.
std::optional<ApiError> why_not_packed(const Headers& headers);

/// The caller; empty: there is none, and the request was answered.
std::optional<Caller> admitted(Gateway& gateway, const HttpRequest& request, Responder& responder);

/// Adds the request's id in the API's own header. Keeps an id that the caller gave.
void add_request_id(const Api& api, const std::string& request_id, Headers& headers);
/// The caller's `x-request-id`, where it can be a header's value, else a new one.
std::string request_id_of(const HttpRequest& request);

/// That the queue does not answer, or the part of it that is that shard.
std::string silence_of_queue(const std::string& shard);

/// The error of a gateway that stops.
ApiError draining();
/// The error while the broker does not answer, or that of a shard.
ApiError unavailable(const std::string& shard = {});

/// An error as an answer, in the API's form.
HttpAnswer error_for(const HttpRequest& request, const ApiError& error);
/// Counts a refusal of this gateway, and logs one that concerns permissions. Returns how long to hold the
/// answer back.
std::chrono::milliseconds note_refusal(Gateway& gateway, const HttpRequest& request, const ApiError& error);
/// A refusal as an answer; counts and logs it as note_refusal().
HttpAnswer refusal(Gateway& gateway, const HttpRequest& request, const ApiError& error);

}  // namespace lanemq::gateway
