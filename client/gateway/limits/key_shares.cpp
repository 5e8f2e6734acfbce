// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/limits/key_shares.hpp"

#include <utility>

#include <lanemq/text.hpp>

#include "common/ids/ulid.hpp"
#include "common/log/log.hpp"

namespace lanemq::gateway {

KeyShares::KeyShares(Gateway& gateway, CallerLimits& limits)
    : gateway_(gateway), limits_(limits), session_("gateway-" + new_ulid()), timer_(gateway.loop.timer()) {
  limits_.share([this, &loop = gateway.loop, posted = posted_, weak = std::weak_ptr<KeyShares*>(alive_)] {
    if (posted->exchange(true)) return;
    loop.post([posted, weak] {
      posted->store(false);
      if (const std::shared_ptr<KeyShares*> self = weak.lock()) (*self)->ask(false);
    });
  });
  look();
}

void KeyShares::wait(const Caller& caller, std::int64_t spare, Then then) {
  Waiting one{
      .caller = caller, .spare = spare, .then = std::move(then), .until = gateway_.loop.now() + kPatience};
  limits_.begin_waiting(caller);
  ++waiting_count_;
  if (waiting_count_ > kWaitingMax) one.until = {};  // its time is over: the next look refuses it
  waiting_[caller.key->name].push_back(std::move(one));
}

/// Looks for what is due by time.
void KeyShares::look() {
  const Loop::TimePoint now = gateway_.loop.now();
  std::deque<Waiting> late;
  for (auto& [key, line] : waiting_)
    for (auto at = line.begin(); at != line.end();) {
      if (at->until > now) {
        ++at;
        continue;
      }
      late.push_back(std::move(*at));
      at = line.erase(at);
    }
  std::erase_if(waiting_, [](const auto& line) { return line.second.empty(); });
  for (const Waiting& one : late)
    end(one, unavailable(gateway_.broker.shard_of_spend()));
  ask(true);
  timer_->after(kLookEvery, [this] { look(); });
}

void KeyShares::ask(bool all) {
  for (SpendRequest& request : limits_.asks(gateway_.loop.now(), all)) {
    request.session = session_;
    const std::uint64_t number = asked_[request.key] = ++asks_;
    gateway_.broker.spend(request, [this, key = request.key, number](const Reply<BrokerSpent>& reply) {
      // An answer to an earlier ask, which counted as lost, says nothing any more.
      if (asked_[key] == number) answered(key, reply);
    });
  }
}

void KeyShares::answered(const std::string& key, const Reply<BrokerSpent>& reply) {
  const Loop::TimePoint now = gateway_.loop.now();
  if (reply) {
    limits_.told(key, *reply, now);
    told_.clear();
  } else if (reply.error().local) {
    return;  // the broker is away: the ask counts as lost after a while, and so do the calls that wait
  } else {
    limits_.alone(key, now);
    if (std::exchange(told_, reply.error().message) != reply.error().message)
      log::event(log::Level::warning, "keys.not_shared",
                 {{"key", key},
                  {"message", printable(reply.error().message)},
                  {"do",
                   "until the broker shares them out each gateway has the limits of its keys for "
                   "itself; give this gateway a key with the role gateway, or upgrade the broker"}});
  }
  serve(key);
  ask(false);
}

/// Lets in the calls that wait for a key, as far as there is now, and refuses those that the broker has
/// nothing for.
void KeyShares::serve(const std::string& key) {
  const auto line = waiting_.find(key);
  if (line == waiting_.end()) return;
  std::deque<Waiting> waiting = std::exchange(line->second, {});
  waiting_.erase(line);
  std::deque<Waiting> left;
  for (Waiting& one : waiting) {
    const tl::expected<bool, ApiError> taken = limits_.try_take(one.caller, gateway_.loop.now(), one.spare);
    if (taken && !*taken)
      left.push_back(std::move(one));
    else
      end(one, taken ? std::nullopt : std::optional(taken.error()));
  }
  if (left.empty()) return;
  std::deque<Waiting>& rest = waiting_[key];  // what ends may have had others wait
  rest.insert(rest.begin(), std::make_move_iterator(left.begin()), std::make_move_iterator(left.end()));
}

void KeyShares::end(const Waiting& one, std::optional<ApiError> error) {
  --waiting_count_;
  limits_.end_waiting(one.caller);
  one.then(std::move(error));
}

}  // namespace lanemq::gateway
