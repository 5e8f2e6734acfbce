// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/loop_client.hpp>

#include "client/gateway/access.hpp"
#include "client/gateway/disk_log.hpp"
#include "client/gateway/http/loop.hpp"
#include "client/gateway/http/router.hpp"
#include "client/gateway/metrics.hpp"
#include "client/gateway/refusal_log.hpp"
#include "client/gateway/response_owners.hpp"
#include "client/gateway/settings.hpp"
#include "client/gateway/stored_references.hpp"
#include "client/gateway/wrong_keys.hpp"

namespace lanemq::gateway {

/// When to ask again for what could not be asked.
inline constexpr std::chrono::milliseconds kUnavailableRetryAfter{1'000};

/// What all routes share. Lives as long as the program; everything belongs to the loop's thread, on which the
/// client's callbacks come, too, and never inside the call that asked.
struct Gateway {
  const Settings& settings;
  Loop& loop;
  LoopClient& broker;
  const Access& access;
  Metrics& metrics;

  WrongKeys wrong_keys{};
  RefusalLog refusal_log{};
  DiskLog disk_log{};
  ResponseOwners responses{};  ///< that are stored upstream
  bool leaving = false;        ///< not ready any more: it will soon be draining
  bool draining = false;       ///< new work is refused
  /// The broker has been silent for so long that nobody should wait for it who cannot.
  std::function<bool()> broker_is_away = [] { return false; };
  /// Called again and again while it is.
  std::function<void()> on_broker_away = [] {};
};

/// Why the caller may not reach what is stored under an id; nothing where it may.
std::optional<ApiError> why_not_stored(const Gateway& gateway, const Caller& caller,
                                       const StoredReference& stored);

/// Why the caller may use no stored conversation; nothing where it may.
std::optional<ApiError> why_no_conversation(const Caller& caller, std::string_view param);

/// The headers that go on to an upstream.
inline constexpr std::string_view kForwardedHeaders[] = {"anthropic-version", "anthropic-beta",
                                                         "openai-beta"};
/// Why they do not: the worker takes none that is longer.
inline constexpr std::size_t kForwardedHeaderBytesMax = 1'024;
std::optional<ApiError> why_not_forwarded(const Headers& headers);

/// Why a body is not taken that is packed: it goes to the upstream byte for byte, and is looked into here.
std::optional<ApiError> why_not_packed(const Headers& headers);

/// Who calls; where that is nobody, the request is answered and there is no caller.
std::optional<Caller> admitted(Gateway& gateway, const HttpRequest& request, Responder& responder);

/// Puts onto an answer what every reply has: the request's id in the API's own header. An id that the caller
/// gave is kept.
void add_request_id(Api api, const std::string& request_id, Headers& headers);
/// The caller's `x-request-id` where it is fit for a header, else a new one.
std::string request_id_of(const HttpRequest& request);

/// An error for this request, in its API's shape.
HttpAnswer error_for(const HttpRequest& request, const ApiError& error);
/// This gateway refuses a request by itself: that is counted, and logged where it has to do with who may do
/// what. Returns how long the answer is to be held back.
std::chrono::milliseconds note_refusal(Gateway& gateway, const HttpRequest& request, const ApiError& error);
/// An error for such a request.
HttpAnswer refusal(Gateway& gateway, const HttpRequest& request, const ApiError& error);

}  // namespace lanemq::gateway
