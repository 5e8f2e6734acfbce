// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <prometheus/metric_family.h>

namespace lanemq::metrics {

enum class Kind : unsigned char { counter, gauge, summary, histogram };

/// Names and values, in the order in which they are shown.
using Labels = std::vector<std::pair<std::string, std::string>>;

/// What a metric is called, what it is, and what it says: a row of a program's table.
struct Description {
  std::string_view name;
  Kind kind;
  std::string_view help;
};

/// Durations, or the like, that were summed up.
struct SummaryFigures {
  std::vector<std::pair<double, double>> quantiles{};  ///< shares and the values that they do not exceed
  std::uint64_t count = 0;
  double sum = 0;
};

/// The figures of a program at one time, for Prometheus. Made for one answer.
class Families {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  /// `series_max`: what is added beyond it is left out.
  explicit Families(std::size_t series_max = std::numeric_limits<std::size_t>::max())
      : series_max_(series_max) {}

  /// Begins a family, to which belongs what is added until the next one. It is shown though it stays empty.
  void begin(const Description& description);
  /// Adds to a family of counters or gauges.
  void add(Labels labels, double value);
  void add(Labels labels, const SummaryFigures& figures);
  /// `bounds`: the upper ones of all buckets but the last, which has none. `counts`: of each bucket alone.
  void add(Labels labels, std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum);

  /// Series that found no room.
  std::size_t left_out() const { return left_out_; }
  /// All of them in Prometheus' text format.
  std::string text() const;

 private:
  prometheus::ClientMetric* next(Labels labels, std::size_t series);

  std::vector<prometheus::MetricFamily> families_;
  std::size_t series_ = 0, left_out_ = 0;
  const std::size_t series_max_;
};

}  // namespace lanemq::metrics
