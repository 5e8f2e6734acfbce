// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/call_log.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/support/upstream/json.hpp"

namespace lanemq::upstream {
namespace {

std::string milliseconds(Duration duration) {
  const long long us = duration.count() / 1000;
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%03lld", us / 1000, us % 1000);
  return text;
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// What clients sent may be no UTF-8, and cutting may have split a character.
std::string quoted_text(const std::string& text) {
  return json_string(text.substr(0, kLoggedTextMax));
}

struct Arrival {
  Duration at;
  std::uint64_t tokens;
  std::string key;
};

struct Arrivals {
  std::vector<Arrival> calls;
  Duration started_unix{};  // Of the double.
};

Duration time_of(const Json& record, const char* name) {
  return std::chrono::microseconds(std::llround(record.at(name).get<double>() * 1000));
}

// Adds one line to the audit, and to the arrivals if the call was accepted. Throws Json::exception on
// nonsense.
void take_line(const std::string& line, Audit& audit, Arrivals& arrivals) {
  const Json record = Json::parse(line);
  const Duration at = time_of(record, "t_ms");
  const auto status = record.at("status").get<unsigned>();
  ++audit.calls;
  audit.ok += status == 200 && !record.contains("fault");
  audit.rejected_429 += status == 429 && !record.contains("fault");
  audit.violations += record.contains("leaks");
  if (!record.contains("charged")) return;
  arrivals.calls.push_back({at, record.at("charged").get<std::uint64_t>(), record.value("key", "")});
  // Each of the three is cut to microseconds: together they are at most one more than the start.
  if (record.contains("ended_unix_ms"))
    arrivals.started_unix = std::chrono::floor<std::chrono::milliseconds>(time_of(record, "ended_unix_ms") -
                                                                          time_of(record, "latency_ms") - at);
}

}  // namespace

PeakMeter::Spans spans_of(WindowKind window) {
  if (window == WindowKind::fixed) return PeakMeter::Spans::fixed;
  return window == WindowKind::clock ? PeakMeter::Spans::clock : PeakMeter::Spans::any;
}

std::string to_line(const CallRecord& record) {
  std::string line = "{\"t_ms\":" + milliseconds(record.at);
  line += ",\"path\":" + quoted_text(record.path);
  line += ",\"status\":" + std::to_string(record.status);
  line += ",\"end\":" + quoted_text(record.end);
  if (record.stream) line += ",\"stream\":true";
  line += ",\"model\":" + quoted_text(record.model);
  line += ",\"prompt_tokens\":" + std::to_string(record.prompt_tokens);
  line += ",\"completion_tokens\":" + std::to_string(record.completion_tokens);
  line += ",\"latency_ms\":" + milliseconds(record.latency);
  line += ",\"ended_unix_ms\":" + milliseconds(record.ended_unix);
  line += ",\"sent\":" + std::to_string(record.sent);
  if (record.charged) line += ",\"charged\":" + std::to_string(*record.charged);
  if (!record.fault.empty()) line += ",\"fault\":" + quoted_text(record.fault);
  if (!record.leaks.empty()) {
    line += ",\"leaks\":[";
    for (const std::string& leak : record.leaks)
      line += (line.back() == '[' ? "" : ",") + quoted_text(leak);
    line += "]";
  }
  if (!record.service_tier.empty()) line += ",\"service_tier\":" + quoted_text(record.service_tier);
  if (!record.job.empty()) line += ",\"job\":" + quoted_text(record.job);
  if (!record.key.empty()) line += ",\"key\":" + quoted_text(record.key);
  return line + ",\"body\":\"" + hex(record.body_hash) + "\"}";
}

CallLog::CallLog(const std::string& path) : path_(path), file_(path, std::ios::trunc | std::ios::binary) {
  if (!file_)
    throw std::runtime_error("cannot write the log " + path_ + "; name a file in a directory that exists");
}

void CallLog::append(const CallRecord& record) {
  buffer_ += to_line(record);
  buffer_ += '\n';
  if (buffer_.size() > kBufferBytesMax) flush();
}

void CallLog::flush() {
  if (buffer_.empty()) return;
  file_ << buffer_ << std::flush;
  if (!file_) throw std::runtime_error("cannot write the log " + path_ + "; is the disk full?");
  buffer_.clear();
}

tl::expected<Audit, std::string> audit(std::istream& log, WindowKind window, Duration period) {
  Audit audit;
  Arrivals arrivals;
  std::string line;
  for (std::uint64_t number = 1; std::getline(log, line); ++number) {
    if (log.eof()) {
      audit.torn = true;
      break;
    }
    try {
      take_line(line, audit, arrivals);
    } catch (const Json::exception& error) {
      return tl::unexpected("line " + std::to_string(number) + " is no record of a call: " + error.what());
    }
  }
  // Lines stand in the order in which calls ended; the limits go by when they arrived.
  std::stable_sort(arrivals.calls.begin(), arrivals.calls.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  const PeakMeter unused(period, spans_of(window), arrivals.started_unix);
  std::map<std::string, PeakMeter> peaks;
  for (const Arrival& arrival : arrivals.calls)
    peaks.try_emplace(arrival.key, unused).first->second.add(arrival.at, arrival.tokens);
  audit.accepted = arrivals.calls.size();
  for (const auto& [key, peak] : peaks) {
    audit.peak_calls = std::max(audit.peak_calls, peak.calls());
    audit.peak_tokens = std::max(audit.peak_tokens, peak.tokens());
  }
  return audit;
}

}  // namespace lanemq::upstream
