// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <lanemq/admin_table.hpp>
#include <lanemq/error_table.hpp>
#include <lanemq/text.hpp>
#include <lanemq/version.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/check/finding.hpp"
#include "client/cli/check/http_look.hpp"
#include "client/cli/text/stats_table.hpp"
#include "common/settings/peer.hpp"
#include "common/settings/values.hpp"

namespace lanemq::cli {
namespace {

using std::chrono::milliseconds;

/// Pages of dead jobs that are looked through: more than a broker keeps, unless its dead_max is raised.
constexpr int kDeadPagesMax = 1'000;

struct CheckOptions {
  std::string workers = "tcp://127.0.0.1:5571";
  std::string gateway;
  std::vector<std::string> chosen;
  CheckBounds bounds;
  bool json = false;
};

/// Asks a broker, and judges what it says.
class Checker {
 public:
  Checker(const Common& common, const CheckOptions& options) : common_(common), options_(options) {}

  std::vector<Finding> run() {
    for (const CheckInfo& info : check_table())
      if (is_chosen(info)) check(info.check);
    return std::move(findings_);
  }

 private:
  bool is_chosen(const CheckInfo& info) const {
    const auto& names = options_.chosen;
    if (!names.empty()) return std::find(names.begin(), names.end(), info.name) != names.end();
    return !options_.gateway.empty() || (info.check != Check::gateway && info.check != Check::certificate);
  }

  void check(Check check) {
    switch (check) {
      case Check::ready:
        return check_endpoints();
      case Check::version:
        if (const auto* pong = pong_for(check)) add(judge_version(pong->version, version()));
        return;
      case Check::clock:
        if (pong_for(check) != nullptr) add(judge_clock(clock_));
        return;
      case Check::dead:
        return check_dead();
      case Check::gateway:
        return add(judge_gateway(gateway()));
      case Check::certificate:
        return add(judge_certificate(gateway()));
      default:
        if (const std::string* stats = stats_for(check))
          for (Finding& found : judge_stats(check, *stats, options_.bounds))
            add(std::move(found));
    }
  }

  // ---- endpoints

  void check_endpoints() {
    if (common_.lacks_keys)
      add_endpoint("clients", common_.broker, Severity::fine, "asks for keys", "");
    else if (pong())
      add_endpoint("clients", common_.broker, Severity::fine, "answers", "");
    else if (!keys_complaint_.empty())
      add({.check = name_of(Check::ready),
           .severity = Severity::critical,
           .says = keys_complaint_,
           .next_step = "give --broker-key and --secret-key, or LANEMQ_BROKER_KEY and LANEMQ_CLIENT_KEY"});
    else
      add_silent("clients", common_.broker, common_.named_by, Severity::critical);
    using settings::Peer;
    // A worker would be taken in: whoever looks only sees whether a socket of ZeroMQ is there.
    const Peer at_workers = settings::look_at(options_.workers, common_.connect_timeout);
    if (at_workers == Peer::zeromq || at_workers == Peer::zeromq_keys)
      add_endpoint("workers", options_.workers, Severity::fine, "is there", "");
    else
      add_silent("workers", options_.workers, "--workers", Severity::critical);
    Client operators(options_for(common_.admin));
    std::future<Reply<BrokerPong>> word = operators.ping();
    if (ready_within(word, common_.connect_timeout) && word.get())
      add_endpoint("operators", common_.admin, Severity::fine, "answers", "");
    else
      add_silent("operators", common_.admin, "--admin or LANEMQ_ADMIN", Severity::warning);
  }

  void add_endpoint(std::string_view whose, const std::string& endpoint, Severity severity,
                    const std::string& how, std::string next_step) {
    add({.check = name_of(Check::ready),
         .severity = severity,
         .says = "the endpoint for " + std::string(whose) + " " + printable(endpoint) + " " + how,
         .next_step = std::move(next_step)});
  }

