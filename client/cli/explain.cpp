// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/base/explanation.hpp"
#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {
namespace {

struct ExplainOptions {
  std::string id;
  bool json = false;
};

int explain(const Common& common, const ExplainOptions& query) {
  Client client(client_options(common));
  std::future<Reply<JobStatus>> pending = client.status(query.id);
  const auto reply = wait_for(pending, client, common);
  if (!reply) return end_unreached(common, query.json);
  if (!*reply) return end_refused(reply->error(), query.json);
  const JobStatus& status = **reply;
  const Explanation explanation = explain_status(status);
  const std::string text =
      explanation.what + (explanation.help.empty() ? "" : "\n" + explanation.help) + "\n";
  if (!(query.json ? put_json(explanation_json(status)) : put_foreign(text))) return kExitFailed;
  return status.state == "unknown" ? kExitFailed : kExitDone;
}

}  // namespace

void add_explain(CommandLine& line) {
  const auto options = std::make_shared<ExplainOptions>();
  CLI::App& command = line.add("explain", "Say in a sentence what a job waits for and what would help");
  command.add_option("id", options->id, "The job's id")->required()->type_name("ID");
  command.add_flag("--json", options->json, "The job's status as JSON, in one line");
  line.on_chosen(command, Asks::either,
                 [options](const Common& common) { return explain(common, *options); });
}

}  // namespace lanemq::cli
