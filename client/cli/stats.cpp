// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <lanemq/admin_table.hpp>
#include <lanemq/text.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/base/explanation.hpp"
#include "client/cli/text/stats_table.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/json/members.hpp"

namespace lanemq::cli {
namespace {

struct StatsOptions {
  bool json = false, all_lanes = false;
  std::optional<double> watch_seconds;
};

struct LimitsOptions {
  bool json = false;
  bool as_config = false;
  std::optional<AdminRequest> filter;  ///< none: all budgets
};

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookForSignalsEvery{50};

/// The document of a broker, all of its pages. `ask`: asks for the page from there on. Empty: there is no
/// answer.
template <class Ask>
std::optional<Reply<std::string>> document_of(Ask ask) {
  std::string document;
  // A broker with many budgets splits them over several answers.
  for (std::optional<std::int64_t> from = 0; from;) {
    const std::optional<Reply<BrokerStats>> reply = ask(*from);
    if (!reply) return std::nullopt;
    if (!*reply) return Reply<std::string>(reply->error());
    from = add_stats_page(document, (*reply)->json, *from);
  }
  return Reply<std::string>(document);
}

/// What to print of a document, and how.
struct Show {
  std::function<std::optional<std::string>(const std::string& document)> text;
  const char* member = "stats";  ///< its name in JSON, where there are several
  bool json = false;             ///< the output is for a program
  std::string before{};          ///< printed first
  bool repeats = false;          ///< a shard that does not answer now may do so next time
};

/// The documents of all shards, one behind the other: a block for each, or a list in JSON. `home`: that of
/// the broker that was asked, which names its shard. Empty: it cannot be read.
std::optional<std::string> text_of_shards(Client& client, const Common& common, const std::string& home,
                                          const Show& show, bool& all_answer) {
  std::future<Reply<BrokerPong>> asked = client.ping();
  const std::optional<Reply<BrokerPong>> pong = wait_for(asked, client, common);
  if (!pong || !*pong || (*pong)->shard.empty() || asks_operators(common)) return show.text(home);
  std::string text;
  const auto add = [&](const std::string& shard, const std::string& what) {
    if (show.json)
      text += (text.empty() ? "" : ",") + ("{\"shard\":" + json_text(shard) + "," + what + "}");
    else
      text += (text.empty() ? "" : "\n") + ("shard " + printable(shard) + "\n" + what);
  };
  const auto add_document = [&](const std::string& shard, const std::string& document) {
    std::optional<std::string> shown = show.text(document);
    if (!shown) return false;
    if (show.json) {
      while (shown->ends_with('\n'))
        shown->pop_back();
      shown->insert(0, "\"" + std::string(show.member) + "\":");
    }
    add(shard, *shown);
    return true;
  };
  if (!add_document((*pong)->shard, home)) return std::nullopt;
  for (const BrokerShard& shard : shards_beside(**pong, common)) {
    const std::optional<Reply<std::string>> document = document_of([&](std::int64_t from) {
      std::future<Reply<BrokerStats>> pending = client.stats(from, shard.name);
      return std::optional(answer_of(shard, pending, common));
    });
    if (document && *document) {
      if (!add_document(shard.name, **document)) return std::nullopt;
      continue;
    }
    all_answer = false;
    const ClientError& error = document->error();
    if (show.json) {
      const std::string line = error_json(error);
      add(shard.name, line.substr(1, line.size() - 3));  // without the braces and the line's end
    } else {
      add(shard.name, printable(error.message, limits::text_bytes_max) + "\n");
    }
  }
  return show.json ? "{\"shards\":[" + text + "]}\n" : text;
}

/// Asks the broker, and those of other shards, once. Returns an exit code.
int show_once(Client& client, const Common& common, const Show& show) {
  const std::optional<Reply<std::string>> document = document_of([&](std::int64_t from) {
    std::future<Reply<BrokerStats>> pending = client.stats(from);
    return wait_for(pending, client, common);
  });
  if (!document) return end_unreached(common, show.json);
  if (!*document) return end_refused(document->error(), show.json);
  bool all_answer = true;
  const bool has_shards = !member_bytes(**document, "shard").empty();
  const std::optional<std::string> text =
      has_shards ? text_of_shards(client, common, **document, show, all_answer) : show.text(**document);
  if (!text) {
    say("the broker's statistics cannot be read; see them with lanemq stats --json");
    return kExitFailed;
  }
  if (!(show.json ? put_json(*text) : put(show.before + *text))) return kExitFailed;
  return all_answer || show.repeats ? kExitDone : kExitUnreachable;
}

std::optional<std::string> limits_text(const std::string& json, const LimitsOptions& options,
                                       std::string_view none = kNoBudgets) {
  if (options.json) return limits_json(json);
  return options.as_config ? limits_config(json) : limits_table(json, output_takes_colour(), none);
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
      limits_text(*document, options, "no such budget or key has limits\n");
  return text && (options.json ? put_json(*text) : put(*text)) ? kExitDone : kExitFailed;
}

std::optional<std::string> stats_text(const std::string& json, const StatsOptions& options) {
  if (options.json) return json + "\n";
  return stats_table(json, output_takes_colour(), options.all_lanes);
}

int stats(const Common& common, const StatsOptions& options) {
  catch_interrupts();
  Client client(client_options(common));
  Show show{.text = [&](const std::string& json) { return stats_text(json, options); },
            .json = options.json,
            .repeats = options.watch_seconds.has_value()};
  // Moves the cursor home, and clears what an earlier, longer table left.
  if (options.watch_seconds && output_is_terminal()) show.before = "\x1b[2J\x1b[H";
  if (!options.watch_seconds) {
    const int code = show_once(client, common, show);
    return interrupted() == 0 ? code : kExitSignal + interrupted();
  }
  const std::chrono::duration<double> pause(*options.watch_seconds);
  auto next = Clock::now();
  while (interrupted() == 0) {
    if (Clock::now() < next) {
      std::this_thread::sleep_for(kLookForSignalsEvery);
      continue;
    }
    const int code = show_once(client, common, show);
    if (code != kExitDone && interrupted() == 0) return code;
    next += std::chrono::duration_cast<Clock::duration>(pause);
  }
  return kExitDone;  // watching ends by a signal
}

int limits(const Common& common, const LimitsOptions& options) {
  Client client(client_options(common));
  if (options.filter) return filtered_limits(client, common, options);
  return show_once(client, common,
                   {.text = [&](const std::string& json) { return limits_text(json, options); },
                    .member = "limits",
                    .json = options.json});
}

}  // namespace

void add_stats(CommandLine& line) {
  const auto options = std::make_shared<StatsOptions>();
  CLI::App& command =
      line.add("stats", "Show the lanes, workers and budgets, of each shard where there are any");
  command.add_flag("--json", options->json,
                   "The broker's document as it is; of several shards a list of them");
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
  command.add_flag("--as-config", options->as_config,
                   "What upstreams have stated or shown, as lines for the broker's file");
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
    if (options->json && options->as_config) throw CLI::ExcludesError("--as-config", "--json");
    // Clients may see all budgets, but only operators can filter them.
    const bool chooses =
        std::any_of(filters.begin(), filters.end(), [](const auto* filter) { return filter->count() > 0; });
    if (chooses) options->filter = *request;
    line.choose(chooses ? Asks::operators : Asks::either,
                [options](const Common& common) { return limits(common, *options); });
  });
}

}  // namespace lanemq::cli
