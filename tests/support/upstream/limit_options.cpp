// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/limit_options.hpp"

#include <cmath>
#include <map>

namespace lanemq::upstream {
namespace {

using CLI::ValidationError;

const std::map<std::string, WindowKind> kWindows = {{"sliding", WindowKind::sliding},
                                                    {"bucket", WindowKind::bucket},
                                                    {"fixed", WindowKind::fixed},
                                                    {"clock", WindowKind::clock}};
const std::map<std::string, Tongue> kTongues = {
    {"openai", Tongue::openai}, {"anthropic", Tongue::anthropic}, {"gemini", Tongue::gemini},
    {"azure", Tongue::azure},   {"deepseek", Tongue::deepseek},   {"openrouter", Tongue::openrouter},
    {"groq", Tongue::groq},     {"ietf", Tongue::ietf},           {"none", Tongue::none}};
const std::map<std::string, Tells> kTells = {
    {"all", Tells::all}, {"retry-after", Tells::retry_after}, {"none", Tells::none}};

constexpr const char* kInTime = "; N,N@SECOND,... changes it in time, like ";

double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Changing read_number(const char* option, const std::string& text, std::uint64_t most) {
  if (text.empty()) return {};
  auto number = parse_changing(text, most);
  if (!number) throw ValidationError(option, number.error());
  return *std::move(number);
}

void check_rules(const Quota& quota) {
  if (quota.window != WindowKind::bucket && (quota.burst_requests || quota.burst_tokens))
    throw ValidationError("--burst", "a window has no burst; add --window bucket");
  for (const Crowd& crowd : quota.others)
    if (crowd.kind == Crowd::Kind::half && !quota.requests && !quota.tokens)
      throw ValidationError("--others", "half of which limit? Add --rpm or --tpm, or name a pace, like 12/s");
}

}  // namespace

void add_limit_options(CLI::App& app, LimitOptions& limits, UpstreamOptions& upstream) {
  Quota& quota = upstream.quota;
  app.add_option(
         "--rpm", limits.rpm,
         std::string("Calls per period, at most 4000000; absent: no limit") + kInTime + "600,300@30,600@60")
      ->option_text("N");
  app.add_option("--tpm", limits.tpm,
                 "Tokens per period, at most 100000000, charged at arrival as prompt bytes / 4 + max_tokens "
                 "(512 if absent); absent: no limit; changes in time as --rpm")
      ->option_text("N");
  app.add_option("--period", limits.period_s, "Length of the period, in seconds, to the millisecond")
      ->check(CLI::Range(in_seconds(kPeriodMin), in_seconds(kPeriodMax)))
      ->capture_default_str();
  app.add_option(
         "--window", quota.window,
         "sliding: at most the limit in any span of the period. bucket: refilled continuously by limit / "
         "period. fixed: periods, each from the first call behind the end of the last. clock: whole "
         "periods of the wall clock since 1970")
      ->transform(CLI::CheckedTransformer(kWindows))
      ->option_text("sliding|bucket|fixed|clock=sliding");
  app.add_option("--burst", quota.burst_requests, "Calls the bucket holds; absent: rpm / 10, at least 1")
      ->check(CLI::Range(std::uint64_t{1}, kRequestsMax));
  app.add_option("--burst-tokens", quota.burst_tokens, "Tokens the bucket holds; absent: tpm")
      ->check(CLI::Range(std::uint64_t{1}, kTokensMax));
  app.add_option(
         "--at-once", limits.at_once,
         std::string("Calls under way at once, at most 100000; the next is refused; absent: no limit") +
             kInTime + "40,20@30,40@60")
      ->option_text("N");
  app.add_option(
         "--slope", quota.slope,
         "Factor by which the pace may rise: the calls of the last second are at most this times those "
         "of the second before it, or --slope-floor if that is more; absent: no limit")
      ->check(CLI::Range(1.0, kSlopeFactorMax));
  app.add_option("--slope-floor", quota.slope_floor, "Calls of a second that no slope refuses")
      ->check(CLI::Range(std::uint64_t{1}, kRequestsMax))
      ->capture_default_str();
  app.add_option(
         "--speaks", upstream.speaks,
         "In whose words it tells of limits: the headers of all answers, and what a refusal by a limit "
         "looks like; none: a bare 429; absent: OpenAI's or Anthropic's, by endpoint")
      ->transform(CLI::CheckedTransformer(kTongues))
      ->option_text("openai|anthropic|gemini|azure|deepseek|openrouter|groq|ietf|none");
  app.add_option("--tells", upstream.tells,
                 "How much of these words. all: all. retry-after: Retry-After on refusals, in whole seconds, "
                 "and nothing else. none: nothing")
      ->transform(CLI::CheckedTransformer(kTells))
      ->option_text("all|retry-after|none=all");
  app.add_option(
         "--others", limits.others,
         "Who else calls on the same account (on that of each key), as asks that count and need no HTTP: "
         "12/s evenly, half: half the pace of --rpm or --tpm, burst:300/20s: 300 at once each 20 s, "
         "day:5..12/s/120s: between two paces and back within 120 s. @FROM..TO behind it: in these seconds "
         "alone, like 12/s@0..60, half@30.. Several are separated by commas. They take what they get")
      ->option_text("WHO");
  app.add_option("--others-tokens", quota.others_tokens, "Tokens of each of their calls")
      ->check(CLI::Range(std::uint64_t{1}, kTokensMax))
      ->capture_default_str();
  app.add_option("--others-ms", limits.others_hold_ms,
                 "How long each of their calls is under way, for --at-once, in ms")
      ->check(CLI::Range(0.0, in_seconds(kOthersHoldMax) * 1000))
      ->capture_default_str();
}

void read_limits(const LimitOptions& limits, UpstreamOptions& upstream) {
  Quota& quota = upstream.quota;
  quota.requests = read_number("--rpm", limits.rpm, kRequestsMax);
  quota.tokens = read_number("--tpm", limits.tpm, kTokensMax);
  quota.at_once = read_number("--at-once", limits.at_once, kAtOnceMax);
  quota.period = std::chrono::milliseconds(std::llround(limits.period_s * 1000));
  quota.others_hold = Duration(std::llround(limits.others_hold_ms * 1e6));
  if (!limits.others.empty()) {
    auto crowds = parse_others(limits.others);
    if (!crowds) throw ValidationError("--others", crowds.error());
    quota.others = *std::move(crowds);
  }
  check_rules(quota);
}

}  // namespace lanemq::upstream
