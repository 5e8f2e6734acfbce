// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <thread>

#include <lanemq/text.hpp>

#include "client/cli/broker_link.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/terminal.hpp"
#include "json/members.hpp"

namespace lanemq::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenPings{200};

}  // namespace

int ping(const Common& common, const PingOptions& options) {
  catch_interrupts();
  ClientOptions with = client_options(common);
  with.log = nullptr;  // silence is what this command tells of itself
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

}  // namespace lanemq::cli
