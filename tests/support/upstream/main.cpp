// SPDX-License-Identifier: Apache-2.0
// lanemq-upstream: OpenAI's and Anthropic's APIs with strict limits and deliberate faults, for tests and
// demonstrations.
#include <charconv>
#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include <lanemq/version.hpp>

#include "common/settings/help/help_formatter.hpp"
#include "tests/support/upstream/call_log.hpp"
#include "tests/support/upstream/limit_options.hpp"
#include "tests/support/upstream/server.hpp"
#include "tests/support/upstream/upstream.hpp"

namespace {

using namespace lanemq::upstream;

constexpr double kWaitMsMax = 3'600'000;

constexpr const char* kFooter =
    R"(Serves, and when it does prints one line, ready http://ADDRESS:PORT:
  OpenAI     POST /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses
  Anthropic  POST /v1/messages, /v1/messages/count_tokens; they need anthropic-version
  free       GET /v1/models and /v1/models/ID (in Anthropic's form with anthropic-version), /healthz, /stats
  keys       POST /admin/keys/NAME: {"dead":true} has that key answered 401 from then on, {"dead":"quota"} 429
             insufficient_quota, {"dead":false} as usual again
  tests      POST /admin/release: {"model":"m+hold"} lets the calls for this model go on, and those to come
Equal prompts get equal answers. What has a schema gets JSON that fits it. The first tool is called, once a turn; where
the prompt says
  upstream: call write_file {"path": "a.txt"}
the tool of that name is called with these arguments; where there is none of that name, none is.
400 for what a gateway must not pass on: parameters that the API does not know, @ in the model's name, the header fields
x-lanemq-* (but -job and -attempt), x-priority and x-stainless-*.
What follows a + in the model's name changes that call alone, like gpt-x+tokens=20+reset=120 or gpt-x+status=529+first=1:
)";
constexpr const char* kFooterEnd =
    R"(SIGTERM and SIGINT end it. Exit codes: 0 done, 1 the check or the log failed, 2 usage, 3 cannot listen.)";

enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2, kCannotListen = 3 };

struct Options {
  UpstreamOptions upstream;
  LimitOptions limits;
  ServerOptions server;
  std::string latency_ms = "20..200";
  double token_ms = 0;
  double stall_ms = 30'000;
  std::vector<std::string> keys;
  bool allow_sdk_headers = false;
  std::string log;
  std::string check;
};

bool read_number(std::string_view text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Duration milliseconds(double count) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(count));
}

/// A..B, or A alone for a constant, in milliseconds. Throws CLI::ValidationError.
LatencyRange parse_latency(std::string_view text) {
  const auto dots = text.find("..");
  double shortest = 0;
  double longest = 0;
  const bool read = read_number(text.substr(0, dots), shortest) &&
                    read_number(dots == text.npos ? text : text.substr(dots + 2), longest);
  if (!read || !(0 <= shortest && shortest <= longest && longest <= kWaitMsMax)) {
    throw CLI::ValidationError("--latency-ms", "\"" + std::string(text) +
                                                   "\" is no range; give A..B in milliseconds with "
                                                   "0 <= A <= B <= 3600000, like 20..200");
  }
  return {.shortest = milliseconds(shortest), .longest = milliseconds(longest)};
}

/// NAME=SECRET, or SECRET alone, which then is the name too. Throws CLI::ValidationError.
std::vector<ApiKey> parse_keys(const std::vector<std::string>& texts) {
  std::vector<ApiKey> keys;
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::string secret = equals == std::string::npos ? text : text.substr(equals + 1);
    bool fits = !name.empty() && !secret.empty();
    for (const ApiKey& other : keys)
      fits = fits && other.name != name && other.secret != secret;
    if (!fits) throw CLI::ValidationError("--keys", "give SECRET or NAME=SECRET, each name and secret once");
    keys.push_back({.name = name, .secret = secret});
  }
  return keys;
}

