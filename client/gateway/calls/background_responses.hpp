// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <lanemq/client.hpp>

#include "client/gateway/door/gateway.hpp"
#include "client/gateway/limits/caller_limits.hpp"
#include "client/gateway/limits/fair_bound.hpp"

namespace lanemq::gateway {

/// In front of the id, in the path of a request for a response.
inline constexpr std::string_view kStoredResponses = "/v1/responses/";
/// The id of the response that a request is for; empty: it is for none.
std::string response_of(std::string_view path);

/// Who asked for a response, and by which jobs.
struct ResponseAsker {
  Caller caller{};
  std::string service{}, lane{}, model{};
};

/// What an answer of /v1/responses, or of a path below it, says of its response.
struct ResponseState {
  std::string id{};
  bool goes_on = false;                  ///< the upstream still works on it
  std::optional<std::int64_t> tokens{};  ///< input and output; none: it does not say
};
ResponseState state_of_response(std::string_view answer);

/// Responses in the background (`background: true`) of keys with limits: they are answered at once, and their
/// tokens are known when they are over. Until then each takes a place of its key's concurrency, and its
/// estimated tokens; these are set right by the first answer that says how it ended: to its caller, who asks
/// for it, or else to this, which asks now and then. Belongs to the loop's thread. Does not know those of an
/// earlier life of the gateway.
class BackgroundResponses {
 public:
  /// Responses of all keys together; one key has four fifths of it at most (may_take_one_of).
  static constexpr std::size_t kKnownMax = 10'000, kTimesFree = 4;
  /// After the last word of it; doubled with each of its own looks.
  static constexpr std::chrono::milliseconds kLookAfter{30'000}, kLookAfterMost{600'000};
  /// Then the estimate counts.
  static constexpr std::chrono::hours kFollowedFor{24};

  using Told = std::function<void(const Answer& answer)>;
  /// What is asked of the upstream.
  enum class Asks : unsigned char { state, cancel };
  /// Asks the upstream that has a response.
  using Ask = std::function<void(Asks what, const ResponseAsker& asker, const std::string& id, Told told)>;

  BackgroundResponses(Loop& loop, CallerLimits& limits, Ask ask)
      : loop_(loop), limits_(limits), ask_(std::move(ask)) {}

  /// Whether a response of that caller could not be followed.
  bool full(const Caller& caller) const { return !places_.may_take(caller.name); }
  /// The upstream works on it. `taken`: of the key's tokens.
  void begin(ResponseAsker asker, std::string_view id, std::int64_t taken);
  /// Whether it is followed, and the caller's.
  bool knows(std::string_view id, std::string_view caller) const;
  /// A caller has the answer to a request for it.
  void heard(std::string_view id, const Blob& answer);
  /// A caller has read a stream of it to the end. `tokens`: none: nobody tells them.
  void ended(std::string_view id, std::optional<std::int64_t> tokens) { take_in(id, false, tokens); }
  /// Has the upstream cancel those of a caller; returns how many.
  std::size_t stop_all_of(std::string_view caller);

 private:
  struct One;

  void look_later(One& one);
  void look(One& one);
  void ask(Asks what, One& one);
  void told(const std::string& id, const Blob& answer);
  void take_in(std::string_view id, bool goes_on, std::optional<std::int64_t> tokens);

  Loop& loop_;
  CallerLimits& limits_;
  const Ask ask_;
  std::map<std::string, std::shared_ptr<One>, std::less<>> ones_;  // by the response's id
  PlacesByOwner places_{kKnownMax, kTimesFree};                    // of ones_
};

/// By a job of the asker's service.
BackgroundResponses::Ask ask_by_job(Gateway& gateway);

}  // namespace lanemq::gateway
