// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <lanemq/admin_table.hpp>

#include "client/cli/broker_link.hpp"
#include "client/cli/command_line.hpp"
#include "client/cli/stats_table.hpp"
#include "client/cli/terminal.hpp"

namespace lanemq::cli {
namespace {

struct StatsOptions {
  bool json = false, all_lanes = false;
  std::optional<double> watch_seconds;
};

struct LimitsOptions {
  bool json = false;
  std::optional<AdminRequest> filter;  ///< none: all budgets
};

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookForSignalsEvery{50};

/// Asks the broker once and prints what `show` makes of the document. Returns an exit code. `json`: the
/// output is for a program.
template <class Show>
int show_once(Client& client, const Common& common, bool json, Show show) {
  std::string document;
  // A broker with many budgets splits them over several answers.
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
  return (json ? put_foreign(*text) : put(*text)) ? kExitDone : kExitFailed;
}

/// Prints the limits that an operator's filter passes, in the form of the statistics.
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
  return text && (options.json ? put_foreign(*text) : put(*text)) ? kExitDone : kExitFailed;
}

std::optional<std::string> stats_text(const std::string& json, const StatsOptions& options) {
  if (options.json) return json + "\n";
  const std::optional<std::string> table = stats_table(json, output_takes_colour(), options.all_lanes);
  // Moves the cursor home, prints the table, then clears what an earlier, longer table left: no flicker.
  const bool redraw = options.watch_seconds && output_is_terminal();
  return table && redraw ? "\x1b[2J\x1b[H" + *table : table;
}

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
  return kExitDone;  // watching ends by a signal
}

int limits(const Common& common, const LimitsOptions& options) {
  Client client(client_options(common));
  if (options.filter) return filtered_limits(client, common, options);
  return show_once(client, common, options.json, [&](const std::string& json) {
    return options.json ? limits_json(json) : limits_table(json, output_takes_colour());
  });
}

}  // namespace

void add_stats(CommandLine& line) {
  const auto options = std::make_shared<StatsOptions>();
  CLI::App& command = line.add("stats", "Show the lanes, workers and budgets");
  command.add_flag("--json", options->json, "The broker's document as it is");
  command.add_flag("--all", options->all_lanes, "Also the lanes that no job has used");
  command
      .add_option_function<double>(
          "--watch", [options](double seconds) { options->watch_seconds = seconds; },
          "Again and again, every N seconds")
      ->expected(0, 1)
      ->default_str("2")
      ->check(CLI::Range(0.1, 3'600.0))
      ->type_name("N");
  line.on_chosen(command, Asks::either, [options](const Common& common) { return stats(common, *options); });
}

void add_limits(CommandLine& line) {
  CLI::App& command = line.add("limits", "Show what can be taken now of each limit of each budget");
  const auto options = std::make_shared<LimitsOptions>();
  const auto request = std::make_shared<AdminRequest>();
  request->verb = name_of(AdminVerb::budgets);
  command.add_flag("--json", options->json, "The budgets of the broker's document");
  const std::vector<CLI::Option*> filters{
      command.add_option("--budget", request->name, "Of those budgets alone")->type_name("GLOB"),
      command.add_option("--key", request->key, "Of those keys alone")->type_name("GLOB"),
      command.add_option("--state", request->state, "Of keys that are active, draining or spent")
          ->type_name("STATE"),
      command.add_option("--service", request->service, "What jobs of that service take from")
          ->type_name("NAME"),
      command.add_option("--client", request->client, "What jobs of that client take from")
          ->type_name("NAME"),
      command.add_option("--model", request->model, "What jobs with that model take from")->type_name("NAME"),
      command.add_option("--lane", request->lane, "What jobs of that lane take from")->type_name("NAME")};
  command.callback([&line, &command, options, request, filters] {
    if (!command.get_subcommands().empty()) return;
    // Clients may see all budgets, but only operators can filter them.
    const bool chooses =
        std::any_of(filters.begin(), filters.end(), [](const auto* filter) { return filter->count() > 0; });
    if (chooses) options->filter = *request;
    line.choose(chooses ? Asks::operators : Asks::either,
                [options](const Common& common) { return limits(common, *options); });
  });
}

}  // namespace lanemq::cli
