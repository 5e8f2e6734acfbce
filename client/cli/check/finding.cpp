// SPDX-License-Identifier: Apache-2.0
#include "client/cli/check/finding.hpp"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include <lanemq/text.hpp>

#include "client/cli/text/terminal.hpp"
#include "common/explanation/explanation.hpp"
#include "common/explanation/unserved.hpp"
#include "common/settings/secrets/secret_shapes.hpp"

namespace lanemq::cli {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

/// A use beyond these parts of a bound is a warning, and critical.
constexpr double kMuch = 0.8, kNearlyAll = 0.95;
/// How far clocks may be apart.
constexpr milliseconds kSkewMax{1'000};
constexpr std::chrono::hours kCertificateSoon{30 * 24};
/// Names that one sentence lists.
constexpr std::size_t kNamesMax = 8;
/// Of what a stranger said.
constexpr std::size_t kSaidBytesMax = 200;
/// The disk is called nearly full when it has less than so many times the store's reserve.
constexpr std::int64_t kReservesWanted = 4;

const Json& part(const Json& object, std::string_view name) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  const auto at = object.find(name);
  return at == object.end() ? kNone : *at;
}

std::string text_of(const Json& object, std::string_view name) {
  const Json& value = part(object, name);
  return value.is_string() ? printable(value.get<std::string>(), kSaidBytesMax) : std::string();
}

std::optional<std::int64_t> number_of(const Json& object, std::string_view name) {
  const Json& value = part(object, name);
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

std::string mib(std::int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1024.0 * 1024.0);
  char text[32];
  if (mebibytes < 10'240)
    std::snprintf(text, sizeof text, "%.1f MiB", mebibytes);
  else
    std::snprintf(text, sizeof text, "%.1f GiB", mebibytes / 1024.0);
  return text;
}

/// Names with commas; of many the first ones.
class Names {
 public:
  void add(const std::string& name) {
    if (++count_ <= kNamesMax) text_ += (count_ > 1 ? ", " : "") + name;
  }
  std::size_t count() const { return count_; }
  std::string text() const {
    return text_ + (count_ > kNamesMax ? " and " + std::to_string(count_ - kNamesMax) + " more" : "");
  }

 private:
  std::string text_;
  std::size_t count_ = 0;
};

Finding not_told(Check check, std::string_view what) {
  return {.check = name_of(check), .says = "this broker does not tell " + std::string(what), .next_step = {}};
}

Severity severity_of(double use) {
  return use >= kNearlyAll ? Severity::critical : use >= kMuch ? Severity::warning : Severity::fine;
}

std::string percent(double use) {
  return std::to_string(static_cast<int>(use * 100)) + " %";
}

// ---- the store ----------------------------------------------------------------------------------------

Finding judge_store(const Json& stats) {
  const Json& store = part(stats, "store");
  const std::string state = text_of(store, "state"), kind = text_of(store, "kind");
  if (state.empty()) return not_told(Check::store, "how its store is");
  Finding found{.check = name_of(Check::store), .says = {}, .next_step = {}};
  if (kind == "memory") {
    found.says = "jobs are in memory alone and end with the broker (--store memory)";
    return found;
  }
  const std::optional<std::int64_t> file = number_of(store, "file_bytes"),
                                    free = number_of(store, "disk_free_bytes"),
                                    reserve = number_of(store, "reserve_bytes");
  const std::string room = (file ? ", " + mib(*file) : "") + (free ? ", " + mib(*free) + " free" : "");
  found.says = "the store is " + state + room;
  if (state == "full" || state == "failed" || state == "stalled" || state == "unsafe" || state == "gone") {
    found.severity = Severity::critical;
    found.next_step = state == "full"     ? "make room on its disk; durable jobs are refused until then"
                      : state == "failed" ? "look at the broker's log and start it again"
                      : state == "gone" ? "its files were removed or replaced: save what is open with lanemq "
                                          "backup FILE; the broker's log says what to do"
                      : state == "unsafe"
                          ? "name synchronous standbys at its database, or see store_replication: durable "
                            "jobs are refused until then"
                          : "look at its disk: durable jobs wait for it";
  } else if (state != "good") {
    found.severity = Severity::warning;
    found.next_step = "its disk is slower than what comes; send less, or give it a faster one";
  } else if (free && reserve && *free < *reserve * kReservesWanted) {
    found.severity = Severity::warning;
    found.next_step = "make room on its disk: at " + mib(*reserve) + " the broker refuses durable jobs";
  }
  return found;
}

// ---- bounds -------------------------------------------------------------------------------------------

Finding judge_use(Check check, std::string_view what, std::optional<std::int64_t> used,
                  std::optional<std::int64_t> bound, std::string next_step) {
  if (!used || !bound || *bound <= 0) return not_told(check, what);
  const double use = static_cast<double>(*used) / static_cast<double>(*bound);
  Finding found{.check = name_of(check), .severity = severity_of(use), .says = {}, .next_step = {}};
  found.says = std::string(what) + ": " + percent(use) + " in use";
  if (found.severity != Severity::fine) found.next_step = std::move(next_step);
  return found;
}

Finding judge_descriptors(const Json& stats) {
  const Json& files = part(stats, "descriptors");
  Finding found =
      judge_use(Check::descriptors, "its descriptors", number_of(files, "used"), number_of(files, "limit"),
                "raise LimitNOFILE, or ulimit -n, and start it again: without descriptors it "
                "takes no connections");
  if (const auto limit = number_of(files, "limit"))
    found.says += " of " + grouped(static_cast<std::uint64_t>(*limit));
  return found;
}

Finding judge_memory(const Json& stats) {
  const auto bound = number_of(stats, "memory_max");
  Finding found =
      judge_use(Check::memory, "its room for jobs and answers", number_of(stats, "memory_bytes"), bound,
                "jobs are refused when it is full; see lanemq lanes for what waits, or raise memory_max");
  if (bound && *bound > 0) found.says += " of " + mib(*bound) + " (memory_max)";
  return found;
}

// ---- who serves ---------------------------------------------------------------------------------------

Finding judge_services(const Json& stats) {
  Finding found{.check = name_of(Check::services), .says = {}, .next_step = {}};
  const auto connected = number_of(part(stats, "workers"), "connected");
  Names unserved;
  for (const auto& [name, service] : part(stats, "unserved").items())
    unserved.add(lanemq::name_of(Unserved{.service = name,
                                          .lane = text_of(service, "lane"),
                                          .draining = part(service, "draining") == true}) +
                 " (" + std::to_string(number_of(service, "queued").value_or(0)) + ")");
  if (unserved.count() > 0) {
    found.severity = Severity::critical;
    found.says = "no worker serves " + unserved.text() + ", and jobs wait";
    found.next_step =
        "start a worker with --service that takes the lane, or look for a slip of the pen: lanemq jobs "
        "--service NAME";
  } else if (connected == 0) {
    found.severity = Severity::warning;
    found.says = "no worker is connected";
    found.next_step = "start one: lanemq-worker --service NAME=...";
  } else {
    found.says =
        "every service with jobs has a worker" +
        (connected ? "; " + grouped(static_cast<std::uint64_t>(*connected)) + " connected" : std::string());
  }
  return found;
}

Finding judge_upstreams(const Json& stats) {
  Names open;
  for (const auto& [name, service] : part(stats, "upstreams").items())
    if (const std::string state = text_of(service, "breaker"); state == "open" || state == "half_open")
      open.add(printable(name) + " (" + state + ")");
  if (open.count() == 0)
    return {.check = name_of(Check::upstreams),
            .says = "no upstream is left alone for its failures",
            .next_step = {}};
  return {.check = name_of(Check::upstreams),
          .severity = Severity::warning,
          .says = "calls fail, and the broker leaves these alone for now: " + open.text(),
          .next_step = "look at the upstream and at the workers' logs; lanemq services says more"};
}

Finding judge_keys(const Json& stats) {
  Names spent, lost;
  std::size_t keys = 0;
  for (const auto& [budget, its_keys] : part(stats, "keys").items()) {
    if (!its_keys.is_object()) continue;
    std::size_t usable = 0, its_spent = 0;
    for (const auto& [name, key] : its_keys.items()) {
      ++keys;
      const std::string state = text_of(key, "state");
      if (state == "active") ++usable;
      if (state != "spent") continue;
      ++its_spent;
      spent.add(printable(budget) + "/" + printable(name));
    }
    if (usable == 0 && its_spent > 0) lost.add(printable(budget));
  }
  Finding found{.check = name_of(Check::keys), .says = {}, .next_step = {}};
  if (spent.count() == 0) {
    found.says = keys == 0 ? "no budget has keys" : "no key of a budget rests";
    return found;
  }
  found.severity = lost.count() > 0 ? Severity::critical : Severity::warning;
  found.says = "keys that are refused or out of money rest: " + spent.text() +
               (lost.count() > 0 ? "; no other is left for " + lost.text() : "");
  found.next_step = "pay, or replace them, then lanemq reload; lanemq limits --state spent says for how long";
  return found;
}

Finding judge_lanes(const Json& stats, const CheckBounds& bounds) {
  Names old;
  for (const auto& [name, lane] : part(stats, "lanes").items())
    if (const auto oldest = number_of(lane, "oldest_ms"); oldest && milliseconds(*oldest) > bounds.oldest)
      old.add(printable(name) + " (" + short_duration(milliseconds(*oldest)) + ")");
  Finding found{.check = name_of(Check::lanes),
                .says = "no job waits for longer than " + short_duration(bounds.oldest),
                .next_step = {}};
  const Json& paused = part(stats, "paused");
  if (paused.is_array() && !paused.empty()) {
    Names names;
    for (const Json& one : paused)
      if (one.is_string()) names.add(printable(one.get<std::string>(), kSaidBytesMax));
    found.says += "; paused: " + names.text();
  }
  if (old.count() == 0) return found;
  found.severity = Severity::warning;
  found.says = "jobs wait for longer than " + short_duration(bounds.oldest) + " in " + old.text();
  found.next_step = "lanemq explain ID says what one waits for, lanemq jobs --state queued which there are";
  return found;
}

Finding judge_webhooks(const Json& stats) {
  const auto refused = number_of(part(stats, "counters"), "webhooks_refused").value_or(0);
  Finding found{.check = name_of(Check::webhooks),
                .says = "since the broker's start no job that tells of an end was refused (notify)",
                .next_step = {}};
  if (refused == 0) return found;
  found.severity = Severity::warning;
  found.says = "since the broker's start " + grouped(static_cast<std::uint64_t>(refused)) +
               (refused == 1 ? " end was" : " ends were") +
               " told to nobody, since the jobs for that were refused";
  found.next_step = "webhook.refused in the broker's log says which and why";
  return found;
}

/// Nothing where the broker has no bank.
std::vector<Finding> judge_bank(const Json& stats) {
  const std::string state = text_of(part(stats, "bank"), "state");
  if (state.empty()) return {};
  Finding found{.check = name_of(Check::bank), .says = "the bank is " + printable(state), .next_step = {}};
  if (state != "good") {
    found.severity = Severity::warning;
    found.says += ", and jobs of budgets that shards share wait";
    found.next_step = "look at the database of the broker's bank; bank.away in its log says why";
  }
  return {found};
}

std::string in_days(std::chrono::seconds time) {
  const auto days = std::chrono::duration_cast<std::chrono::hours>(time).count() / 24;
  return days == 1 ? "1 day" : std::to_string(days) + " days";
}

}  // namespace

// ---- the table ----------------------------------------------------------------------------------------

const std::vector<CheckInfo>& check_table() {
  static const std::vector<CheckInfo> kChecks{
      {Check::ready, "ready", "the endpoints for clients, workers and operators answer"},
      {Check::version, "version", "the broker's version is this program's"},
      {Check::clock, "clock", "the broker's clock goes with this machine's"},
      {Check::store, "store", "the store is good, and its disk has room"},
      {Check::bank, "bank", "the bank answers, where shards share budgets"},
      {Check::descriptors, "descriptors", "descriptors in use, against their limit"},
      {Check::memory, "memory", "memory in use, against memory_max"},
      {Check::services, "services", "a worker for every service that has jobs"},
      {Check::upstreams, "upstreams", "no circuit breaker is open"},
      {Check::keys, "keys", "no key of an upstream rests"},
      {Check::lanes, "lanes", "no job waits for longer than --oldest"},
      {Check::webhooks, "webhooks", "everybody was told who was to hear of an end"},
      {Check::dead, "dead", "no job died within --dead-within"},
      {Check::gateway, "gateway", "the gateway of --gateway is ready"},
      {Check::certificate, "certificate", "its certificate is good for 30 days or more"},
  };
  return kChecks;
}

std::string_view name_of(Check check) {
  return check_table()[static_cast<std::size_t>(check)].name;
}

std::string_view name_of(Severity severity) {
  return severity == Severity::fine ? "fine" : severity == Severity::warning ? "warning" : "critical";
}

// ---- judging ------------------------------------------------------------------------------------------

Finding judge_version(std::string_view broker, std::string_view ours) {
  Finding found{.check = name_of(Check::version),
                .says = "the broker has version " + printable(broker),
                .next_step = {}};
  if (broker == ours) return found;
  found.severity = Severity::warning;
  found.says += ", this program " + std::string(ours);
  found.next_step = "install the same version of all programs";
  return found;
}

Finding judge_clock(const ClockFacts& clock) {
  const milliseconds apart = clock.ahead < milliseconds(0) ? -clock.ahead : clock.ahead;
  Finding found{
      .check = name_of(Check::clock), .says = "the broker's clock goes with this machine's", .next_step = {}};
  if (apart <= kSkewMax + clock.round_trip / 2) return found;
  found.severity = Severity::warning;
  found.says = "the broker's clock is " + short_duration(apart) +
               (clock.ahead > milliseconds(0) ? " ahead of" : " behind") + " this machine's";
  found.next_step = "set both by NTP; the times of logs and of certificates go by them, deadlines do not";
  return found;
}

std::vector<Finding> judge_stats(Check check, const std::string& text, const CheckBounds& bounds) {
  const Json stats = Json::parse(text, nullptr, false);
  if (!stats.is_object())
    return {{.check = name_of(check),
             .severity = Severity::critical,
             .says = "the broker's statistics cannot be read",
             .next_step = "see them with lanemq stats --json"}};
  switch (check) {
    case Check::store:
      return {judge_store(stats)};
    case Check::bank:
      return judge_bank(stats);
    case Check::descriptors:
      return {judge_descriptors(stats)};
    case Check::memory:
      return {judge_memory(stats)};
    case Check::services:
      return {judge_services(stats)};
    case Check::upstreams:
      return {judge_upstreams(stats)};
    case Check::keys:
      return {judge_keys(stats)};
    case Check::lanes:
      return {judge_lanes(stats, bounds)};
    case Check::webhooks:
      return {judge_webhooks(stats)};
    default:
      return {};
  }
}

Finding judge_dead(const DeadFacts& dead, const CheckBounds& bounds) {
  const std::string time = short_duration(bounds.dead_within), all = grouped(dead.all) + " are kept";
  if (dead.recent == 0)
    return {.check = name_of(Check::dead),
            .says = "no job died in the last " + time + "; " + all,
            .next_step = {}};
  return {.check = name_of(Check::dead),
          .severity = Severity::warning,
          .says = (dead.at_least ? "at least " : "") + grouped(dead.recent) + " died in the last " + time +
                  "; " + all,
          .next_step = "lanemq dead says of what, lanemq redrive runs them again, lanemq purge forgets them"};
}

Finding judge_gateway(const GatewayFacts& gateway) {
  Finding found{.check = name_of(Check::gateway), .says = {}, .next_step = {}};
  const std::string url = settings::without_secrets(printable(gateway.url));
  if (!gateway.why_not.empty()) {
    found.severity = Severity::critical;
    found.says = "no gateway answers at " + url + ": " + gateway.why_not;
    found.next_step = "start lanemq-gateway, or name its URL with --gateway";
    return found;
  }
  const std::string first = printable(gateway.body.substr(0, gateway.body.find('\n')), kSaidBytesMax);
  if (gateway.status == 200 && first == "ready") {
    found.says = "the gateway at " + url + " is ready";
    return found;
  }
  found.severity = Severity::critical;
  found.says = "what answers at " + url + " is not ready: " + std::to_string(gateway.status) + " " + first;
  found.next_step = gateway.status == 503 ? "see whether its broker runs, and its log"
                                          : "is that a gateway? name its URL with --gateway";
  return found;
}

Finding judge_certificate(const GatewayFacts& gateway) {
  Finding found{.check = name_of(Check::certificate), .says = {}, .next_step = {}};
  if (!gateway.certificate_left) {
    found.says =
        gateway.encrypted ? "the gateway has shown no certificate" : "the gateway is asked without TLS";
    if (gateway.encrypted) found.severity = Severity::critical;
    return found;
  }
  const std::chrono::seconds left = *gateway.certificate_left;
  if (left.count() <= 0) {
    found.severity = Severity::critical;
    found.says = "the gateway's certificate ended " + in_days(-left) + " ago";
  } else {
    found.says = "the gateway's certificate is good for " + in_days(left);
    if (left < kCertificateSoon) found.severity = Severity::warning;
  }
  if (found.severity != Severity::fine)
    found.next_step = "renew it, and send the gateway SIGHUP, which reads it again";
  if (gateway.distrust.empty() || found.severity == Severity::critical) return found;
  found.severity = Severity::warning;
  found.says += ", and this machine does not trust it: " + printable(gateway.distrust, kSaidBytesMax);
  if (found.next_step.empty())
    found.next_step = "install its authority here, or name that in SSL_CERT_FILE; callers need it, too";
  return found;
}

// ---- printing -----------------------------------------------------------------------------------------

std::string findings_text(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& found : findings)
    width = std::max(width, found.check.size());
  std::string text;
  for (const Finding& found : findings) {
    const std::string severity(name_of(found.severity)), check(found.check);
    text += severity + std::string(10 - severity.size(), ' ') + check +
            std::string(width + 2 - check.size(), ' ') + found.says +
            (found.next_step.empty() ? "" : "; " + found.next_step) + "\n";
  }
  return text;
}

std::string findings_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& found : findings) {
    Json one{{"check", found.check}, {"state", name_of(found.severity)}, {"says", found.says}};
    if (!found.next_step.empty()) one["do"] = found.next_step;
    list.push_back(std::move(one));
  }
  return Json{{"state", name_of(worst_of(findings))}, {"checks", std::move(list)}}.dump() + "\n";
}

Severity worst_of(const std::vector<Finding>& findings) {
  Severity worst = Severity::fine;
  for (const Finding& found : findings)
    worst = std::max(worst, found.severity);
  return worst;
}

}  // namespace lanemq::cli
