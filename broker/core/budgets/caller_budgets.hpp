// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/string_hash.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/token_bucket.hpp"

namespace lanemq::core {

/// Limits on the keys of gateways, shared by all gateways that know a key.
///
/// A gateway asks for a part ahead, and each time reports its total use. So a request that is repeated, or
/// whose answer was lost, is idempotent. Requests and tokens have a bucket each, with a minute's worth.
/// Places are held by a gateway's session, and are returned when the session ends.
///
/// Idle keys are evicted when there is no room; a key in use never is. Each tenant has a bounded part of the
/// room, so that one tenant's gateways cannot crowd out others'. All is in memory alone: after a restart a
/// key begins with a minute's worth, and the sessions go on from where they are.
class CallerBudgets {
 public:
  static constexpr std::size_t kKeysMax = 10'000;
  static constexpr std::size_t kSessionsMax = 1'024;
  /// Bound on pairs of a session and a key that it holds part of.
  static constexpr std::size_t kHoldersMax = 65'536;
  /// A tenant may use at most 1/kTenantPart of each of these bounds.
  static constexpr std::size_t kTenantPart = 4;
  /// A session is over after this silence.
  static constexpr Duration kSilenceMax = std::chrono::seconds(15);
  /// A session whose connection is gone is over after this. The jobs of a gateway that died are cancelled
  /// after 5 s (Answers::kOrphanPause), and their calls end a moment later.
  static constexpr Duration kLostPause = std::chrono::seconds(6);

  struct Limits {
    std::int64_t requests_per_minute = 0, tokens_per_minute = 0, concurrency = 0;  ///< 0: none
  };
  /// For one kind: the session's use since it began (for places: its use now), and what it asks for besides.
  struct Use {
    std::int64_t used = 0, ahead = 0;
  };
  struct Asked {
    std::string_view key, session, address;
    Limits limits;
    Use requests, tokens, places;
  };
  /// The totals that the session may use; what is left for all; and if nothing is, when there will be.
  struct Granted {
    std::int64_t requests = 0, tokens = 0, places = 0;
    std::int64_t requests_left = 0, tokens_left = 0;
    Duration requests_wait{}, tokens_wait{};
  };

  CallerBudgets() = default;
  CallerBudgets(const CallerBudgets&) = delete;
  CallerBudgets& operator=(const CallerBudgets&) = delete;

  /// Books what a session has used, and gives it what it wants as far as there is. What it has used counts in
  /// any case, and makes a debt where there is not enough. None: there is no room for another key or session,
  /// or none of its tenant's. Requires: key and session are in the space of one tenant, or of none; no amount
  /// is negative, or over limits::share_max.
  std::optional<Granted> spend(const Asked& asked, TimePoint now);
  /// The connection at that address is gone.
  void lost(std::string_view address, TimePoint now);
  /// The silence of that time does not count.
  void stood_still(Duration how_long);

  std::size_t keys() const { return keys_.size(); }
  std::size_t sessions() const { return sessions_.size(); }

 private:
  /// A gateway, from its start to its end.
  struct Session {
    std::string address;  ///< from which it spoke last
    TimePoint until;      ///< it is over then, if it does not speak
  };
  using SessionPtr = std::shared_ptr<Session>;
  struct Holder {
    SessionPtr session;
    std::int64_t requests = 0, tokens = 0, places = 0;  ///< granted, as in Granted
  };
  struct Budget {
    std::string name;
    std::optional<TokenBucket> requests, tokens;  ///< none: no limit
    std::vector<Holder> holders;
    ListHook<Budget> hook, hook_of_space;
  };
  /// The use of one tenant, or of all callers without a tenant.
  struct Space {
    std::size_t sessions = 0, holders = 0;
    IntrusiveList<Budget, &Budget::hook_of_space> keys;  ///< the longest unused first
  };
  /// Whether a tenant that uses so much may use more.
  static bool has_part(std::string_view tenant, std::size_t used, std::size_t of) {
    return tenant.empty() || used < of / kTenantPart;
  }

  Space& space_of(std::string_view tenant);
  void forget_if_unused(std::string_view tenant);
  void drop_ended_sessions(TimePoint now);
  template <class List>
  static Budget* first_idle(const List& keys, TimePoint now);
  void forget(Budget& budget, TimePoint now);
  SessionPtr session_of(std::string_view name, TimePoint now);
  Budget* budget_of(std::string_view name, TimePoint now);
  Holder* holder_of(Budget& budget, const Asked& asked, const SessionPtr& session, TimePoint now);
  void drop_ended(Budget& budget, TimePoint now);
  static bool is_idle(const Budget& budget, TimePoint now);

  absl::flat_hash_map<std::string, std::unique_ptr<Budget>, StringHash, StringEqual> keys_;
  IntrusiveList<Budget, &Budget::hook> by_use_;       ///< the longest unused first
  std::map<std::string, Space, std::less<>> spaces_;  ///< by tenant
  std::map<std::string, SessionPtr, std::less<>> sessions_;
  std::size_t holders_ = 0;  ///< of all keys
  TimePoint swept_at_{};     ///< those of ended sessions were dropped from all keys
};

}  // namespace lanemq::core
