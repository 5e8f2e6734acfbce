// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "broker/core/base/histogram.hpp"
#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// Durations of the last minute and of the last ten, as counts in logarithmic
/// buckets, 16 to an octave: a quantile is within 3.2 % of a recorded value, up
/// to 25 days. Recording is a few instructions and never allocates: a value
/// goes into the present slot alone, and slots are added up when somebody asks.
///
/// A window ends with a slot, so it is up to a sixth longer than its name says,
/// or an eighth. 42 KiB.
class RecentTimes {
 public:
  /// The figures of a window.
  struct Summary {
    std::uint64_t count = 0;
    Duration p50{}, p99{};
  };
  struct Windows {
    Summary minute, ten_minutes;
  };

  /// Requires: `now` does not go back.
  void record(Duration value, TimePoint now) {
    if (now >= slot_ends_) move_on(now);
    Slot& slot = slots_[slot_];
    ++slot.counts[bucket(static_cast<std::uint64_t>(std::max<Duration::rep>(value.count(), 0)))];
    ++slot.total;
  }

  Windows over(TimePoint now) {
    if (now >= slot_ends_) move_on(now);
    Windows windows;
    Slot sum;
    for (const Slot& slot : slots_)
      add(slot, sum);
    windows.minute = summary_of(sum);
    for (const Slot& minute : minutes_)
      add(minute, sum);
    windows.ten_minutes = summary_of(sum);
    return windows;
  }

 private:
  static constexpr std::uint64_t kSubBuckets = 16;
  static constexpr std::size_t kOctaves = 38;  // to 2^41 us: 25 days
  static constexpr std::size_t kSlots = 7;     // the present one, and a minute
  static constexpr std::size_t kMinutes = 10;  // those before
  static constexpr Duration kSlot = std::chrono::seconds(10);
  static constexpr std::size_t kSlotsPerMinute = 6;

  /// Values by bucket.
  struct Slot {
    std::array<std::uint32_t, kOctaves * kSubBuckets> counts{};
    std::uint64_t total = 0;
  };

  static std::size_t bucket(std::uint64_t us) {
    if (us < kSubBuckets) return us;
    const auto octave = static_cast<std::size_t>(std::bit_width(us)) - 4;  // 1 for 16..31
    if (octave >= kOctaves) return kOctaves * kSubBuckets - 1;
    return octave * kSubBuckets + (us >> (octave - 1)) - kSubBuckets;
  }
  /// The middle of a bucket.
  static Duration value_of(std::size_t index) {
    if (index < kSubBuckets) return Duration(static_cast<std::int64_t>(index));
    const std::uint64_t octave = index / kSubBuckets, low = (index % kSubBuckets + kSubBuckets)
                                                            << (octave - 1);
    return Duration(static_cast<std::int64_t>(low + ((std::uint64_t{1} << (octave - 1)) - 1) / 2));
  }

  /// Nothing is added of what is empty: most slots of most lanes are.
  static void add(const Slot& slot, Slot& sum) {
    if (slot.total == 0) return;
    for (std::size_t i = 0; i < slot.counts.size(); ++i)
      sum.counts[i] += slot.counts[i];
    sum.total += slot.total;
  }

  /// The q-quantile, with the rank convention of Histogram::quantile().
  static Duration quantile(const Slot& slot, double q) {
    if (slot.total == 0) return {};
    const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(slot.total - 1)) + 1;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < slot.counts.size(); ++i)
      if ((seen += slot.counts[i]) >= rank) return value_of(i);
    return {};
  }
  static Summary summary_of(const Slot& slot) {
    return {.count = slot.total, .p50 = quantile(slot, 0.50), .p99 = quantile(slot, 0.99)};
  }

  /// Begins the slots that are due. One that leaves the minute goes into the
  /// minutes before it.
  void move_on(TimePoint now) {
    constexpr std::size_t kAll = kSlots + kMinutes * kSlotsPerMinute;
    if (slot_ends_ + kSlot * static_cast<Duration::rep>(kAll) <= now) {
      slots_.fill({});
      minutes_.fill({});
      slot_ends_ = now + kSlot;
      return;
    }
    for (; slot_ends_ <= now; slot_ends_ += kSlot) {
      slot_ = (slot_ + 1) % kSlots;
      if (left_ == 0) {
        minute_ = (minute_ + 1) % kMinutes;
        minutes_[minute_] = {};
      }
      left_ = (left_ + 1) % kSlotsPerMinute;
      add(slots_[slot_], minutes_[minute_]);
      slots_[slot_] = {};
    }
  }

  std::array<Slot, kSlots> slots_{};
  std::array<Slot, kMinutes> minutes_{};
  std::size_t slot_ = 0, minute_ = 0;
  std::size_t left_ = 0;  ///< slots that the present minute of minutes_ has
  TimePoint slot_ends_{};
};

