// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/progress_lines.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace lanemq::worker {
namespace {

/// None: the line is none of these.
std::optional<JobProgress> progress_of(std::string_view line) {
  if (!line.starts_with(ProgressLines::kBegin)) return std::nullopt;
  line.remove_prefix(ProgressLines::kBegin.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view number = line.substr(0, end);
  JobProgress said{.note = std::string(line.substr(std::min(end + 1, line.size())))};
  if (number == "-") return said;
  int pct = 0;
  const auto [behind, fault] = std::from_chars(number.data(), number.data() + number.size(), pct);
  if (fault != std::errc() || behind != number.data() + number.size()) return std::nullopt;
  said.pct = pct;
  return said;
}

}  // namespace

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
