// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lanemq/client.hpp>
#include <lanemq/endpoints.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/check/http_look.hpp"
#include "client/cli/cluster_view.hpp"
#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {
namespace {

struct StatusOptions {
  std::vector<std::string> http;
  bool json = false;
};

using Clock = std::chrono::steady_clock;

std::chrono::milliseconds until(Clock::time_point end) {
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()));
}

/// Asks the broker at one endpoint alone, while others are asked.
class Asking {
 public:
  /// `shard`: whose endpoint it is, where that is known.
  Asking(const Common& common, const std::string& endpoint, std::string shard = {})
      : endpoint_(endpoint), shard_(std::move(shard)) {
    ClientOptions with = client_options(common);
    with.endpoint = endpoint;
    with.follow_shards = false;
    with.log = nullptr;  // this command reports silence itself
    client_ = std::make_unique<Client>(with);
    reply_ = client_->stats(0);
    pong_ = client_->ping();
  }
  const std::string& endpoint() const { return endpoint_; }
  void is_of(const std::string& shard) { shard_ = shard; }

  Member member(Clock::time_point end) {
    if (!ready_within(reply_, until(end))) return silent_member(endpoint_, "nobody serves there", shard_);
    const Reply<BrokerStats> reply = reply_.get();
    return reply ? member_of_stats(endpoint_, reply->json)
                 : silent_member(endpoint_, reply.error().message, shard_);
  }
  /// The shards that the broker tells of, once.
  std::vector<BrokerShard> shards(Clock::time_point end) {
    if (!ready_within(pong_, until(end))) return {};
    const Reply<BrokerPong> pong = pong_.get();
    return pong ? pong->shards : std::vector<BrokerShard>();
  }

 private:
  std::string endpoint_, shard_;
  std::unique_ptr<Client> client_;
  std::future<Reply<BrokerStats>> reply_;
  std::future<Reply<BrokerPong>> pong_;
};

/// What each endpoint of `--broker` says, and where there are shards each one that a broker tells of.
std::vector<Member> members_at_endpoints(const Common& common) {
  auto end = Clock::now() + common.connect_timeout;
  std::vector<Asking> asked;
  const Endpoints endpoints(common.broker);
  for (const std::string& endpoint : endpoints.all())
    asked.emplace_back(common, endpoint);
  std::vector<BrokerShard> shards;
  for (std::size_t i = 0; i < asked.size() && shards.empty(); ++i)
    shards = asked[i].shards(end);
  const std::size_t given = asked.size();
  for (const BrokerShard& shard : shards)
    for (const std::string& endpoint : shard.endpoints) {
      const auto known = std::find_if(asked.begin(), asked.end(),
                                      [&](const Asking& one) { return one.endpoint() == endpoint; });
      known == asked.end() ? void(asked.emplace_back(common, endpoint, shard.name))
                           : known->is_of(shard.name);
    }
  if (asked.size() > given) end = Clock::now() + common.connect_timeout;
  std::vector<Member> members;
  for (Asking& one : asked)
    members.push_back(one.member(end));
  return members;
}

int status(const Common& common, const StatusOptions& options) {
  catch_interrupts();
  std::vector<std::future<GatewayFacts>> looks;
  for (const std::string& url : options.http)
    looks.push_back(std::async(std::launch::async, [&url, patience = common.connect_timeout] {
      return look_at_gateway(url, patience);
    }));
  std::vector<Member> members = members_at_endpoints(common);
  for (std::future<GatewayFacts>& look : looks)
    members.push_back(member_of_http(look.get()));
  if (interrupted() != 0) return kExitSignal + interrupted();
  // What is not read by eyes is not cut.
  const std::size_t columns =
      output_is_terminal() ? output_columns() : std::numeric_limits<std::size_t>::max();
  if (!(options.json ? put_json(cluster_json(members))
                     : put(cluster_text(members, output_takes_colour(), columns))))
    return kExitFailed;
  const ClusterVerdict verdict = judge_cluster(members);
  return verdict.good ? kExitDone : verdict.answered ? kExitFailed : kExitUnreachable;
}

}  // namespace

void add_cluster(CommandLine& line) {
  CLI::App& command = line.add("cluster", "Brokers that share one store: who owns it, and who goes on");
  command.require_subcommand(1);
  CLI::App& status_command = *command.add_subcommand(
      "status",
      "Ask each endpoint of --broker, those of all shards, and each HTTP of operators, who owns the store");
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
