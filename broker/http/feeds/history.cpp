// SPDX-License-Identifier: Apache-2.0
#include "broker/http/feeds/history.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

namespace lanemq::admin {
namespace {

constexpr float kGap = std::numeric_limits<float>::quiet_NaN();
constexpr int kDigits = 5;

template <class Number, class... Format>
void append(std::string& text, Number number, Format... format) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, format...).ptr;
  text.append(digits.data(), end);
}

/// Where the oldest value of a ring stands.
std::size_t oldest(std::size_t size, std::size_t kept, std::size_t next) {
  return size < kept ? 0 : next;
}

}  // namespace

void History::Fold::add(double value) {
  largest = count == 0 ? value : std::max(largest, value);
  sum += value;
  ++count;
}

float History::Fold::value(HistoryKind kind) const {
  if (count == 0) return kGap;
  return static_cast<float>(kind == HistoryKind::level ? largest : sum / static_cast<double>(count));
}

std::size_t History::Times::put(std::int64_t time, std::size_t kept) {
  const std::size_t place = next;
  if (at_ms.size() < kept)
    at_ms.push_back(time);
  else
    at_ms[place] = time;
  next = (next + 1) % kept;
  return place;
}

void History::add(std::int64_t at_ms, std::span<const HistoryValue> values) {
  if (at_ms <= last_ms_) *this = History();
  last_ms_ = at_ms;
  ++times_;
  const std::size_t place = seconds_.put(at_ms, kSecondsKept);
  for (auto& [name, one] : series_)
    one.seconds[place] = kGap;
  for (const HistoryValue& value : values) {
    if (!std::isfinite(value.value)) continue;
    Series* const series = named(value);
    if (series == nullptr) {
      ++left_out_;
      continue;
    }
    series->seconds[place] = static_cast<float>(value.value);
    series->fold.add(value.value);
    series->seen = times_;
  }
  if (times_ % kFolded == 0) fold(at_ms);
}

/// Null: there are too many.
History::Series* History::named(const HistoryValue& value) {
  if (const auto known = series_.find(value.series); known != series_.end()) return &known->second;
  if (series_.size() >= kSeriesMax && !make_way()) return nullptr;
  return &series_
              .emplace(value.series, Series{.kind = value.kind,
                                            .seconds = std::vector<float>(kSecondsKept, kGap),
                                            .tens = std::vector<float>(kTensKept, kGap)})
              .first->second;
}

bool History::make_way() {
  const auto longest_unseen = std::min_element(
      series_.begin(), series_.end(),
      [](const auto& one, const auto& other) { return one.second.seen < other.second.seen; });
  if (longest_unseen->second.seen + kSecondsKept > times_) return false;
  series_.erase(longest_unseen);
  return true;
}

void History::fold(std::int64_t at_ms) {
  const std::size_t place = tens_.put(at_ms, kTensKept);
  for (auto& [name, one] : series_) {
    one.tens[place] = one.fold.value(one.kind);
    one.fold = Fold();
  }
}

std::string History::json(HistorySpan span, std::string_view prefix) const {
  const bool fine = span == HistorySpan::quarter_hour;
  const Times& times = fine ? seconds_ : tens_;
  const std::size_t kept = fine ? kSecondsKept : kTensKept, size = times.at_ms.size();
  const std::size_t first = oldest(size, kept, times.next);
  const std::size_t group = std::max<std::size_t>(1, (size + kPointsMax - 1) / kPointsMax);
  std::string text = "{\"step_ms\":";
  append(text, group * (fine ? 1 : kFolded) * 1000);
  text += ",\"at_ms\":[";
  for (std::size_t from = 0; from < size; from += group) {
    if (from > 0) text += ',';
    append(text, times.at_ms[(first + std::min(from + group, size) - 1) % kept]);
  }
  text += "],\"series\":{";
  bool is_first = true;
  for (auto at = series_.lower_bound(prefix); at != series_.end() && at->first.starts_with(prefix); ++at) {
    const Series& one = at->second;
    const std::vector<float>& values = fine ? one.seconds : one.tens;
    text += is_first ? "" : ",";
    is_first = false;
    text += nlohmann::json(at->first).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + ":[";
    for (std::size_t from = 0; from < size; from += group) {
      Fold fold;
      for (std::size_t next = from; next < std::min(from + group, size); ++next)
        if (const float value = values[(first + next) % kept]; !std::isnan(value)) fold.add(value);
      if (from > 0) text += ',';
      if (fold.count == 0)
        text += "null";
      else
        append(text, fold.value(one.kind), std::chars_format::general, kDigits);
    }
    text += ']';
  }
  return text + "}}\n";
}

}  // namespace lanemq::admin
