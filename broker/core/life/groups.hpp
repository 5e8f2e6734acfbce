// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/refusal.hpp"
#include "broker/core/base/stored_entry.hpp"
#include "broker/core/base/string_hash.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/base/timer_wheel.hpp"
#include "broker/core/jobs/job.hpp"

namespace lanemq::core {

class Journal;
struct GroupSpace;
struct State;

/// Jobs that are counted together, since their submits named the group.
///
/// A group lives from its first job until it is over: with a size, when that number of jobs has ended;
/// without one, when none of its jobs is open. A job that comes after that begins another life, with counts
/// of its own; so does one that states another size while no job is open.
struct Group {
  /// How the jobs of this life ended.
  struct Counts {
    std::uint64_t succeeded = 0, failed = 0, cancelled = 0, expired = 0;
    std::uint64_t died = 0;  ///< of those that failed or expired: dead jobs by then

    std::uint64_t ended() const { return succeeded + failed + cancelled + expired; }
  };
  std::string name;  ///< in its tenant's space
  GroupSpace* space = nullptr;
  Counts counts;
  std::uint64_t open = 0;                ///< jobs that have not ended
  std::string notify;                    ///< a URL that hears that it is over; empty: none does
  std::string client, named_client;      ///< of the job that named the URL: as Webhook has them
  bool durable = false;                  ///< one of its jobs is, or was
  std::uint64_t size = 0;                ///< jobs of this life; 0: as many as come
  bool over = false;                     ///< this life is
  bool has_note = false;                 ///< the store has a note of the group,
  bool note_is_new = false;              ///< and it is of this life
  bool note_is_due = false;              ///< is to be written with the next commit
  std::size_t rank = 0;                  ///< while no job is open: its list among those that make way
  TimePoint changed_at{};                ///< when the last job ended
  TimePoint begun_at{};                  ///< while it is under way: when this life began, or the broker did
  std::uint64_t ended_before = 0;        ///< jobs of this life that had ended by begun_at
  bool under_way = false;                ///< it has a size, and is not over
  Timer timer{TimerOwner::group, this};  ///< set while no job is open: when it is forgotten
  ListHook<Group> hook, in_space;        ///< while no job is open: among all such groups, and its space's
  ListHook<Group> among_under_way;

  /// How long the rest takes at the pace since begun_at; none: no job has ended since. Requires: under_way.
  std::optional<Duration> left(TimePoint now) const;
  std::uint64_t jobs() const { return open + counts.ended(); }
  /// Its share of the byte bounds.
  std::size_t bytes() const;
};

/// Groups without an open job, in the order in which they make way: those that are over, then those that are
/// not and have nobody to tell, then those that have. Of each kind the longest without an open job first.
template <ListHook<Group> Group::*kHook>
struct IdleGroups {
  std::array<IntrusiveList<Group, kHook>, 3> lists;

  /// Null: there are none.
  Group* front() const {
    for (const auto& list : lists)
      if (Group* const group = list.front()) return group;
    return nullptr;
  }
  bool empty() const { return front() == nullptr; }
};

/// A space of names with groups: a tenant's, or that of peers without a tenant.
struct GroupSpace {
  std::string name;  ///< as Identity::space
  std::size_t groups = 0;
  IdleGroups<&Group::in_space> idle;
};

/// The groups that jobs named, and what became of their jobs. Counts of durable jobs outlive the broker: each
/// end of one is committed with its group's counts, which are written once for all ends of a commit. Tells
/// nobody.
///
/// Bounds: Options::groups_max groups, a quarter of them in a tenant's space. At a bound a group without an
/// open job makes way (IdleGroups); where each has one, a submit that names a new group is refused. Those
/// that are over make way for Options::memory_max, too, as Results decides. A group without an open job is
/// forgotten after Options::retain. One that was not over then is given up, for its
/// owner to tell who waits for it. No client has a share of its own: clients without a key choose their
/// names.
class Groups {
 public:
  Groups(State& state, Journal& journal) : state_(state), journal_(journal) {}
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  /// The group of that name; null: none is known.
  const Group* find(std::string_view name) const;
  std::size_t size() const { return groups_.size(); }
  /// Groups that have a size and are not over; the last begun last. Some have had no open job for long: their
  /// makers have stopped.
  using UnderWay = IntrusiveList<Group, &Group::among_under_way>;
  const UnderWay& under_way() const { return under_way_; }

