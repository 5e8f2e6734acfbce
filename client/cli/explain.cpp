// SPDX-License-Identifier: Apache-2.0
#include "client/cli/broker_link.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/explanation.hpp"
#include "client/cli/terminal.hpp"

namespace lanemq::cli {

int explain(const Common& common, const JobQuery& query) {
  Client client(client_options(common));
  std::future<Reply<JobStatus>> pending = client.status(query.id);
  const auto reply = wait_for(pending, client, common);
  if (!reply) return end_unreached(common, query.json);
  if (!*reply) return end_refused(reply->error(), query.json);
  const JobStatus& status = **reply;
  const Explanation explanation = explain_status(status);
  const std::string text =
      explanation.what + (explanation.help.empty() ? "" : "\n" + explanation.help) + "\n";
  if (!put(query.json ? explanation_json(status) : text)) return kExitFailed;
  return status.state == "unknown" ? kExitFailed : kExitDone;
}

}  // namespace lanemq::cli
