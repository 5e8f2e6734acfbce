// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/progress_lines.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

namespace lanemq::worker {
namespace {

constexpr std::string_view kBlanks = " \t";

/// Of `40`, `40.0` or `40%`; none: it is no number.
std::optional<int> percent_of(std::string_view text) {
  if (text.ends_with('%')) text.remove_suffix(1);
  double pct = 0;
  const auto [behind, fault] = std::from_chars(text.data(), text.data() + text.size(), pct);
  if (fault != std::errc() || behind != text.data() + text.size()) return std::nullopt;
  return whole_percent(pct);
}

/// None: the line is none of these.
std::optional<JobProgress> progress_of(std::string_view line) {
  if (!line.starts_with(ProgressLines::kBegin)) return std::nullopt;
  line.remove_prefix(ProgressLines::kBegin.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
  const std::string_view number = line.substr(0, end);
  JobProgress said{.note = std::string(line.substr(std::min(end + 1, line.size())))};
  if (number == "-") return said;
  said.pct = percent_of(number);
  return said.pct ? std::optional(said) : std::nullopt;
}

}  // namespace

std::optional<int> whole_percent(double pct) {
  if (!std::isfinite(pct)) return std::nullopt;
  return static_cast<int>(std::clamp(pct, 0.0, static_cast<double>(limits::progress_pct_max)));
}

std::vector<JobProgress> ProgressLines::read(std::string_view bytes) {
  std::vector<JobProgress> words;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    too_long_ = too_long_ || line_.size() + part.size() > kLineBytesMax;
    if (!too_long_) line_ += part;
    if (end == std::string_view::npos) break;
    if (auto said = too_long_ ? std::nullopt : progress_of(line_)) words.push_back(std::move(*said));
    line_.clear();
    too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
  return words;
}

std::string without_progress(std::string_view text) {
  std::string rest;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    if (!progress_of(line.substr(0, line.find('\n')))) rest += line;
  }
  return rest;
}

}  // namespace lanemq::worker