/// Every option is one row: name, where it goes, one sentence with the unit, what is allowed.
void add_options(CLI::App& app, Options& options) {
  FaultRates& faults = options.upstream.faults;
  const CLI::Range rate(0.0, 1.0);

  app.add_option("--listen", options.server.listen, "Numeric address and port; port 0 picks one")
      ->capture_default_str();
  add_limit_options(app, options.limits, options.upstream);
  app.add_option("--latency-ms", options.latency_ms,
                 "Time to answer, A..B (log-normal) or A (constant), in ms")
      ->capture_default_str();
  app.add_option("--token-ms", options.token_ms, "Time between the deltas of a stream, in ms")
      ->check(CLI::Range(0.0, kWaitMsMax))
      ->capture_default_str();
  app.add_option("--seed", options.upstream.seed, "Seed of latencies, answers and faults")
      ->capture_default_str();
  app.add_option("--fault-5xx", faults.http_5xx, "Share of accepted calls answered 500, 502 or 503")
      ->check(rate);
  app.add_option("--fault-reset", faults.reset, "Share of accepted calls reset in mid-answer")->check(rate);
  app.add_option("--fault-stall", faults.stall, "Share of accepted calls that get no answer")->check(rate);
  app.add_option("--fault-half", faults.half, "Share of accepted calls with half a body")->check(rate);
  app.add_option("--stall-ms", options.stall_ms, "When a stalled call's connection closes, in ms")
      ->check(CLI::Range(0.0, kWaitMsMax))
      ->capture_default_str();
  app.add_option(
         "--keys", options.keys,
         "Keys that calls must carry, else 401: SECRET or NAME=SECRET, separate by comma; each has all "
         "limits for itself; absent: none needed")
      ->delimiter(',');
  app.add_flag("--allow-sdk-headers", options.allow_sdk_headers,
               "x-stainless-* are no violation: for SDKs that call the double itself");
  app.add_option("--max-connections", options.server.connections_max,
                 "Open connections; further ones are closed")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--body-limit", options.server.body_bytes_max, "Largest request body, in bytes, else 413")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--log", options.log, "File for one JSON line per call; begun anew");
  app.add_option(
      "--check", options.check,
      "Do not serve: read this log and tell its peaks by --window and --period; exit 1 on a violation "
      "and, with --rpm or --tpm, if they exceed it (the largest, where it changes; a bucket's and its "
      "burst) or on any 429");
  app.footer(kFooter + model_faults_help() + kFooterEnd);
}

void check_rules(const Options& options) {
  const FaultRates& faults = options.upstream.faults;
  if (faults.http_5xx + faults.reset + faults.stall + faults.half > 1) {
    throw CLI::ValidationError("--fault-*", "the shares add up to more than 1");
  }
}

/// How much of a limit any period may hold: a bucket passes its limit and what it held when that began.
std::uint64_t most_of(const Changing& limit, const Quota& quota,
                      Allowance (Quota::*allow)(std::uint64_t) const) {
  const std::uint64_t most = limit.largest();
  return quota.window == WindowKind::bucket ? most + (quota.*allow)(most).capacity : most;
}

int check(const std::string& path, const Quota& quota) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::cerr << "lanemq-upstream: cannot read the log " << path << "; name one written with --log\n";
    return kUsage;
  }
  const auto result = audit(file, quota.window, quota.period);
  if (!result) {
    std::cerr << "lanemq-upstream: " << path << ": " << result.error() << "\n";
    return kFailed;
  }
  std::cout << "calls " << result->calls << "  accepted " << result->accepted << "  ok " << result->ok
            << "  429s " << result->rejected_429 << "  " << peak_name("calls", quota.period) << " "
            << result->peak_calls << "  " << peak_name("tokens", quota.period) << " " << result->peak_tokens
            << "  violations " << result->violations << (result->torn ? "  (last line torn, left out)" : "")
            << "\n";
  const bool calls_exceeded =
      quota.requests && result->peak_calls > most_of(quota.requests, quota, &Quota::allow_requests);
  const bool tokens_exceeded =
      quota.tokens && result->peak_tokens > most_of(quota.tokens, quota, &Quota::allow_tokens);
  const bool judged = quota.requests || quota.tokens;
  const bool over = judged && (calls_exceeded || tokens_exceeded || result->rejected_429);
  return over || result->violations ? kFailed : kDone;
}

int serve(const Options& options) {
  std::optional<CallLog> log;
  if (!options.log.empty()) log.emplace(options.log);
  Upstream upstream(options.upstream, Clock::now(), [&](const CallRecord& record) {
    if (log) log->append(record);
  });
  Server server(upstream, log ? &*log : nullptr, options.server);
  std::cout << "ready " << server.url() << std::endl;
  server.run();
  return kDone;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "A strict stand-in for OpenAI and Anthropic: limits, latency, streams, faults, and a log of what it "
      "saw.",
      "lanemq-upstream");
  app.formatter(lanemq::settings::help_formatter());
  app.set_version_flag("--version", std::string("lanemq-upstream ") + lanemq::version());
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
    check_rules(options);
    read_limits(options.limits, options.upstream);
    options.upstream.latency = parse_latency(options.latency_ms);
    options.upstream.keys = parse_keys(options.keys);
    options.upstream.stall = milliseconds(options.stall_ms);
    if (options.allow_sdk_headers) options.upstream.sdk_headers = SdkHeaders::allowed;
    options.upstream.token_gap = milliseconds(options.token_ms);
    // Whole milliseconds: from a log, which is cut to microseconds, the start is read exactly.
    options.upstream.started_unix =
        std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now()).time_since_epoch();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  try {
    return options.check.empty() ? serve(options) : check(options.check, options.upstream.quota);
  } catch (const ListenError& error) {
    std::cerr << "lanemq-upstream: " << error.what() << "\n";
    return kCannotListen;
  } catch (const std::exception& error) {
    std::cerr << "lanemq-upstream: " << error.what() << "\n";
    return kFailed;
  }
}
