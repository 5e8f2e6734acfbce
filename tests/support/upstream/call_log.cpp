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
#include "tests/support/upstream/peak.hpp"

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

// Adds one line to the audit, and to the arrivals if the call was accepted. Throws Json::exception on
// nonsense.
void take_line(const std::string& line, Audit& audit, std::vector<Arrival>& arrivals) {
  const Json record = Json::parse(line);
  const auto at = std::chrono::microseconds(std::llround(record.at("t_ms").get<double>() * 1000));
  const auto status = record.at("status").get<unsigned>();
  ++audit.calls;
  audit.ok += status == 200 && !record.contains("fault");
  audit.rejected_429 += status == 429 && !record.contains("fault");
  audit.violations += record.contains("leaks");
  if (record.contains("charged"))
    arrivals.push_back({at, record.at("charged").get<std::uint64_t>(), record.value("key", "")});
}

}  // namespace

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

tl::expected<Audit, std::string> audit(std::istream& log) {
  Audit audit;
  std::vector<Arrival> arrivals;
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
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  std::map<std::string, PeakMeter> peaks;
  for (const Arrival& arrival : arrivals)
    peaks[arrival.key].add(arrival.at, arrival.tokens);
  audit.accepted = arrivals.size();
  for (const auto& [key, peak] : peaks) {
    audit.peak_calls_60s = std::max(audit.peak_calls_60s, peak.calls());
    audit.peak_tokens_60s = std::max(audit.peak_tokens_60s, peak.tokens());
  }
  return audit;
}

}  // namespace lanemq::upstream
