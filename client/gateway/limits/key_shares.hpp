// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "client/gateway/door/gateway.hpp"
#include "client/gateway/limits/caller_limits.hpp"

namespace lanemq::gateway {

/// Asks the broker for this gateway's part of its keys' budgets, and has calls wait for the answer where the
/// gateway holds nothing. Belongs to the loop's thread; outlives the client's callbacks.
class KeyShares {
 public:
  using Then = std::function<void(std::optional<ApiError>)>;

  /// Calls that wait at once, of all keys; more are refused as if the broker were away.
  static constexpr std::size_t kWaitingMax = 10'000;
  /// A call waits so long for the broker's word.
  static constexpr std::chrono::milliseconds kPatience{1'000};
  /// How often is looked for what is due by time: what nobody uses goes back.
  static constexpr std::chrono::milliseconds kLookEvery{100};

  /// `limits` outlive this, and shares from now on.
  KeyShares(Gateway& gateway, CallerLimits& limits);
  KeyShares(const KeyShares&) = delete;
  KeyShares& operator=(const KeyShares&) = delete;

  /// Counts a call in once the broker has given what it needs, and calls `then` without an error; or with why
  /// not. After CallerLimits::try_take() has said that the broker has to be asked; never inside this call.
  void wait(const Caller& caller, std::int64_t spare, Then then);

 private:
  struct Waiting {
    Caller caller;
    std::int64_t spare;
    Then then;
    Loop::TimePoint until;
  };

  void look();
  void ask(bool all);
  void answered(const std::string& key, const Reply<BrokerSpent>& reply);
  void serve(const std::string& key);
  void end(const Waiting& one, std::optional<ApiError> error);

  Gateway& gateway_;
  CallerLimits& limits_;
  const std::string session_;
  /// Posted work may run after this is destroyed, and checks that here.
  const std::shared_ptr<KeyShares*> alive_ = std::make_shared<KeyShares*>(this);
  const std::shared_ptr<std::atomic<bool>> posted_ = std::make_shared<std::atomic<bool>>(false);
  const std::unique_ptr<Loop::Timer> timer_;
  std::map<std::string, std::deque<Waiting>> waiting_;  ///< by key
  std::size_t waiting_count_ = 0;
  std::map<std::string, std::uint64_t> asked_;  ///< the last ask of each key
  std::uint64_t asks_ = 0;
  std::string told_;  ///< why the broker shares nothing out, as logged last
};

}  // namespace lanemq::gateway
