// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/families.hpp"

#include <prometheus/text_serializer.h>

#include <lanemq/text.hpp>

namespace lanemq::metrics {
namespace {

/// Names have 128 bytes, each of which may be written as four.
constexpr std::size_t kLabelBytesMax = 1'024;

prometheus::MetricType type_of(Kind kind) {
  switch (kind) {
    case Kind::counter:
      return prometheus::MetricType::Counter;
    case Kind::gauge:
      return prometheus::MetricType::Gauge;
    case Kind::summary:
      return prometheus::MetricType::Summary;
    case Kind::histogram:
      break;
  }
  return prometheus::MetricType::Histogram;
}

}  // namespace

void Families::begin(const Description& description) {
  prometheus::MetricFamily& family = families_.emplace_back();
  family.name = description.name;
  family.help = description.help;
  family.type = type_of(description.kind);
}

prometheus::ClientMetric* Families::next(Labels labels, std::size_t series) {
  if (series > series_max_ - series_) {
    left_out_ += series;
    return nullptr;
  }
  series_ += series;
  prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
  for (auto& [name, value] : labels)
    metric.label.push_back({std::move(name), printable(value, kLabelBytesMax)});
  return &metric;
}

void Families::add(Labels labels, double value) {
  prometheus::ClientMetric* const metric = next(std::move(labels), 1);
  if (metric == nullptr) return;
  metric->counter.value = value;
  metric->gauge.value = value;
}

void Families::add(Labels labels, const SummaryFigures& figures) {
  prometheus::ClientMetric* const metric = next(std::move(labels), figures.quantiles.size() + 2);
  if (metric == nullptr) return;
  for (const auto& [share, value] : figures.quantiles)
    metric->summary.quantile.push_back({share, value});
  metric->summary.sample_count = figures.count;
  metric->summary.sample_sum = figures.sum;
}

void Families::add(Labels labels, std::span<const double> bounds, std::span<const std::uint64_t> counts,
                   double sum) {
  prometheus::ClientMetric* const metric = next(std::move(labels), counts.size() + 2);
  if (metric == nullptr) return;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
    metric->histogram.bucket.push_back({below, bound});
  }
  metric->histogram.sample_count = below;
  metric->histogram.sample_sum = sum;
}

std::string Families::text() const {
  return prometheus::TextSerializer().Serialize(families_);
}

}  // namespace lanemq::metrics
