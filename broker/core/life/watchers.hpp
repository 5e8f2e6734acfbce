// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/limits.hpp>

#include "broker/core/base/event.hpp"
#include "broker/core/base/refusal.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/base/timer_wheel.hpp"
#include "broker/core/jobs/job.hpp"

namespace lanemq::core {

class Answers;
class Groups;
struct Connection;
struct Group;
struct State;

/// A watch of jobs' changes, named by its connection and its ref.
struct Watcher {
  Timer timer{TimerOwner::watcher, this};  ///< when its silence is judged
  Peer peer = Peer::client;
  Connection* connection = nullptr;  ///< of a client: holds a reference; null: an operator's
  std::string address, envelope, ref;
  std::string id, client, service, group;  ///< what it follows; empty: any
  std::optional<LaneIndex> lane;
  std::string space;      ///< it sees the ids of this space alone; empty: those of no tenant
  bool sees_all = false;  ///< an operator's
  std::int64_t next = 0;  ///< the number of the next event that is sent
  std::int64_t taken = -1;
  std::int64_t left_out = 0;  ///< events, since the last one that was sent
  TimePoint heard_at{};

  bool over_left_out = false;  ///< so was, of late, that the group is over which it follows by name

  /// Whether another event may be sent.
  bool has_room() const { return next - 1 - taken < static_cast<std::int64_t>(limits::watch_events_max); }
};

/// A change of a job, beyond what the job itself records.
struct Change {
  std::string_view what;
  JobState state;  ///< the job's from now on
  std::string_view code{}, worker{}, from_lane{};
  std::optional<std::uint32_t> queued_ms{}, ran_ms{};
  bool dead = false;
  std::optional<std::int64_t> pct{};  ///< progress
  std::string_view note{};            ///< progress
};

/// The watchers that follow jobs, and their events, numbered for each watch as they are sent. Keeps no event:
/// one that its watcher has no room for (limits::watch_events_max under way) is left out, and the next one
/// tells so. A watcher that is silent for kSilenceMax is dropped. Where nobody watches, a change costs one
/// comparison.
class Watchers {
 public:
  /// A follower that neither confirms nor renews for so long is let go.
  static constexpr Duration kSilenceMax = std::chrono::seconds(30);
  /// Operators' watches, beside Options::watchers_max of clients.
  static constexpr std::size_t kOperatorsMax = 128;

  Watchers(State& state, Answers& answers, const Groups& groups)
      : state_(state), answers_(answers), groups_(groups) {}
  Watchers(const Watchers&) = delete;
  Watchers& operator=(const Watchers&) = delete;

  // ---- who follows
  void on(const WatchAsked& event, TimePoint now);
  /// False: that `seen` is not about a watch.
  bool on(const SeenSaid& event, TimePoint now);
  void on(const ClientUnreachable& event);
  void on(const KeyRevoked& event);
  void on(const StoodStill& event);
  /// The watcher's timer has fired.
  void look(Watcher& watcher, TimePoint now);
  std::size_t size() const { return all_.size(); }

  // ---- what they are told. Requires: the job still has its place in a client's queue.
  void tell(const Job& job, const Change& change, TimePoint now) {
    if (!all_.empty()) [[unlikely]]
      tell_all(job, change, now);
  }
  /// A group is over, or was given up before it was.
  void tell(const Group& group);

 private:
  using Place = std::vector<std::unique_ptr<Watcher>>::iterator;

  Place find(const Origin& from, std::string_view ref);
  std::optional<Refusal> why_not(const WatchAsked& event) const;
  std::optional<Refusal> no_room(const Origin& from) const;
  void say_watching(const Watcher& watcher, bool stop);
  Origin origin_of(const Watcher& watcher) const;
  void remove(Place place);
  template <class Which>
  void remove_all(Which which);
  void tell_all(const Job& job, const Change& change, TimePoint now);
  void tell(Watcher& watcher, const Group& group);
  void tell_if_over(Watcher& watcher);
  void send(Watcher& watcher, wire::JobEvent& event);

  State& state_;
  Answers& answers_;
  const Groups& groups_;
  std::vector<std::unique_ptr<Watcher>> all_;  // in the order in which they came
};

}  // namespace lanemq::core
