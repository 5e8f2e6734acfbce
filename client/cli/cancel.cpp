// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <lanemq/admin_table.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CancelOptions {
  std::string id;
  AdminRequest filter{.verb = std::string(name_of(AdminVerb::jobs))};
  std::string ids;  ///< a glob; empty: any
  bool all = false, dry_run = false, json = false;
};

struct Counts {
  std::size_t cancelled = 0, refused = 0;
  ClientError why{};  ///< of the last one that was refused
};

/// The ids of a page's jobs that are meant.
std::vector<std::string> ids_of(const Json& page, const std::string& glob) {
  std::vector<std::string> ids;
  for (const Json& row : page.value("jobs", Json::array()))
    if (std::string id = row.value("id", ""); !id.empty() && (glob.empty() || glob_match(glob, id)))
      ids.push_back(std::move(id));
  return ids;
}

void cancel_all_of(Client& client, const Common& common, const std::vector<std::string>& ids,
                   Counts& counts) {
  std::vector<std::future<Reply<JobStatus>>> replies;
  replies.reserve(ids.size());
  for (const std::string& id : ids)
    replies.push_back(client.cancel(id));
  for (auto& pending : replies) {
    const std::optional<Reply<JobStatus>> status = wait_for(pending, client, common);
    if (!status) return;  // interrupted, or nobody answers
    if (!*status) counts.why = status->error();
    // One that has ended in between is no fault.
    if (*status) counts.cancelled += (*status)->state == "cancelled" ? 1 : 0;
    counts.refused += *status ? 0 : 1;
  }
}

/// Cancels all jobs that the filters choose, page by page of the broker's list.
int cancel_many(const Common& common, const CancelOptions& options) {
  catch_interrupts();
  Client client(client_options(common));
  AdminRequest request = options.filter;
  request.limit = limits::page_rows_max;
  Counts counts;
  int code = kExitDone;
  for (std::int64_t from = 0; interrupted() == 0;) {
    request.from = from;
    const std::optional<std::string> answer =
        ask_operator(client, common, request, kNoList, options.json, code);
    if (!answer) return code;
    const Json page = Json::parse(*answer, nullptr, false);
    const std::vector<std::string> ids = ids_of(page, options.ids);
    options.dry_run ? void(counts.cancelled += ids.size()) : cancel_all_of(client, common, ids, counts);
    const std::int64_t next = page.value("next", std::int64_t{0});
    if (next <= from) break;  // must grow, so that a broker that repeats a page is not asked for ever
    from = next;
  }
  if (options.json)
    put_json(
        Json{{options.dry_run ? "would_cancel" : "cancelled", counts.cancelled}, {"refused", counts.refused}}
            .dump() +
        "\n");
  else
    put(grouped(counts.cancelled) + (counts.cancelled == 1 ? " job " : " jobs ") +
        (options.dry_run ? "would be cancelled\n" : "cancelled\n"));
  if (counts.refused == 0) return interrupted() == 0 ? kExitDone : kExitFailed;
  say(grouped(counts.refused) + " could not be; the last one:");
  say_error(counts.why);
  return kExitFailed;
}

}  // namespace

void add_cancel(CommandLine& line) {
  const auto options = std::make_shared<CancelOptions>();
  CLI::App& command = line.add("cancel", "Cancel a job; or, as an operator, all that the filters choose");
  CLI::Option* const id = command.add_option("id", options->id, "The job's id")->type_name("ID");
  AdminRequest& filter = options->filter;
  const std::vector<CLI::Option*> filters{
      command.add_option("--ids", options->ids, "All whose ids are such")->type_name("GLOB"),
      command.add_option("--client", filter.client, "Of those clients alone")->type_name("GLOB"),
      command.add_option("--lane", filter.lane, "Of that lane alone")->type_name("NAME"),
      command.add_option("--service", filter.service, "Of those services alone")->type_name("GLOB"),
      command.add_option("--model", filter.model, "Of those models alone")->type_name("GLOB"),
      command.add_option("--group", filter.group, "Of those groups alone")->type_name("GLOB"),
      command.add_option("--state", filter.state, "queued, delayed or running")
          ->check(CLI::IsMember({"queued", "delayed", "running"}))
          ->type_name("STATE"),
      command.add_flag("--all", options->all, "All jobs")};
  // An empty one, as of a shell's variable that is not set, would be a filter that lets everything through.
  const auto says_something = [](const std::string& text) {
    if (text.empty()) return std::string("is empty, and would mean all jobs; say --all for these");
    return text.starts_with("--") ? "takes " + text + " for its value: it has none of its own"
                                  : std::string();
  };
  for (CLI::Option* filter_option : filters) {
    filter_option->excludes(id);
    if (filter_option->get_name() != "--all") filter_option->check(says_something);
  }
  command.add_flag("--dry-run", options->dry_run, "Say how many jobs it would be, and change nothing")
      ->excludes(id);
  command.add_flag("--json", options->json, "The job's status, or how many, as JSON in one line");
  command.callback([&line, options, id, filters] {
    const bool chooses =
        std::any_of(filters.begin(), filters.end(), [](const auto* option) { return option->count() > 0; });
    if (!chooses && id->count() == 0)
      throw CLI::ValidationError("which jobs?", "give an ID, a filter such as --client, or --all");
    line.choose(chooses ? Asks::operators : Asks::either, [options, chooses](const Common& common) {
      return chooses ? cancel_many(common, *options) : cancel_one(common, options->id, options->json);
    });
  });
}

}  // namespace lanemq::cli