  void add_silent(std::string_view whose, const std::string& endpoint, const std::string& named_by,
                  Severity severity) {
    using settings::Peer;
    const std::string other = "name the right one with " + named_by;
    switch (settings::look_at(endpoint, common_.connect_timeout)) {
      case Peer::no_host:
        return add_endpoint(whose, endpoint, severity, "does not answer: the host is not known", other);
      case Peer::no_word_of_host:
        return add_endpoint(whose, endpoint, severity,
                            "does not answer: nobody says in time which address the host has",
                            "see whether this machine's DNS server answers, or " + other);
      case Peer::nobody:
        return add_endpoint(whose, endpoint, severity, "does not answer: nothing listens there",
                            "start lanemq-broker, or " + other);
      case Peer::http:
        return add_endpoint(whose, endpoint, severity, "is none: an HTTP server answers there", other);
      case Peer::zeromq:
      case Peer::zeromq_keys:
        return add_endpoint(
            whose, endpoint, severity,
            "does not answer, and a socket of ZeroMQ is there: the broker hangs, or it is another "
            "endpoint",
            "look at the broker's log, or " + other);
      case Peer::other:
        return add_endpoint(whose, endpoint, severity, "is none: what answers there is no broker", other);
      case Peer::unknown:
        break;
    }
    add_endpoint(whose, endpoint, severity, "does not answer",
                 "see whether lanemq-broker runs there, or " + other);
  }

  // ---- what the broker says

  ClientOptions options_for(const std::string& endpoint) const {
    Common other = common_;
    other.broker = endpoint;
    if (endpoint == common_.admin) other.keys = {};  // operators need none
    ClientOptions options = client_options(other);
    options.log = nullptr;  // silence is a finding
    return options;
  }

  Client& client() {
    if (!client_)
      client_ = std::make_unique<Client>(options_for(common_.lacks_keys ? common_.admin : common_.broker));
    return *client_;
  }

  const BrokerPong* pong() {
    if (std::exchange(pinged_, true)) return pong_ ? &*pong_ : nullptr;
    std::future<Reply<BrokerPong>> reply = client().ping();
    if (!ready_within(reply, common_.connect_timeout)) return nullptr;
    const Reply<BrokerPong> pong = reply.get();
    if (!pong && pong.error().code == name_of(ErrorCode::unauthorized))
      keys_complaint_ = printable(pong.error().message, limits::text_bytes_max);
    if (!pong) return nullptr;
    pong_ = *pong;
    clock_.round_trip = std::chrono::ceil<milliseconds>(pong->round_trip);
    const auto ours =
        std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
    clock_.ahead = pong->broker_time - ours;
    return &*pong_;
  }

  const BrokerPong* pong_for(Check check) {
    const BrokerPong* const answer = pong();
    if (answer == nullptr) add_unknown(check);
    return answer;
  }

  const std::string* stats_for(Check check) {
    if (pong() != nullptr && !std::exchange(asked_, true)) {
      std::string stats;
      for (std::optional<std::int64_t> from = 0; from;) {
        std::future<Reply<BrokerStats>> reply = client().stats(*from);
        if (!ready_within(reply, common_.connect_timeout)) break;
        const Reply<BrokerStats> page = reply.get();
        if (!page) break;
        from = add_stats_page(stats, page->json, *from);
        if (!from) stats_ = std::move(stats);
      }
    }
    if (stats_) return &*stats_;
    add_unknown(check);
    return nullptr;
  }

  /// A check that needs a broker's answer; that there is none is said once.
  void add_unknown(Check check) {
    if (std::exchange(told_unknown_, true)) return;
    if (std::any_of(findings_.begin(), findings_.end(), [](const Finding& found) {
          return found.check == name_of(Check::ready) && found.severity == Severity::critical;
        }))
      return;
    add({.check = name_of(check),
         .severity = Severity::critical,
         .says = "the broker at " + printable(common_.broker) + " does not answer",
         .next_step = "lanemq check ready says what is there"});
  }

  // ---- dead jobs

  void check_dead() {
    if (pong_for(Check::dead) == nullptr) return;
    Client operators(options_for(common_.admin));
    AdminRequest request;
    request.verb = name_of(AdminVerb::dead);
    request.limit = limits::page_rows_max;
    DeadFacts dead;
    for (int pages = 0;; ++pages) {
      std::future<Reply<AdminDocument>> pending = operators.admin(request);
      if (!ready_within(pending, common_.connect_timeout)) return add_no_operator();
      const Reply<AdminDocument> reply = pending.get();
      if (!reply) return add_no_operator();
      const std::int64_t next = count_dead(reply->json, dead);
      dead.at_least = next > request.from && pages >= kDeadPagesMax;
      if (next <= request.from || dead.at_least) break;
      request.from = next;
    }
    add(judge_dead(dead, options_.bounds));
  }

