// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <lanemq/messages.hpp>

#include "broker/core/base/time.hpp"

namespace lanemq::sim {

using core::Duration;
using core::TimePoint;

/// A gateway's side of one key: what it has let through, and what it believes that it may.
struct CallerShare {
  struct Part {
    std::int64_t used = 0;     ///< in all; of places: what its calls have now
    std::int64_t granted = 0;  ///< up to which it goes
    std::int64_t on_way = 0;   ///< of places: what an answer says that it has not heard yet
    std::int64_t said = 0;     ///< what it had used as of its last `spend`, which is granted in any case
    std::int64_t held() const { return granted - used; }
  };
  Part requests, tokens, places;
  std::uint64_t last_ref = 0;  ///< of its last `spend`
};

/// Judges what gateways let through of their callers' keys, and what the broker gives them, by
/// docs/protocol/client.md
/// (`spend`). Sees the gateways' calls themselves, the messages as the broker hears and says them, and when
/// the broker is another one. Throws Violation.
///
/// *Windows*: in any time the gateways let no more through than a minute's worth, what that time brings, and
/// what they had ahead when it began. Besides are allowed: a minute's worth for each broker that began anew
/// in it, what a limit was raised by, what calls that ran used beyond what their gateway had (a debt), and
/// what a `spend` that came behind a later one gave back, or took for tokens that were corrected since. *The
/// account*: each answer is what the level allows, in exact arithmetic of a minute's microseconds. *Places*:
/// no more calls run at once than there are places, those of gateways that died included, unless the broker
/// could not know of some: see Key::excused.
class CallerLedger {
 public:
  // ---- gateways. A share is theirs until the gateway is gone.

  CallerShare& share(const std::string& key, const std::string& session) { return shares_[key][session]; }
  /// Called before a gateway's share of a key changes in any way.
  void changing(const std::string& key, TimePoint now);
  /// A call was let through, or the tokens of one became known. `beyond`: those that its gateway had not.
  void used(const std::string& key, std::int64_t requests, std::int64_t tokens, std::int64_t beyond);
  void began(const std::string& key);
  void ended(const std::string& key) { --keys_[key].running; }
  /// The gateway is no more; its calls go on for a moment.
  void died(const std::string& session, TimePoint now);

  // ---- the broker.

  void asked(const std::string& address, const wire::Spend& spend, TimePoint now);
  void answered(const wire::Spent& spent, TimePoint now);
  void unreachable(const std::string& address, TimePoint now);
  void stood_still(Duration how_long);
  void broker_is_new(TimePoint now);

  /// Each `spend` that was heard was answered.
  void check_answered() const;
  std::size_t answers() const { return answers_; }

 private:
  /// Of amounts in tokens times a minute's microseconds.
  using Scaled = core::Int128;

  /// What any window may hold. The largest of all windows is known by one number: what a window that begins
  /// at `a` allows is what has come since, less what was used by then.
  struct Window {
    std::int64_t limit = 0;
    Scaled brought = 0, allowed = 0, used = 0;
    Scaled best = std::numeric_limits<std::int64_t>::min();  ///< of all beginnings: what that leaves
    TimePoint at{};
    void pass(std::int64_t held, TimePoint now);
    bool overdrawn() const { return used - brought - allowed + best > 0; }
  };
  /// What the broker has of one kind, as its answers say.
  struct Account {
    std::optional<std::int64_t> limit;
    Scaled level = 0;
    std::int64_t rounded = 0;  ///< tokens that changed limits may have been rounded by
    TimePoint at{};
    void change(std::int64_t to, TimePoint now);
    std::int64_t whole() const;
    void take(std::int64_t tokens);
  };
  struct Holder {
    std::int64_t requests = 0, tokens = 0, places = 0;
  };
  struct Key {
    Window requests, tokens;
    Account requests_account, tokens_account;
    std::map<std::string, Holder> holders;  ///< by session
    std::int64_t concurrency = 0, running = 0;
    /// The broker does not know of calls that run: it is new, or took their gateway for gone, or heard old
    /// words, or may give fewer places than it gave. Until it knows of all, and there is room for all.
    bool excused = false;
  };
  struct Session {
    std::string address;
    TimePoint until{};
  };
  /// A `spend` that was heard.
  struct Asked {
    std::uint64_t ref = 0;
    std::string key, session;
    wire::Spend said;  ///< its texts are not valid any more
  };

  void drop_ended(Key& key, const std::string& name, TimePoint now);
  bool lives(const std::string& session, TimePoint now) const;
  void set_limits(Key& key, const wire::Spend& said, TimePoint now);
  void book(Account& account, std::int64_t used, std::int64_t ahead, std::int64_t& granted,
            std::int64_t answer, const std::string& what) const;
  void check_left(const Account& account, std::int64_t left, std::int64_t wait_ms,
                  const std::string& what) const;
  void book_places(Key& key, const Asked& asked, Holder& holder, std::int64_t answer) const;
  void settle_places(const std::string& name, TimePoint now);
  std::int64_t held(const std::string& name, CallerShare::Part CallerShare::*part,
                    std::int64_t Holder::*booked) const;

  std::map<std::string, Key> keys_;
  std::map<std::string, std::map<std::string, CallerShare>> shares_;  // by key and session
  std::map<std::string, Session> sessions_;                           // those that the broker has heard
  std::deque<Asked> asked_;                                           // not answered yet
  std::size_t answers_ = 0;
};

}  // namespace lanemq::sim
