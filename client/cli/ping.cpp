// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <thread>

#include <lanemq/text.hpp>

#include "client/cli/broker_link.hpp"
#include "client/cli/command_line.hpp"
#include "client/cli/terminal.hpp"
#include "common/json/members.hpp"

namespace lanemq::cli {
namespace {

struct PingOptions {
  int count = 1;
  bool json = false;
};

constexpr std::chrono::milliseconds kBetweenPings{200};

int ping(const Common& common, const PingOptions& options) {
  catch_interrupts();
  ClientOptions with = client_options(common);
  with.log = nullptr;  // this command reports silence itself
  Client client(with);
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
    char ms[32];
    std::snprintf(ms, sizeof ms, "%.3f", static_cast<double>(pong->round_trip.count()) / 1e6);
    if (!put(options.json ? "{\"broker\":" + json_text(common.broker) + ",\"version\":" +
                                json_text(pong->version) + ",\"round_trip_ms\":" + ms + "}\n"
                          : "pong from " + common.broker + " version=" + printable(pong->version) +
                                " time=" + ms + " ms\n"))
      return kExitFailed;
  }
  return interrupted() == 0 ? kExitDone : kExitSignal + interrupted();
}

}  // namespace

void add_ping(CommandLine& line) {
  const auto options = std::make_shared<PingOptions>();
  CLI::App& command = line.add("ping", "Measure the way to the broker and back");
  command.add_option("--count", options->count, "How often")
      ->capture_default_str()
      ->check(CLI::Range(1, std::numeric_limits<int>::max()))
      ->type_name("N");
  command.add_flag("--json", options->json, "Each answer as JSON, in a line");
  line.on_chosen(command, Asks::either, [options](const Common& common) { return ping(common, *options); });
}

}  // namespace lanemq::cli
