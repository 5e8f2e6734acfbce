// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/result.hpp>

#include "broker/core/base/options.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/shared/bank_time.hpp"
#include "broker/core/budgets/shared/places_left.hpp"
#include "broker/core/budgets/shared/slice.hpp"

namespace lanemq::core {

/// The bank of one budget that several shards share: it decides which shard may use how much, and never lends
/// a part twice. Its state is one row of a database. A shard locks the row, restores the bank from it, draws,
/// and writes back what save() returns; so draws follow one another, from any shard.
///
/// What a limit counts is counted by the core's own Budgets, over one budget. The bank adds the ledger of the
/// slices whose use it does not know yet, the wants of lanes and shards, and the time.
///
/// The limit holds. T: kSliceTime, P: the period, s: the window's slack. Slice g of amount a is granted at
/// the bank's time t. It is used only until T after it was asked for, by a clock of which a thousandth is
/// left off, hence before t + T. The window counts a at t, and from t + T on at t + T, so until t + T + P +
/// s. A report, after which g is used no more, replaces a by each use at its time y, counted until y + P + s.
/// When something is granted, the counted amounts are at most the limit.
///
/// Claim: what is used in any window (x, x + P] is at most the limit. Let h be the last granted of the slices
/// used in it. Some use of h is at z <= x + P, so h was granted at th <= x + P. Take any use in the window,
/// at y > x, under g. Not reported at th: a counts still, until after t + T + P >= y + P > th. Reported: y
/// counts still, since y + P > x + P >= th. So at th the limit covered all uses of the window.
///
/// Between any two draws the bank's time advances by no more than has passed (BankTime), and since a grant by
/// no less for any use. s is for calls that swap on their way. A use above a job's estimate is outside of the
/// claim, as with a budget of one broker: it is reported as a correction, and owed.
///
/// A shard reports how many draws the bank had taken when it last answered. Where the row has fewer, as at a
/// former primary, in a backup or a new table, the grants since are unknown: nothing is granted until all of
/// them have left their windows, unless an operator allows it (resume).
///
/// Places have no window: a call keeps its place until it ends. So a bank that has lost draws, or has a row
/// that nobody has drawn from yet, gives no places before each shard that the drawing one names has told it
/// which it uses, or kPlacesUnknown has passed.
///
/// Shards may know different keys while their configuration is changed. The row names its keys, with their
/// limits: those that the drawing shard does not know are counted, and given to nobody.
///
/// For `window = "bucket"` the burst is less by what refills in T: uses come up to T after their grant.
///
/// What others use of an account shows in what its upstream says that remains. That is compared with the room
/// that the bank had soon after the call, and has now, of which the less is no more than there was upstream:
/// nobody is accused falsely, small uses are seen late.
///
/// Not here: what lanes are owed by `share_min`, and lanes in the sharing of places.
class Bank {
 public:
  /// Shards that draw; slices whose use is not known, of all of them; keys; limits with those of keys; bytes
  /// of the row, whatever these hold.
  static constexpr std::size_t kShardsMax = 64, kSlicesMax = 4096, kKeysMax = 32, kLimitsMax = 128,
                               kRowBytesMax = 4 << 20;
  static constexpr std::size_t kShardNameMax = 128;
  /// Keys in the row, with those that the drawing shard does not know: those that were not drawn for longest
  /// go.
  static constexpr std::size_t kRowKeysMax = 2 * kKeysMax;
  /// A slice's report counts until this long after its grant. Later its amount counts as used at its end.
  static constexpr Duration kReportTaken = std::chrono::seconds(60);
  /// A shard that was silent for this long, and that the drawing shard does not name, is forgotten with its
  /// places. A named shard keeps its places, until an operator orders otherwise (resume): it may be cut off
  /// while calls run in them. Where there is no room for one more shard, one that holds nothing is evicted.
  static constexpr Duration kShardKept = std::chrono::minutes(10);
  /// A waiting shard keeps its turn for this long after its last draw.
  static constexpr Duration kTurnKept = std::chrono::milliseconds(1100);
  /// A key that has rested is given to no second job for this long: the first one finds out.
  static constexpr Duration kTrialTime = std::chrono::seconds(10);

  /// `offline_share`: thousandths of each limit that the bank grants to nobody. Requires: cannot_share() is
  /// empty.
  explicit Bank(const BudgetOptions& options, int offline_share = 0);
  /// For people: why no bank can hold such a budget to its limits; empty: one can.
  static std::string cannot_share(const BudgetOptions& options);

  /// Continues from what save() returned, with limits that may be others. An error says what is wrong with
  /// the bytes: then nothing may be granted. Requires: nothing was drawn yet.
  Result<void> restore(std::string_view row);
  /// All of the state, with a checksum: at most kRowBytesMax bytes.
  std::string save() const;

  /// Takes the report, grants what there is.
  Drawn draw(const Draw& draw, const BankClock& clock);

  /// The bank's time, as of the last draw.
  TimePoint now() const { return time_.at; }
  /// The limits and what counts of them, for reports.
  const Budget& budget() const { return budgets_->all().front(); }
  std::size_t slices() const { return ledger_.size(); }

 private:
  /// No draw has this number: a shard that disclaims draws has not drawn the slice.
  static constexpr std::uint64_t kOfEarlierOwner = 0;
  /// A slice of which no report has come.
  struct Entry {
    std::string shard;
    std::uint64_t draw = kOfEarlierOwner;
    std::uint16_t key = Claim::kNoKey;
    bool over = false;  ///< its time is over: it is counted at its end
    TimePoint granted_at{};
    Counts amounts;

