// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/base/amounts.hpp"
#include "broker/core/base/mark.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/time.hpp"

// Messages between shards and the bank of a shared budget (Bank, Slices). Two times meet here: a shard's own,
// by a clock that runs through suspend, and the bank's, which is never ahead of what passed.

namespace lanemq::core {

/// Time in which a slice may be used, from its shard's request on.
inline constexpr Duration kSliceTime = std::chrono::milliseconds(500);
/// No clock gains or loses more than one part in kClockParts.
inline constexpr std::int64_t kClockParts = 1000;
/// Time for which a want counts after its shard's draw.
inline constexpr Duration kWantKept = std::chrono::seconds(2);

/// A shard with calls running in its places draws at least this often, so that its bank knows of them
/// whatever happens to its row.
inline constexpr Duration kPlacesSaidEvery = std::chrono::seconds(5);
/// A bank that may not know all places in use gives none for this long. All shards that can reach it have
/// reported theirs by then, even if two draws in a row are lost.
inline constexpr Duration kPlacesUnknown = 3 * kPlacesSaidEvery;

/// Bounds on the lanes named by a draw, and on the uses of a slice, words, corrections and lost draws in a
/// report.
inline constexpr std::size_t kWantsMax = 16, kUsesMax = 64, kWordsMax = 64, kCorrectionsMax = 1024,
                             kDisclaimedMax = 64;
/// Slices of one shard whose use the bank does not know yet.
inline constexpr std::size_t kSlicesOfShardMax = 256;

/// Amounts by what limits count: `tokens` is apart from the two kinds that it sums up.
class Counts {
 public:
  static constexpr std::size_t kResources = 4;

  Counts() = default;
  explicit Counts(const Amounts& amounts) {
    for (std::size_t i = 0; i < kResources; ++i)
      all_[i] = amounts.of(static_cast<Resource>(i));
  }
  std::int64_t& of(Resource resource) { return all_[static_cast<std::size_t>(resource)]; }
  std::int64_t of(Resource resource) const { return all_[static_cast<std::size_t>(resource)]; }
  std::int64_t& operator[](std::size_t place) { return all_[place]; }
  std::int64_t operator[](std::size_t place) const { return all_[place]; }
  Counts& operator+=(const Counts& other) {
    for (std::size_t i = 0; i < kResources; ++i)
      all_[i] += other.all_[i];
    return *this;
  }
  Counts& operator-=(const Counts& other) {
    for (std::size_t i = 0; i < kResources; ++i)
      all_[i] -= other.all_[i];
    return *this;
  }
  bool none() const { return all_ == std::array<std::int64_t, kResources>{}; }
  bool operator==(const Counts&) const = default;

 private:
  std::array<std::int64_t, kResources> all_{};
};

/// The key that upstreams refused to a job, if any.
struct KeysRefused {
  bool any = false;  ///< one was refused: the job is the last one to try a key that has rested
  std::uint16_t key = Claim::kNoKey;  ///< that one: the job does not get it again

