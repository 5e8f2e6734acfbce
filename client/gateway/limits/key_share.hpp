// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <lanemq/client.hpp>

#include "common/http/server/base/loop.hpp"

namespace lanemq::gateway {

/// What this gateway holds of one key's budget, which the broker shares out among gateways, and what it
/// should ask the broker for. Has no clock and no connection. Not thread-safe.
///
/// Of a limit it takes a slice ahead, a sixteenth, so that most calls wait for no answer of the broker; of a
/// limit under 16 it takes nothing ahead, so that little is not kept from others; nor of one of which the
/// broker had less than was asked for. What it has not used for kIdle goes back.
class KeyShare {
 public:
  using TimePoint = http::Loop::TimePoint;
  using milliseconds = std::chrono::milliseconds;

  static constexpr std::int64_t kSlices = 16;
  static constexpr milliseconds kIdle{1'000};
  /// How often the broker hears of a session that holds something; it ends one that is silent for 15 s.
  static constexpr milliseconds kRenewEvery{4'000};
  /// How soon a place is asked for again that others have.
  static constexpr milliseconds kPlacePause{20};
  /// After this a call that comes has the broker asked again, though it has named a later time: another
  /// gateway may have given back.
  static constexpr milliseconds kRefusedFor{1'000};
  /// An ask that was not answered is made again after this.
  static constexpr milliseconds kAskAgain{1'000};

  struct Limits {
    std::int64_t requests_per_minute = 0, tokens_per_minute = 0, concurrency = 0;  ///< 0: none
    bool any() const { return requests_per_minute > 0 || tokens_per_minute > 0 || concurrency > 0; }
  };
  /// A limit over limits::share_max counts as that.
  void set_limits(const Limits& limits);
  const Limits& limits() const { return limits_; }

  enum class Lack : unsigned char { nothing, places, requests, tokens };
  /// What is missing for one more call. `spare`: places of this gateway that the call may use.
  Lack lack(std::int64_t spare) const;
  /// The broker has said just now that there is none of it before that time; none: it has to be asked.
  std::optional<TimePoint> refused_until(Lack lack, TimePoint now) const;

  void take(TimePoint now);
  void take_place() { ++running_; }
  void leave_place() { --running_; }
  std::int64_t running() const { return running_; }
  /// Tokens that a call has used; less than none: too many were counted.
  void spend_tokens(std::int64_t tokens, TimePoint now);
  bool has_tokens() const { return limits_.tokens_per_minute == 0 || tokens_.used < tokens_.granted; }
  /// Given and not used.
  std::int64_t requests_held() const { return requests_.held(); }
  std::int64_t tokens_held() const { return tokens_.held(); }
  /// Somebody waits for tokens who is no caller: a batch.
  void want_tokens(TimePoint now);

  /// What the broker is to be asked now, but for the names; none: nothing. `waiting`: calls that wait for its
  /// answer. An ask without told() counts as lost after kAskAgain.
  std::optional<SpendRequest> ask(std::size_t waiting, TimePoint now);
  /// The answer to the last ask. One to an earlier ask is to be dropped: the broker may have given to others
  /// what it grants.
  void told(const BrokerSpent& spent, TimePoint now);

 private:
  struct Part {
    std::int64_t used = 0;     ///< in all; not of places: see running_
    std::int64_t granted = 0;  ///< likewise
    std::int64_t wanted = 0;   ///< likewise, in the last ask
    TimePoint refused_until{};
    TimePoint scarce_until{};  ///< nothing is taken ahead
    std::int64_t held() const { return granted - used; }
  };
  bool stands(const Part& part, TimePoint now) const {
    return part.refused_until > now && told_at_ && now - *told_at_ < kRefusedFor;
  }
  bool is_due(std::int64_t waiting, TimePoint now) const;
  bool is_active(TimePoint now) const { return used_at_ && now - *used_at_ < kIdle; }
  std::int64_t slice(const Part& part, std::int64_t limit, TimePoint now) const;

  Limits limits_;
  Part requests_, tokens_, places_;
  std::int64_t running_ = 0;
  std::int64_t overcounted_ = 0;  ///< tokens that the last ask has said and that were not used
  bool wants_tokens_ = false;
  std::optional<TimePoint> used_at_, asked_at_, told_at_;
};

}  // namespace lanemq::gateway
