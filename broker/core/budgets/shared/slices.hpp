// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/base/options.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/shared/rooms_seen.hpp"
#include "broker/core/budgets/shared/slice.hpp"
#include "broker/core/budgets/shared/words_heard.hpp"

namespace lanemq::core {

/// One shard's part of a budget that several share: the slices that the bank granted it. Stands in for the
/// budget's windows in Budgets:
///
/// * `Budgets::obstacle()` asks affordable() instead of `Quota::blocks()`, and names the refusal of the lane;
/// * `Budgets::reserve()` calls take() instead of `Quota::take()`: the key is the slice's, and the
///   Reservation keeps the UseId;
/// * the hand-over leaves the broker only when its turn is committed. Just before, send() is asked: false,
///   and the hand-over is void, the job goes back to its place;
/// * `Budgets::settle()` and release() call settle(), whatever the budget learns goes to hear();
/// * after each turn the scheduler calls want() for each lane whose head only this budget keeps back, and
///   that has a place at a worker: a slice that nobody can use is taken from others;
/// * the broker's driver asks draw_due(), runs begin_draw() through the bank in a transaction, and calls
///   drawn() or lost(). A draw whose commit is not sure is lost(). The top lane draws when a job needs it, up
///   to fifty times a second; other lanes, and what is only to be told, twice a second.
///
/// All times are the shard's own, by a clock that runs through suspend (CLOCK_BOOTTIME): a slice ends while
/// the machine sleeps. A new owner of a shard begins with a new Slices and a higher epoch. Uses: one a
/// running job. Not thread-safe.
class Slices {
 public:
  using UseId = std::uint64_t;

  /// `only_owner`: no other broker can own the shard meanwhile, whatever the epochs are. Where the bank knows
  /// a later epoch, since a clock was set back, the owner begins a still later one.
  Slices(std::string shard, std::uint64_t epoch, const BudgetOptions& budget, bool only_owner = false);
  /// Applies other limits and keys; these keep their places, new ones follow. Requires: a key keeps its
  /// account.
  void configure(const BudgetOptions& budget);

  /// Sets a lane's want from now on; no jobs: none.
  void want(const LaneWant& want);
  /// Whether a job of the lane can be had now. A slice of a lane serves it and those above.
  bool affordable(std::size_t lane, const Amounts& amounts, TimePoint now,
                  const KeysRefused& refused = {}) const;
  struct Taken {
    UseId use = 0;
    std::uint16_t key = Claim::kNoKey;
    bool tries_key = false;  ///< its key has rested: this job finds out whether the upstream takes it again
  };
  /// Takes it, and a place. None: it is not affordable().
  std::optional<Taken> take(std::size_t lane, const Amounts& amounts, TimePoint now,
                            const KeysRefused& refused = {});
  /// The job leaves now. False: the time of its slice is over, or its key was refused, and it must not;
  /// nothing was used.
  bool send(UseId use, TimePoint now);
  /// Ends a use; `used`: what it took, null where that is not known.
  void settle(UseId use, const Amounts* used);
  /// Counts a job that the shard's earlier owner handed over; leave() ends it.
  void adopt(std::uint16_t key) { change_running(key, 1); }
  void leave(std::uint16_t key) { change_running(key, -1); }
  /// Notes the upstream's answer to a call. Ages and rooms are filled in here. A refused key may be spent:
  /// its slices are used no more, and the bank decides whether it is granted again.
  void hear(UpstreamWord word, TimePoint called_at, TimePoint now);

  /// From when a draw is to be made; kNever: one is under way, or nothing is wanted.
  TimePoint draw_due(TimePoint now) const;
  /// Requires: no draw is under way.
  Draw begin_draw(TimePoint now);
  bool drawing() const { return flight_.drawing; }
  /// The number of the last draw.
  std::uint64_t draw_number() const { return flight_.number; }
  /// The bank's answer; one to an earlier draw than the one under way is ignored.
  void drawn(const Drawn& drawn, TimePoint now);
  /// Nobody knows whether the draw under way was done: its slices are not used.
  void lost(TimePoint now);
  /// Whether the shard has a later owner: then nothing is drawn any more.
  bool superseded() const { return owner_.superseded; }
  /// Whether another broker draws for the shard, or did just now: neither may then use what is the shard's
  /// alone.
  bool is_contested(TimePoint now) const { return owner_.superseded || now < owner_.contested_until; }
  /// The bank's last answer for a lane; null: none.
  const LaneAnswer* answer(std::size_t lane) const;
  /// The budget's limits in the bank's last answer; empty: it has sent none.
  const std::vector<LimitLevel>& limits() const { return limits_; }
  /// Granted amounts that are neither used nor over.
  Counts left(TimePoint now) const;
  /// Places of the budget's concurrency, for people.
  struct PlacesShown {
    std::int64_t limit = 0, here = 0, running = 0;
  };
  PlacesShown places() const;
  std::size_t held() const { return held_.size(); }

