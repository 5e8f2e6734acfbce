// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "client/cli/broker_link.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/stats_table.hpp"
#include "client/cli/terminal.hpp"

namespace lanemq::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookForSignalsEvery{50};

/// One look at the broker, written out as `show` makes it of the document; an exit code. `json`: for a
/// program.
template <class Show>
int show_once(Client& client, const Common& common, bool json, Show show) {
  std::string document;
  // A broker with many budgets says them in several answers.
  for (std::optional<std::int64_t> from = 0; from;) {
    std::future<Reply<BrokerStats>> pending = client.stats(*from);
    const std::optional<Reply<BrokerStats>> reply = wait_for(pending, client, common);
    if (!reply) return end_unreached(common, json);
    if (!*reply) return end_refused(reply->error(), json);
    from = add_stats_page(document, (*reply)->json, *from);
  }
  const std::optional<std::string> text = show(document);
  if (!text) {
    say("the broker's statistics cannot be read; see them with lanemq stats --json");
    return kExitFailed;
  }
  return put(*text) ? kExitDone : kExitFailed;
}

/// The limits that a filter of operators lets through, in the shape that they have in the statistics.
int filtered_limits(Client& client, const Common& common, const LimitsOptions& options) {
  int code = kExitDone;
  const std::optional<std::string> rows =
      ask_operator(client, common, *options.filter, 0, options.json, code);
  if (!rows) return code;
  const std::optional<std::string> document = limits_of_rows(*rows);
  if (!document) {
    say("the broker's answer cannot be read");
    return kExitFailed;
  }
  const std::optional<std::string> text =
      options.json ? limits_json(*document)
                   : limits_table(*document, output_takes_colour(), "no such budget or key has limits\n");
  return text && put(*text) ? kExitDone : kExitFailed;
}

std::optional<std::string> stats_text(const std::string& json, const StatsOptions& options) {
  if (options.json) return json + "\n";
  const std::optional<std::string> table = stats_table(json, output_takes_colour());
  // Home, the table, then clear what an earlier and longer table left behind: no flicker.
  const bool redraw = options.watch_seconds && output_is_terminal();
  return table && redraw ? "\x1b[2J\x1b[H" + *table : table;
}

}  // namespace

int stats(const Common& common, const StatsOptions& options) {
  catch_interrupts();
  Client client(client_options(common));
  const auto show = [&](const std::string& json) { return stats_text(json, options); };
  if (!options.watch_seconds) {
    const int code = show_once(client, common, options.json, show);
    return interrupted() == 0 ? code : kExitSignal + interrupted();
  }
  const std::chrono::duration<double> pause(*options.watch_seconds);
  auto next = Clock::now();
  while (interrupted() == 0) {
    if (Clock::now() < next) {
      std::this_thread::sleep_for(kLookForSignalsEvery);
      continue;
    }
    const int code = show_once(client, common, options.json, show);
    if (code != kExitDone && interrupted() == 0) return code;
    next += std::chrono::duration_cast<Clock::duration>(pause);
  }
  return kExitDone;  // an interrupt is how watching ends
}

int limits(const Common& common, const LimitsOptions& options) {
  Client client(client_options(common));
  if (options.filter) return filtered_limits(client, common, options);
  return show_once(client, common, options.json, [&](const std::string& json) {
    return options.json ? limits_json(json) : limits_table(json, output_takes_colour());
  });
}

}  // namespace lanemq::cli
