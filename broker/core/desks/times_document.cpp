// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/times_document.hpp"

#include <cstdint>
#include <utility>

namespace lanemq::core {
namespace {

double in_ms(Duration duration) {
  return static_cast<double>(duration.count()) / 1000.0;
}

}  // namespace

void add_times(DocumentMap& map, Times& times, TimePoint now) {
  const Histogram& all = times.all();
  map.integer("count", static_cast<std::int64_t>(all.count())).number("sum", in_ms(times.sum()));
  map.number("p50", in_ms(all.quantile(0.50))).number("p99", in_ms(all.quantile(0.99)));
  map.number("max", in_ms(all.max()));
  const RecentTimes::Windows windows = times.over(now);
  for (const auto& [name, recent] :
       {std::pair("minute", &windows.minute), std::pair("ten_minutes", &windows.ten_minutes)}) {
    DocumentMap figures;
    figures.integer("count", static_cast<std::int64_t>(recent->count));
    figures.number("p50", in_ms(recent->p50)).number("p99", in_ms(recent->p99));
    map.map(name, figures);
  }
}

void add_times(DocumentMap& map, std::string_view name, Times& times, TimePoint now) {
  DocumentMap figures;
  add_times(figures, times, now);
  map.map(name, figures);
}

}  // namespace lanemq::core