  void add_no_operator() {
    add({.check = name_of(Check::dead),
         .says =
             "dead jobs are told to operators alone, and " + printable(common_.admin) + " does not answer",
         .next_step = "run it on the broker's machine, or name the endpoint with --admin"});
  }

  /// Counts a page of dead jobs; returns where the next one begins, 0: nowhere.
  std::int64_t count_dead(const std::string& json, DeadFacts& dead) const {
    const auto page = nlohmann::json::parse(json, nullptr, false);
    if (!page.is_object() || !page.contains("dead")) return 0;
    for (const auto& row : page["dead"])
      if (row.is_object() &&
          milliseconds(row.value("dead_ms", std::int64_t{0})) <= options_.bounds.dead_within)
        ++dead.recent;
    dead.all = page.value("count", std::uint64_t{0});
    return page.value("next", std::int64_t{0});
  }

  const GatewayFacts& gateway() {
    if (!gateway_) gateway_ = look_at_gateway(options_.gateway, common_.connect_timeout);
    return *gateway_;
  }

  void add(Finding found) { findings_.push_back(std::move(found)); }

  const Common& common_;
  const CheckOptions& options_;
  std::vector<Finding> findings_;
  std::unique_ptr<Client> client_;
  std::optional<BrokerPong> pong_;
  std::string keys_complaint_;  // of a broker that does not take the keys; empty: it has said none
  ClockFacts clock_;
  std::optional<std::string> stats_;  // all pages of them
  std::optional<GatewayFacts> gateway_;
  bool pinged_ = false, asked_ = false, told_unknown_ = false;
};

int check(const Common& common, const CheckOptions& options) {
  check_endpoints("--workers", options.workers);
  catch_interrupts();
  for (const std::string& name : options.chosen)
    if ((name == name_of(Check::gateway) || name == name_of(Check::certificate)) && options.gateway.empty()) {
      say("which gateway? name its URL with --gateway");
      return kExitUsage;
    }
  const std::vector<Finding> findings = Checker(common, options).run();
  if (interrupted() != 0) return kExitSignal + interrupted();
  if (!(options.json ? put_json(findings_json(findings)) : put(findings_text(findings)))) return kExitFailed;
  return static_cast<int>(worst_of(findings));
}

std::string footer() {
  std::string text = "Checks:\n";
  for (const CheckInfo& info : check_table())
    text += "  " + std::string(info.name) + std::string(14 - info.name.size(), ' ') +
            std::string(info.sentence) + "\n";
  return text + "\nExit codes: 0 all is fine, 1 a warning, 2 something is critical, or wrong usage.";
}

}  // namespace

void add_check(CommandLine& line) {
  const auto options = std::make_shared<CheckOptions>();
  CLI::App& command =
      line.add("check", "Say in a sentence each how a broker, and a gateway, are, and what to do");
  std::vector<std::string> names;
  std::transform(check_table().begin(), check_table().end(), std::back_inserter(names),
                 [](const CheckInfo& info) { return std::string(info.name); });
  command.add_option("checks", options->chosen, "Those alone, by their names below; all without any")
      ->check(CLI::IsMember(names).description(""))  // they stand below
      ->type_name("CHECK");
  command.add_option("--workers", options->workers, "Where the broker listens for workers")
      ->capture_default_str()
      ->type_name("ENDPOINT");
  command.add_option("--gateway", options->gateway, "A gateway's URL, to check it, too")->type_name("URL");
  add_duration(command, "--oldest", milliseconds(1), std::chrono::hours(24 * 365),
               "A job that waits for longer is a warning",
               [options](milliseconds time) { options->bounds.oldest = time; })
      ->default_str(settings::show(options->bounds.oldest));
  add_duration(command, "--dead-within", milliseconds(1), std::chrono::hours(24 * 365),
               "A job that died so lately is a warning",
               [options](milliseconds time) { options->bounds.dead_within = time; })
      ->default_str(settings::show(options->bounds.dead_within));
  command.add_flag("--json", options->json, "All of it as one line of JSON");
  command.footer(footer());
  line.on_chosen(command, Asks::both, [options](const Common& common) { return check(common, *options); });
}

}  // namespace lanemq::cli