  /// Why a job may not join the group that its submit names; none: it may. `again`: a dead job
  /// that is run again, which the size of a group keeps from nothing.
  std::optional<Refusal> why_not(const wire::Submit& fields, bool again) const;
  /// A new group's share of the byte bounds under that name; 0 where the group is known, and stays while room
  /// is made.
  std::size_t bytes_of_new(const wire::Submit& fields) const;
  /// A job joins its group. Requires: the job has one, and why_not() had nothing against it. `again` as
  /// there.
  void join(const Job& job, std::optional<std::int64_t> size, bool again, TimePoint now);
  /// A job has ended. Requires: it has a group that it joined. Returns the group if that is over now.
  const Group* leave(const Job& job, JobState how, bool dead, TimePoint now);
  /// The size that the group of a job has; none: it has none.
  std::optional<std::int64_t> size_of(const Job& job) const;
  /// The group's timer has fired: it is forgotten. But a restored one whose last open jobs went with the
  /// broker is over, which is returned.
  const Group* come_due(Group& group, TimePoint now);

  /// The group that is over longest; null: there is none. Such groups make way as kept results do.
  const Group* oldest_over() const { return idle_.lists.front().front(); }
  /// Their share of the byte bounds.
  std::size_t over_bytes() const { return over_bytes_; }
  /// Forgets oldest_over(). Requires: there is one.
  void forget_oldest_over(TimePoint now);

  /// Groups that went before they were over, since the last call.
  std::vector<std::unique_ptr<Group>> take_given_up() { return std::exchange(given_up_, {}); }

  /// Whether write_notes() has something to write.
  bool has_notes() const { return !due_.empty(); }
  /// Adds the notes of what has changed since the last call to the outbox's writes.
  void write_notes();

  // ---- what an earlier life of the broker has left, before the first event
  /// A group's note.
  void restore(std::string_view name, std::vector<StoredEntry>& entries, TimePoint now);
  /// A job that has not ended; `size` is that of its record.
  void restore_job(const Job& job, std::optional<std::int64_t> size);
  /// All is restored.
  void restored(TimePoint now);

  // ---- notes of groups that go to another store
  /// Adds to the times of a note.
  static void shift(std::vector<StoredEntry>& entries, Duration by);
  /// The client whose URL the group notifies; empty: no client, or no URL.
  static std::string_view client_in(const std::vector<StoredEntry>& entries);

 private:
  Group* find(std::string_view name) { return const_cast<Group*>(std::as_const(*this).find(name)); }
  std::optional<Refusal> no_room(std::string_view name) const;
  std::size_t part_of_tenant() const;
  Group& make(std::string_view name);
  void make_way(std::string_view name, TimePoint now);
  static bool begins_anew(const Group& group, std::uint64_t stated);
  void note_under_way(Group& group, TimePoint now);
  void begin_anew(Group& group);
  void give_up(const Group& group, TimePoint now);
  void take_notify(Group& group, const Job& job);
  static bool is_over(const Group& group);
  void rest(Group& group);
  void forget(Group& group, TimePoint now);
  void wake(Group& group);
  void note(Group& group);
  void write(Group& group);

  State& state_;
  Journal& journal_;
  // By the names that stand in what they lead to.
  absl::flat_hash_map<std::string_view, std::unique_ptr<Group>, StringHash, StringEqual> groups_;
  absl::flat_hash_map<std::string_view, std::unique_ptr<GroupSpace>, StringHash, StringEqual> spaces_;
  IdleGroups<&Group::hook> idle_;
  std::vector<std::unique_ptr<Group>> given_up_;
  std::size_t over_bytes_ = 0;
  std::vector<Group*> due_;  ///< whose notes are due
  UnderWay under_way_;
};

}  // namespace lanemq::core
