// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::cli {

/// The exit code of `lanemq check` is the worst one's number.
enum class Severity : unsigned char { fine = 0, warning = 1, critical = 2 };
std::string_view name_of(Severity severity);

/// What one check found out.
struct Finding {
  std::string_view check;
  Severity severity = Severity::fine;
  std::string says;       ///< one sentence, without its full stop; safe for a terminal
  std::string next_step;  ///< what to do; empty: nothing
};

/// What is asked of a broker or a gateway.
enum class Check : unsigned char {
  ready,
  version,
  clock,
  store,
  bank,
  descriptors,
  memory,
  services,
  upstreams,
  keys,
  lanes,
  webhooks,
  dead,
  gateway,
  certificate
};

struct CheckInfo {
  Check check;
  std::string_view name;
  std::string_view sentence;
};
/// All checks, in the order in which they are printed.
const std::vector<CheckInfo>& check_table();
std::string_view name_of(Check check);

/// Bounds beyond which a check warns.
struct CheckBounds {
  std::chrono::milliseconds oldest{std::chrono::minutes(10)};    ///< of a job that waits
  std::chrono::milliseconds dead_within{std::chrono::hours(1)};  ///< a job that died so lately is told
};

/// The broker's clock, and how far it is ahead of this machine's; the way there and back makes that unsure.
struct ClockFacts {
  std::chrono::milliseconds ahead{0}, round_trip{0};
};

/// Dead jobs of the last time, CheckBounds::dead_within, and all that are kept.
struct DeadFacts {
  std::uint64_t recent = 0, all = 0;
  bool at_least = false;  ///< not all were counted
};

/// What was seen of a gateway, or of what answers in its place.
struct GatewayFacts {
  std::string url;
  std::string why_not;  ///< why there was no answer of HTTP; empty: there was one
  int status = 0;
  std::string body;
  bool encrypted = false;
  std::optional<std::chrono::seconds> certificate_left{};  ///< of the first certificate that ends
  std::string distrust;  ///< why this machine does not trust it; empty: it does
};

// What the facts mean. Pure; a document is JSON, as docs/protocol/operating.md has it. A broker of another
// version may lack fields: a finding then says that the broker does not tell.
Finding judge_version(std::string_view broker, std::string_view ours);
Finding judge_clock(const ClockFacts& clock);
/// One of the checks that read the broker's statistics.
std::vector<Finding> judge_stats(Check check, const std::string& stats, const CheckBounds& bounds);
Finding judge_dead(const DeadFacts& dead, const CheckBounds& bounds);
Finding judge_gateway(const GatewayFacts& gateway);
Finding judge_certificate(const GatewayFacts& gateway);

/// The findings for people, a line each, and as one line of JSON.
std::string findings_text(const std::vector<Finding>& findings);
std::string findings_json(const std::vector<Finding>& findings);
Severity worst_of(const std::vector<Finding>& findings);

}  // namespace lanemq::cli