    TimePoint counted_at() const { return over ? granted_at + kSliceTime : granted_at; }
  };
  /// The wants of a lane of a shard, and its turn: what it was granted for its weight, above others.
  struct LaneState {
    LaneWant want;
    TimePoint at{};
    std::int64_t turn = 0;
  };
  struct PlacesState {
    PlacesWanted wants;
    TimePoint at{};
    TimePoint since{};  ///< it holds some, or none
  };
  struct Shard {
    std::uint64_t epoch = 0, draw = 0, report = 0;
    bool heard = false;  ///< it has said which places it uses, since the bank may not know of all
    TimePoint drawn_at{}, reported_at{};
    std::map<std::size_t, LaneState> lanes;
    std::map<std::uint16_t, PlacesState> places;

    bool is_silent(TimePoint now) const { return now - drawn_at > kShardKept; }
  };
  using Shards = std::map<std::string, Shard, std::less<>>;
  struct Issued {
    std::uint64_t next_slice = 1, draws = 0;
    TimePoint grants_from{};  ///< until then it grants nothing
    TimePoint places_from{};  ///< nor gives places, unless it has heard of all shards

    /// Counts a draw of the budget. True: draws are lost, or it is the first one of a row: this may be that
    /// of a new bank, or of one whose row was deleted.
    bool count(const Draw& draw, TimePoint now, const BudgetOptions& budget) {
      const bool lost = draw.draws_known > draws, first = draws == 0;
      if (lost) {
        draws = draw.draws_known;
        grants_from = now + counted_for(budget);
      }
      if ((lost || first) && has_places(budget)) places_from = now + kPlacesUnknown;
      ++draws;
      return lost || first;
    }
    bool has_lost(TimePoint now) const { return now < grants_from; }
    /// How long nothing is granted any more, or no places are given, since draws were lost.
    Duration wait(TimePoint now) const {
      if (grants_from == TimePoint{}) return Duration(0);
      return std::max({grants_from - now, places_from - now, Duration(0)});
    }
  };

  static std::unique_ptr<Budgets> budgets_of(const BudgetOptions& options, int offline_share);
  Shard* find_shard(const Draw& draw, Drawn& drawn);
  bool make_room_for_shard();
  void end_slices();
  void take_report(const Draw& draw);
  void take_slice(const SliceReport& report, const std::string& shard);
  void take_word(const UpstreamWord& word, const std::optional<Duration>& on_its_way);
  void recall_rooms(const UpstreamWord& word, TimePoint called_at);
  std::vector<LimitRooms> rooms();
  void recount(std::uint16_t key, const Counts& amounts, TimePoint from, TimePoint to);
  template <class Change>
  void for_rates(std::uint16_t key, Change change);
  template <class Visit>
  void for_waiting(std::size_t lane, Duration kept, Visit visit) const;

  void note_wants(Shard& shard, const std::vector<LaneWant>& wants);
  bool waits_above(std::size_t lane) const;
  /// The most that one grant may be.
  struct Bounds {
    std::int64_t cost = 0, jobs = 0;
  };
  LaneAnswer serve(const std::string& name, Shard& shard, std::size_t lane, PlacesLeft& places, Drawn& drawn);
  struct Granted {
    Slice slice;
    bool bounded = false;  ///< by the places of its key: others may have some
  };
  Granted grant(const std::string& name, Shard& shard, LaneState& state, const Claim& claim,
                std::int64_t cost_max, PlacesLeft& places);
  std::int64_t extra_jobs(const Reservation& reservation, const LaneWant& want, const Bounds& most);
  void explain(const Claim& claim, LaneAnswer& answer);
  std::int64_t turn_left(const Shard& shard, std::size_t lane) const;
  void lower_turns(std::size_t lane);
  std::int64_t cost_of(const Amounts& amounts) const { return Counts(amounts).of(cost_); }
  PlacesGranted give_places(Shard& shard, std::uint16_t account);
  /// A key in the row. `known_at`: when a shard drew last that knows it.
  struct RowKey {
    KeyOptions options;
    TimePoint known_at{};
  };
  /// Where the row's keys and accounts are here; kNoKey: nowhere.
  struct RowIndexes {
    std::vector<std::uint16_t> keys, accounts;
    std::uint16_t key(std::int64_t of_row) const;
    std::uint16_t account(std::int64_t of_row) const;
  };
  static RowKey row_key(const StoredEntry& entry);
  RowIndexes take_keys(const std::vector<StoredEntry>& entries);
  void save_keys(std::vector<StoredEntry>& entries) const;
  void save_shards(std::vector<StoredEntry>& entries) const;
  Result<void> restore_entry(StoredEntry& entry, const RowIndexes& indexes);
  void restore_shard(std::string_view name, StoredNumbers& numbers, const RowIndexes& indexes);

  BudgetOptions options_;             ///< as the drawing shard knows it, and keys that others know
  std::vector<TimePoint> known_at_;   ///< for the keys listed after those of the drawing shard
  std::unique_ptr<Budgets> budgets_;  ///< one
  BudgetSet set_ = 0;
  int offline_share_;
  Resource cost_ = Resource::requests;  ///< by which shards of a lane share
  std::int64_t cost_in_slice_time_ = 1;
  BankTime time_;
  Shards shards_;
  std::map<std::uint64_t, Entry> ledger_;  ///< by their numbers
  Issued issued_;
};

}  // namespace lanemq::core
