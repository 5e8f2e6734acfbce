// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/progress.hpp"

#include <algorithm>
#include <cstdio>

#include "client/cli/text/terminal.hpp"
#include "common/explanation/explanation.hpp"

namespace lanemq::cli {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBarMax = 40;

std::string per_second(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, rate < 10 ? "%.1f/s" : "%.0f/s", rate);
  return text;
}

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void Progress::sample(const RunCounts& counts, TimePoint now) {
  if (now - samples_.back().at < kSampleEvery) return;
  samples_.push_back({now, counts.now()});
  while (samples_.size() > 2 && now - samples_.front().at > kWindow)
    samples_.pop_front();
}

double Progress::rate() const {
  const double time = seconds(samples_.back().at - samples_.front().at);
  return time > 0 ? static_cast<double>(samples_.back().answered - samples_.front().answered) / time : 0;
}

std::optional<milliseconds> Progress::remaining(const RunCounts& counts) const {
  const double speed = rate();
  if (speed <= 0) return std::nullopt;
  const auto left = static_cast<double>(counts.total - std::min(counts.total, counts.settled()));
  return milliseconds(static_cast<std::int64_t>(std::min(left / speed * 1'000, 1e12)));
}

std::string Progress::figures(const RunCounts& counts) const {
  std::string text = grouped(counts.settled()) + "/" + grouped(counts.total) + "  " + per_second(rate());
  const std::optional<milliseconds> left = remaining(counts);
  text += "  ETA " + (left ? short_duration(*left) : std::string("-"));
  if (counts.failed > 0) text += "  failed " + grouped(counts.failed);
  return text;
}

std::string Progress::bar(const RunCounts& counts, std::size_t columns) const {
  const double share =
      counts.total > 0 ? static_cast<double>(counts.settled()) / static_cast<double>(counts.total) : 1;
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3d %%", static_cast<int>(share * 100));
  const std::string text = std::string(" ") + percent + "  " + figures(counts);
  if (columns < text.size() + 13) return text.substr(1, columns > 1 ? columns - 1 : 0);
  const std::size_t width = std::min(kBarMax, columns - text.size() - 3);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  return "[" + std::string(filled, '#') + std::string(width - filled, '.') + "]" + text;
}

std::string Progress::words(const RunCounts& counts) const {
  return figures(counts);
}

std::string Progress::summary(const RunCounts& counts, TimePoint now) const {
  const double time = std::max(seconds(now - start_), 1e-3);
  std::string text = grouped(counts.total) + " lines: " + grouped(counts.done) + " done";
  if (counts.before > 0) text += ", " + grouped(counts.before) + " done before";
  text += ", " + grouped(counts.failed) + " failed";
  const std::size_t missing = counts.total - std::min(counts.total, counts.settled());
  if (missing > 0) text += ", " + grouped(missing) + " not answered";
  text += "; " + short_duration(milliseconds(static_cast<std::int64_t>(time * 1'000)));
  if (counts.now() > 0) text += ", " + per_second(static_cast<double>(counts.now()) / time);
  return text;
}

}  // namespace lanemq::cli