 private:
  /// Uses of slices are told in steps of this.
  static constexpr Duration kUseStep = std::chrono::milliseconds(10);
  /// Between two draws for the top lane: the least, and the most where the bank has nothing for it.
  static constexpr Duration kTopPauseMin = std::chrono::milliseconds(20), kTopPauseMax = kSliceTime / 2;
  /// So long a shard counts as contested, once another broker has drawn for it.
  static constexpr Duration kContestedFor = std::chrono::seconds(10);
  /// So long by the shard's clock, which may be slow.
  static constexpr Duration kUsable = kSliceTime - kSliceTime / kClockParts;

  struct Held {
    Slice slice;
    Counts left;
    TimePoint asked_at{}, granted_at{};  ///< by the shard's time, by the bank's
    std::int64_t unsent = 0;             ///< uses that wait for their commit
    std::map<UseId, SliceUse> uses;      ///< that were sent
    bool key_refused = false;            ///< since it was asked for

    bool usable(TimePoint now) const { return !key_refused && now - asked_at < kUsable; }
    /// Whether one more job of the lane may use it: one tries a key, though it may take nothing that counts.
    bool serves(std::size_t lane, TimePoint now) const {
      const bool tried = slice.tries_key && (unsent > 0 || !uses.empty());
      return slice.lane >= lane && usable(now) && !tried;
    }
  };
  /// The part of a use that came of one slice.
  struct Part {
    std::uint64_t slice = 0;  ///< 0: it is reported, and counts at `at`
    Counts used;
    Duration age{};
    TimePoint at{};  ///< by the bank's time
  };
  struct Use {
    std::uint16_t key = Claim::kNoKey;
    bool sent = false, settled = false;
    bool keeps = false;  ///< the bank may count it as its whole slice: it is not corrected
    std::vector<Part> parts;
    Counts expected;
  };
  struct Want {
    LaneWant want;
    LaneAnswer answer;
    TimePoint retry_at{};
    Duration pause{};   ///< least time to the next draw: longer each time the bank could not grant all
    bool told = false;  ///< the bank knows that one
  };
  struct Flight {
    bool drawing = false, any = false;
    std::uint64_t number = 0;
    TimePoint asked_at{};  ///< of the last draw
  };
  struct Frozen {
    TimePoint granted_at{}, asked_at{};
  };
  struct Said {
    Report report;  ///< said until the bank has it
    std::map<std::uint64_t, Frozen> slices;
    std::map<std::pair<std::uint16_t, TimePoint>, Counts> corrections;  ///< for the next one
    WordsHeard words;
    std::vector<std::uint64_t> disclaimed;
  };
  struct Places {
    std::int64_t limit = 0, running = 0, went = 0, places = 0, allowed = 0;
    bool free() const { return limit == 0 || running < std::min(places, allowed); }
  };
  struct Configured {
    bool counts[Counts::kResources] = {};
    std::vector<std::uint16_t> accounts;  ///< of keys
    Duration known_for{};  ///< so long a draw tells which ones were taken: what they granted may count
  };
  struct Owner {
    std::string shard;
    std::uint64_t epoch = 0;
    bool only = false, superseded = false;
    TimePoint contested_until{};
  };
  /// The bank's time at one of the shard's: what passed since is added to it.
  struct Reference {
    TimePoint bank{}, here{};
    std::uint64_t clock_changes = 0, draws = 0;
  };

  bool fits(std::uint16_t key, std::size_t lane, const Counts& wanted, TimePoint now) const;
  const Held* first_that_fits(std::size_t lane, const Counts& wanted, const KeysRefused& refused,
                              TimePoint now) const;
  bool unmet(const Want& want, TimePoint now) const {
    return want.want.jobs > 0 && !affordable(want.want.lane, want.want.head, now, want.want.refused);
  }
  std::uint16_t account_of(std::uint16_t key) const;
  void change_running(std::uint16_t key, std::int64_t by);
  bool is_over(const Held& held, TimePoint now) const;
  TimePoint saw(TimePoint now) const;
  void correct(const Use& use, Counts more);
  void drop_unsent(UseId id, Use& use);
  void add_correction(std::uint16_t key, TimePoint at, const Counts& more);
  void freeze_report(TimePoint now);
  void report_taken(TimePoint reported_at, TimePoint now);
  void add_places(Draw& draw);
  static void back_off(Want& want, TimePoint now, Duration retry_after);

  Owner owner_;
  Configured configured_;
  std::map<std::uint16_t, Places> places_;
  std::map<std::size_t, Want> wants_;
  std::map<std::uint64_t, Held> held_;
  std::vector<LimitLevel> limits_;
  std::map<UseId, Use> uses_;
  UseId next_use_ = 1;
  Flight flight_;
  Said said_;
  std::optional<Reference> reference_;
  RoomsSeen rooms_;
};

}  // namespace lanemq::core