/// Durations of one kind: since the start, and of late.
class Times {
 public:
  /// Requires: `now` does not go back.
  void record(Duration value, TimePoint now) {
    all_.record(value);
    recent_.record(value, now);
    sum_ += value;
  }

  const Histogram& all() const { return all_; }
  Duration sum() const { return sum_; }
  RecentTimes::Windows over(TimePoint now) { return recent_.over(now); }

 private:
  Histogram all_;
  RecentTimes recent_;
  Duration sum_{};
};

/// Figures of names that peers make up, for as many of them as there is room for: the first ones. A name for
/// which nothing was recorded for twelve minutes, whose windows are empty, gives way to another one. 121 KiB
/// each.
class NamedTimes {
 public:
  /// The figures of one name.
  struct Figures {
    Times wait;                ///< from acceptance to the first hand-over
    Times run;                 ///< from the last hand-over to the end, of jobs that end while they run
    std::uint64_t tokens = 0;  ///< that its calls used, as far as workers said
  };

  /// Held by what has the name; it may have figures. Outlived by its NamedTimes.
  class Place {
   public:
    Place() = default;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      if (figures_ != nullptr) figures_->holder = nullptr;
    }
    /// Null: nothing was recorded, or its figures gave way.
    Figures* figures() const { return figures_ != nullptr ? &figures_->figures : nullptr; }

   private:
    friend class NamedTimes;
    struct Kept {
      std::string_view name;  // of the holder
      Figures figures;
      Place* holder = nullptr;
      TimePoint used_at{};
    };
    Kept* figures_ = nullptr;
  };

  explicit NamedTimes(std::size_t names_max) : names_max_(names_max) {}
  NamedTimes(const NamedTimes&) = delete;
  NamedTimes& operator=(const NamedTimes&) = delete;

  /// The figures to record into; null: there is no room now. `name`: lives as long as the place. Requires:
  /// `now` does not go back.
  Figures* at(Place& place, std::string_view name, TimePoint now) {
    if (place.figures_ == nullptr && !take_room(place, name, now)) return nullptr;
    place.figures_->used_at = now;
    return &place.figures_->figures;
  }

  /// The names that have figures, those with the most tokens first, then those with the most jobs.
  std::vector<std::string_view> ranked() const {
    std::vector<const Place::Kept*> order;
    for (const auto& kept : kept_)
      if (kept->holder != nullptr) order.push_back(kept.get());
    const auto rank = [](const Place::Kept* kept) {
      return std::pair(kept->figures.tokens, kept->figures.wait.all().count());
    };
    std::sort(order.begin(), order.end(), [&](const Place::Kept* one, const Place::Kept* other) {
      return std::tuple(rank(other), one->name) < std::tuple(rank(one), other->name);
    });
    std::vector<std::string_view> names;
    for (const Place::Kept* const kept : order)
      names.push_back(kept->name);
    return names;
  }

 private:
  static constexpr Duration kIdle = std::chrono::minutes(12);  // no window reaches further back
  static constexpr Duration kLookEvery = std::chrono::seconds(10);

  bool take_room(Place& place, std::string_view name, TimePoint now) {
    if (now < next_look_) return false;
    const auto is_free = [&](const auto& kept) {
      return kept->holder == nullptr || now - kept->used_at >= kIdle;
    };
    auto found = std::find_if(kept_.begin(), kept_.end(), is_free);
    if (found == kept_.end()) {
      if (kept_.size() >= names_max_) {
        next_look_ = now + kLookEvery;
        return false;
      }
      found = kept_.insert(kept_.end(), std::make_unique<Place::Kept>());
    }
    Place::Kept& kept = **found;
    if (kept.holder != nullptr) kept.holder->figures_ = nullptr;
    kept.figures = {};
    kept.holder = &place;
    kept.name = name;
    place.figures_ = &kept;
    return true;
  }

  std::size_t names_max_;
  std::vector<std::unique_ptr<Place::Kept>> kept_;
  TimePoint next_look_{};
};

}  // namespace lanemq::core
