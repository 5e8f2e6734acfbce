// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lanemq/client.hpp>
#include <lanemq/endpoints.hpp>

#include "client/cli/broker_link.hpp"
#include "client/cli/check/http_look.hpp"
#include "client/cli/cluster_view.hpp"
#include "client/cli/command_line.hpp"
#include "client/cli/terminal.hpp"

namespace lanemq::cli {
namespace {

struct StatusOptions {
  std::vector<std::string> http;
  bool json = false;
};

/// Asks the broker at one endpoint alone, while others are asked.
class Asking {
 public:
  Asking(const Common& common, const std::string& endpoint) : endpoint_(endpoint) {
    ClientOptions with = client_options(common);
    with.endpoint = endpoint;
    with.log = nullptr;  // this command reports silence itself
    client_ = std::make_unique<Client>(with);
    reply_ = client_->stats(0);
  }
  Member member(std::chrono::milliseconds patience) {
    if (!ready_within(reply_, patience)) return silent_member(endpoint_, "nobody serves there");
    const Reply<BrokerStats> reply = reply_.get();
    return reply ? member_of_stats(endpoint_, reply->json) : silent_member(endpoint_, reply.error().message);
  }

 private:
  const std::string endpoint_;
  std::unique_ptr<Client> client_;
  std::future<Reply<BrokerStats>> reply_;
};

int status(const Common& common, const StatusOptions& options) {
  catch_interrupts();
  const auto end = std::chrono::steady_clock::now() + common.connect_timeout;
  const Endpoints endpoints(common.broker);
  std::vector<Asking> asked;
  for (const std::string& endpoint : endpoints.all())
    asked.emplace_back(common, endpoint);
  std::vector<std::future<GatewayFacts>> looks;
  for (const std::string& url : options.http)
    looks.push_back(std::async(std::launch::async, [&url, patience = common.connect_timeout] {
      return look_at_gateway(url, patience);
    }));
  std::vector<Member> members;
  for (Asking& one : asked)
    members.push_back(one.member(
        std::max(std::chrono::milliseconds(1),
                 std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()))));
  for (std::future<GatewayFacts>& look : looks)
    members.push_back(member_of_http(look.get()));
  if (interrupted() != 0) return kExitSignal + interrupted();
  // What is not read by eyes is not cut.
  const std::size_t columns =
      output_is_terminal() ? output_columns() : std::numeric_limits<std::size_t>::max();
  if (!put(options.json ? cluster_json(members) : cluster_text(members, output_takes_colour(), columns)))
    return kExitFailed;
  const ClusterVerdict verdict = judge_cluster(members);
  return verdict.good ? kExitDone : verdict.answered ? kExitFailed : kExitUnreachable;
}

}  // namespace

void add_cluster(CommandLine& line) {
  CLI::App& command = line.add("cluster", "Brokers that share one store: who owns it, and who goes on");
  command.require_subcommand(1);
  CLI::App& status_command = *command.add_subcommand(
      "status", "Ask each endpoint of --broker, and each HTTP of operators, who owns the store");
  const auto options = std::make_shared<StatusOptions>();
  status_command
      .add_option(
          "--http", options->http,
          "The brokers' HTTP for operators, such as http://broker-2:5573, separated by commas: a broker that "
          "waits for the store answers there alone")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->envname("LANEMQ_CLUSTER_HTTP")
      ->type_name("URL");
  status_command.add_flag("--json", options->json, "As JSON, in a line");
  line.on_chosen(status_command, Asks::clients,
                 [options](const Common& common) { return status(common, *options); });
}

}  // namespace lanemq::cli
