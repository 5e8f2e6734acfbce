// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::admin {

/// How values of a time are made one: the largest of a level, so that a peak does not vanish; the mean of a
/// rate.
enum class HistoryKind : unsigned char { level, rate };

/// A value of a series at one time.
struct HistoryValue {
  std::string series{};
  double value = 0;
  HistoryKind kind = HistoryKind::level;
};

/// How far back, and how fine.
enum class HistorySpan : unsigned char { quarter_hour, day };

/// Values over time: one a second for a quarter of an hour, one in ten seconds for a day. Has no clock;
/// belongs to the thread that records.
class History {
 public:
  static constexpr std::size_t kSeriesMax = 200;
  static constexpr std::size_t kSecondsKept = 900, kTensKept = 8640;
  /// Values that make one of the coarse ones.
  static constexpr std::size_t kFolded = 10;
  /// Bound on an answer's points of a series: neighbours are merged.
  static constexpr std::size_t kPointsMax = 1440;
  static constexpr std::size_t kBytesMax = std::size_t{8} * 1024 * 1024;

  /// Adds the values of a time, one second after those before. A series that has none has a gap. Of further
  /// series than kSeriesMax, one that has had no value for kSecondsKept makes way, or the new one is left
  /// out. A clock that was set back begins the history anew.
  void add(std::int64_t at_ms, std::span<const HistoryValue> values);

  /// `{"step_ms":…,"at_ms":[…],"series":{"NAME":[…]}}` of the series whose names begin with `prefix`; a gap
  /// is null.
  std::string json(HistorySpan span, std::string_view prefix) const;

  std::size_t series() const { return series_.size(); }
  /// Values that were left out, for there were too many series.
  std::uint64_t left_out() const { return left_out_; }
  /// Upper bound on the memory of the values at present.
  std::size_t bytes() const { return series_.size() * kBytesOfSeries + kPlaces * sizeof(std::int64_t); }

 private:
  static constexpr std::size_t kPlaces = kSecondsKept + kTensKept;
  static constexpr std::size_t kBytesOfSeries = kPlaces * sizeof(float);
  static_assert(kSeriesMax * kBytesOfSeries + kPlaces * sizeof(std::int64_t) <= kBytesMax);

  /// Several values that become one.
  struct Fold {
    double sum = 0, largest = 0;
    std::size_t count = 0;
    void add(double value);
    /// NaN: there was none.
    float value(HistoryKind kind) const;
  };
  struct Series {
    HistoryKind kind;
    std::vector<float> seconds, tens;  ///< rings, in step with the times
    Fold fold{};
    std::uint64_t seen = 0;  ///< the last time that it had a value
  };
  /// The times of a ring, and where it stands.
  struct Times {
    std::vector<std::int64_t> at_ms{};
    std::size_t next = 0;
    std::size_t put(std::int64_t time, std::size_t kept);
  };

  Series* named(const HistoryValue& value);
  bool make_way();
  void fold(std::int64_t at_ms);

  std::map<std::string, Series, std::less<>> series_;
  Times seconds_, tens_;
  std::int64_t last_ms_ = 0;
  std::uint64_t times_ = 0, left_out_ = 0;
};

}  // namespace lanemq::admin