  /// Whether the job may not have what has this key.
  bool forbid(std::uint16_t other) const { return key != Claim::kNoKey && key == other; }
};

/// The wants of a lane's waiting jobs.
struct LaneWant {
  std::size_t lane = 0;                 ///< 0: the top lane
  Amounts head{};                       ///< of the job that is next
  std::int64_t jobs = 0;                ///< that wait; 0: the lane wants nothing
  Amounts all{};                        ///< of all of them
  std::uint32_t clients = 1;            ///< that wait: the weight of the shard among those of the lane
  int hold = 0;                         ///< thousandths of each burst that the lane leaves to those above
  KeysRefused refused{};                ///< to the job that is next
  std::uint64_t client_mark = kNoMark;  ///< of that job
};

/// One use under a slice, and how long after the shard's request for the slice (rounded up).
struct SliceUse {
  Duration age{};
  Counts used;
};

/// All that was used under a slice: it is used no more.
struct SliceReport {
  std::uint64_t slice = 0;
  std::vector<SliceUse> uses;
};

/// A use that was reported, and was more or less than expected.
struct Correction {
  std::uint16_t key = Claim::kNoKey;
  TimePoint at{};  ///< at which the bank counts the use
  Counts more;     ///< below 0: less
};

/// Time for which a bank's room is no more than the upstream's: amounts that have left the upstream's window
/// count here for the slack of a one-minute window longer. No other windows are compared.
inline constexpr Duration kRoomHolds = Duration(std::chrono::minutes(1)) / 100;

/// In place of an account's number: the budget's own limits, which count all accounts.
inline constexpr std::uint16_t kOfBudget = Claim::kNoKey;

/// The amount that each limit of a budget, or of an account of its keys, would let through if nobody else
/// used the account: their known use is added.
struct LimitRooms {
  std::uint16_t account = kOfBudget;
  std::vector<std::int64_t> rooms;
};

/// What an upstream stated or showed in answer to a call.
struct UpstreamWord {
  enum class Kind : std::uint8_t {
    answered,
    limited,
    overloaded,
    key_taken,  ///< its key is one that the upstream takes
    key_refused,
    keys_configured,  ///< the keys were configured anew: spent ones are tried at once
    forgotten,        ///< an operator has all be forgotten that it said before
  };
  Kind kind = Kind::answered;
  std::uint16_t key = Claim::kNoKey;
  bool tries_key = false;               ///< its slice was for a key that had rested
  std::string model{}, client{};        ///< of the job
  std::uint64_t model_mark = kNoMark;   ///< answered: of that model
  std::int64_t calls = 1;               ///< for `answered`: the number of calls that this stands for
  std::uint64_t client_mark = kNoMark;  ///< key_taken, key_refused: of that client
  bool answered = false;                ///< key_taken: the call did what its client asked
  bool may_spend = true;                ///< key_refused: false: the job was refused another key before
  Duration age{};                       ///< since the call was handed over
  Duration waited{};                    ///< since the answer
  Duration pause{};                     ///< limited: for so long the upstream asks to be left alone
  bool shared = false;                  ///< limited: nothing is left of what all models share
  std::optional<wire::UpstreamLimits> limits{};
  std::vector<LimitRooms>
      rooms{};  ///< soon after the call, for what `limits` say that remains; empty: unknown
};

/// All events under a shard's slices. The bank takes each report once, however often it arrives.
struct Report {
  std::uint64_t number = 0;  ///< of the draw with which it was said first; 0: there is nothing to say
  std::vector<SliceReport> slices;
  std::vector<Correction> corrections;
  std::vector<UpstreamWord> words;
  std::vector<std::uint64_t> disclaimed;  ///< draws whose slices never arrived, and are not used
};

/// Places of a concurrency: of the budget, or of an account of its keys.
struct PlacesWanted {
  std::uint16_t account = kOfBudget;
  std::int64_t held = 0;     ///< that the shard has and keeps: at least what runs
  std::int64_t running = 0;  ///< of these, now
  std::int64_t went = 0;     ///< jobs that have begun since the draw before
  std::int64_t wanted = 0;   ///< besides those that are held
  std::uint32_t clients = 1;
};

/// The clock by which a bank goes: that of the database that keeps its row.
struct BankClock {
  TimePoint now{};           ///< since 1970
  std::uint64_t server = 0;  ///< a mark of the server whose clock it is: with another one it may jump
};

/// One draw of a shard. Wants and places that it does not name count as before.
struct Draw {
  std::string shard;
  std::uint64_t epoch = 0;   ///< of the shard's owner: an earlier one gets nothing
  std::uint64_t number = 0;  ///< rises with each draw of an owner, from 1
  /// The bank's time when this was asked, by what the shard saw pass since its earlier draws; none: there
  /// were none.
  std::optional<TimePoint> saw;
  std::uint64_t clock_changes = 0;  ///< as the answer said it from which `saw` counts
  std::uint64_t draws_known = 0;    ///< that the bank had taken then; 0: nothing of then counts any more
  Report report;
  std::vector<LaneWant> wants;
  std::vector<PlacesWanted> places;
  /// All that the shard's configuration names; empty: it knows of none but itself.
  std::vector<std::string> shards{};
};

/// Amounts that a shard may use.
struct Slice {
  std::uint64_t number = 0;
  std::size_t lane = 0;  ///< for which it was granted
  std::uint16_t key = Claim::kNoKey;
  bool tries_key = false;  ///< its key has rested: its one job finds out whether the upstream takes it again
  Counts amounts;
};

/// Why a lane got nothing, or less than it wants.
enum class DrawRefusal : std::uint8_t {
  none,
  room,         ///< the limit named has no more
  lanes_above,  ///< a higher lane waits for the same
  others_turn,  ///< it is the turn of other shards
  paused,       ///< the upstream asked to be left alone
  no_key,       ///< all keys rest
  places,       ///< the concurrency is used up, or it is the turn of other shards
  too_many,     ///< slices whose use is not known yet
  lost_draws,   ///< the bank does not know what it has granted
  superseded,   ///< another broker draws for the shard
};

struct LaneAnswer {
  std::size_t lane = 0;
  DrawRefusal refusal = DrawRefusal::none;
  std::string limit{};  ///< room: as Obstacle::name() says it
  Duration retry_after{};
};

struct PlacesGranted {
  std::uint16_t account = kOfBudget;
  std::int64_t places = 0;   ///< that the shard has now
  std::int64_t allowed = 0;  ///< no job is handed over while this many run: the rest is for other shards
};

/// How a limit of the budget stood after a draw.
struct LimitLevel {
  std::int64_t level = 0;  ///< what the bank could grant still
  std::int64_t lent = 0;   ///< in slices whose use the bank does not know yet, of all shards
};

/// The bank's answer to a draw.
struct Drawn {
  enum class Outcome : std::uint8_t {
    taken,
    stale,       ///< a later draw of this owner was taken before
    superseded,  ///< the shard has another owner
    full,        ///< there are kShardsMax shards
  };
  Outcome outcome = Outcome::taken;
  std::uint64_t number = 0;
  std::uint64_t epoch = 0;          ///< superseded: that of the other owner
  TimePoint at{};                   ///< the bank's time
  std::uint64_t clock_changes = 0;  ///< how often its clock has become another one, up to there
  std::uint64_t draws = 0;          ///< that the bank has taken, with this one
  Duration waits{};                 ///< it has lost draws, and grants nothing for so long
  TimePoint reported_at{};          ///< the bank's time at which it took the draw's report
  std::vector<Slice> slices;
  std::vector<LaneAnswer> lanes;
  std::vector<PlacesGranted> places;
  std::vector<LimitLevel> limits;  ///< those of the budget itself, in their order; for people
  std::vector<LimitRooms> rooms;   ///< those of the budget, then those of accounts that have limits
  std::vector<std::pair<std::string, Duration>> models_paused;  ///< alone; for so long
};

/// For how long a grant may count, at most: by the longest of the budget's windows and those of its keys.
Duration counted_for(const BudgetOptions& budget);
/// Whether the budget, or an account of its keys, has a concurrency, whose places shards share.
bool has_places(const BudgetOptions& budget);

/// A draw that is to be made at the bank of a budget.
struct DrawWanted {
  std::size_t budget = 0;  ///< its place among the configured ones
  BudgetOptions options{};
  Draw draw{};
};

}  // namespace lanemq::core
