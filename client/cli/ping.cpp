// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <lanemq/text.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/base/explanation.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/json/members.hpp"

namespace lanemq::cli {
namespace {

struct PingOptions {
  int count = 1;
  bool json = false;
};

constexpr std::chrono::milliseconds kBetweenPings{200};

std::string ms_of(const BrokerPong& pong) {
  char ms[32];
  std::snprintf(ms, sizeof ms, "%.3f", static_cast<double>(pong.round_trip.count()) / 1e6);
  return ms;
}

/// The answers of all shards to one ping.
struct Pongs {
  BrokerPong home{};
  std::vector<BrokerShard> others{};
  std::vector<Reply<BrokerPong>> theirs{};  ///< of each of the others
};

std::string text_of(const Pongs& pongs, const Common& common) {
  const auto line = [](const std::string& shard, const std::string& at, const BrokerPong& pong) {
    return "pong from " + (shard.empty() ? "" : "shard " + printable(shard) + " at ") + at +
           " version=" + printable(pong.version) + " time=" + ms_of(pong) + " ms\n";
  };
  std::string text = line(pongs.home.shard, printable(home_endpoints(pongs.home, common)), pongs.home);
  for (std::size_t i = 0; i < pongs.others.size(); ++i) {
    const BrokerShard& shard = pongs.others[i];
    const Reply<BrokerPong>& pong = pongs.theirs[i];
    text += pong ? line(shard.name, printable(endpoints_of(shard)), *pong)
                 : printable(pong.error().message, limits::text_bytes_max) + "\n";
  }
  return text;
}

std::string json_of(const Pongs& pongs, const Common& common) {
  const auto members = [](const BrokerPong& pong) {
    return "\"version\":" + json_text(pong.version) + ",\"round_trip_ms\":" + ms_of(pong);
  };
  std::string text = "{\"broker\":" + json_text(common.broker) + "," + members(pongs.home);
  if (pongs.home.shard.empty()) return text + "}\n";
  const auto begin = [](const std::string& shard) { return "{\"shard\":" + json_text(shard) + ","; };
  text += ",\"shards\":[" + begin(pongs.home.shard) + members(pongs.home) + "}";
  for (std::size_t i = 0; i < pongs.others.size(); ++i) {
    std::string what =
        pongs.theirs[i] ? members(*pongs.theirs[i]) + "}" : error_json(pongs.theirs[i].error());
    if (!pongs.theirs[i])
      what = what.substr(1, what.size() - 2);  // without the first brace and the line's end
    text += "," + begin(pongs.others[i].name) + what;
  }
  return text + "]}\n";
}

int ping(const Common& common, const PingOptions& options) {
  catch_interrupts();
  ClientOptions with = client_options(common);
  with.log = nullptr;  // this command reports silence itself
  Client client(with);
  bool all_answer = true;
  for (int i = 0; i < options.count && interrupted() == 0; ++i) {
    if (i > 0) std::this_thread::sleep_for(kBetweenPings);
    std::future<Reply<BrokerPong>> pending = client.ping();
    if (!ready_within(pending, common.connect_timeout)) {
      if (interrupted() != 0) break;
      say_unreachable(common);
      return end_unreached(common, options.json);
    }
    const Reply<BrokerPong> pong = pending.get();
    if (!pong) return end_refused(pong.error(), options.json);
    Pongs pongs{.home = *pong, .others = shards_beside(*pong, common)};
    std::vector<std::future<Reply<BrokerPong>>> asked;
    for (const BrokerShard& shard : pongs.others)
      asked.push_back(client.ping(shard.name));
    for (std::size_t at = 0; at < asked.size(); ++at) {
      pongs.theirs.push_back(answer_of(pongs.others[at], asked[at], common));
      all_answer = all_answer && pongs.theirs.back().has_value();
    }
    if (interrupted() != 0) break;
    if (!(options.json ? put_json(json_of(pongs, common)) : put(text_of(pongs, common)))) return kExitFailed;
  }
  if (interrupted() != 0) return kExitSignal + interrupted();
  return all_answer ? kExitDone : kExitUnreachable;
}

}  // namespace

void add_ping(CommandLine& line) {
  const auto options = std::make_shared<PingOptions>();
  CLI::App& command = line.add("ping", "Measure the way to the broker and back, and to one of each shard");
  command.add_option("--count", options->count, "How often")
      ->capture_default_str()
      ->check(CLI::Range(1, std::numeric_limits<int>::max()))
      ->type_name("N");
  command.add_flag("--json", options->json, "Each answer as JSON, in a line");
  line.on_chosen(command, Asks::either, [options](const Common& common) { return ping(common, *options); });
}

}  // namespace lanemq::cli
