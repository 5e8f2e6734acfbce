// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/broker_link.hpp"

#include <algorithm>
#include <cstdio>

#include <lanemq/endpoints.hpp>
#include <lanemq/text.hpp>

#include "client/cli/base/explanation.hpp"
#include "common/explanation/explanation.hpp"
#include "common/explanation/unserved.hpp"
#include "common/settings/peer.hpp"
#include "common/settings/start_check.hpp"
#include "common/settings/values.hpp"

namespace lanemq::cli {
namespace {

/// For the broker's word that a job is cancelled, of who waits to be gone.
constexpr std::chrono::milliseconds kCancelPatience{3'000};

/// What listens at the endpoint instead of a broker, and what to do about it.
std::string what_is_there(const Common& common) {
  using settings::Peer;
  const char* const whose = asks_operators(common) ? "operators" : "clients";
  const std::string other =
      std::string("; name the broker's endpoint for ") + whose + " with " + common.named_by;
  if (Endpoints(common.broker).several())
    return ": none of these endpoints has a broker that serves now; one may be about to go on in another's "
           "place: "
           "try again, or wait for longer with --connect-timeout";
  switch (settings::look_at(common.broker, kLookPatience)) {
    case Peer::no_host:
      return ": the host \"" + printable(settings::host_of(common.broker)) + "\" is not known" + other;
    case Peer::no_word_of_host:
      return ": nobody says within " + settings::show(kLookPatience) + " which address the host \"" +
             printable(settings::host_of(common.broker)) +
             "\" has; see whether this machine's DNS server answers" + other;
    case Peer::nobody:
      return ": nothing listens there; start lanemq-broker, or name another with " + common.named_by;
    case Peer::http:
      return ": an HTTP server answers there" + other;
    case Peer::zeromq:
    case Peer::zeromq_keys:
      if (!common.keys.broker.empty())
        return ": a ZeroMQ socket is there that does not know --broker-key (LANEMQ_BROKER_KEY): name the "
               "public key of "
               "that broker, or another broker with " +
               common.named_by;
      return ": a ZeroMQ socket is there that does not answer clients, such as a broker's endpoint for "
             "workers" +
             other;
    case Peer::other:
      return ": what answers there is no broker" + other;
    case Peer::unknown:
      break;
  }
  return "; see whether lanemq-broker runs there, or name another with " + common.named_by;
}

/// Why the broker cannot be reached, found out once; JSON output has the same text.
const std::string& why_unreachable(const Common& common) {
  static const std::string kWhy = "no broker answers at " + printable(common.broker) + " within " +
                                  settings::show(common.connect_timeout) + " (--connect-timeout)" +
                                  what_is_there(common);
  return kWhy;
}

}  // namespace

void check_endpoints(const char* option, const std::string& endpoints) try {
  settings::check_endpoints(endpoints);
} catch (const settings::UsageError& error) {
  throw settings::UsageError(std::string(option) + ": " + error.what());
}

bool asks_operators(const Common& common) {
  return common.named_by.starts_with("--admin");
}

ClientOptions client_options(const Common& common) {
  ClientOptions options;
  options.endpoint = common.broker;
  options.keys = common.keys;
  options.follow_shards = !asks_operators(common);
  options.log = [](std::string_view sentence) { say(sentence); };
  options.control_timeout += common.connect_timeout;  // --connect-timeout ends the wait for a first word
  return options;
}

bool reaches(Client& client, const Common& common) {
  std::future<Reply<BrokerPong>> pong = client.ping();
  if (ready_within(pong, common.connect_timeout)) {
    const Reply<BrokerPong> reply = pong.get();
    if (reply || !reply.error().local) return true;                           // a refusal is an answer, too
    if (reply.error().known_code() == ErrorCode::unauthorized) return false;  // it was said
  }
  if (interrupted() == 0) say_unreachable(common);
  return false;
}

void SilenceWatch::look() {
  const ClientCounters counters = client_.counters();
  if (!counters.heard) return;
  const std::optional<BrokerSilence>& silence = counters.silence;
  const auto silent =
      silence ? std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - silence->since)
              : std::chrono::seconds(0);
  if (silent < kFirst) next_ = kFirst;
  if (silent < next_) return;
  next_ = silent + std::min<std::chrono::milliseconds>(silent, kMostSeldom);
  const std::string whose = silence->shard.empty() ? "" : " of shard \"" + printable(silence->shard) + "\"";
  say("no broker" + whose + " has answered for " + short_duration(silent) + " at " +
      printable(silence->endpoints, limits::text_bytes_max) +
      "; this command waits until one does (Ctrl-C ends it)");
}

void cancel_and_say(Client& client, const std::vector<std::string>& ids) {
  std::vector<std::future<Reply<JobStatus>>> replies;
  replies.reserve(ids.size());
  // The place of a running job would go to one of those behind it, whose call would begin just to be broken
  // off.
  for (auto id = ids.rbegin(); id != ids.rend(); ++id)
    replies.push_back(client.cancel(*id));
  // Where the broker was never heard there is nobody to wait for.
  const auto end = std::chrono::steady_clock::now() +
                   (client.counters().heard ? kCancelPatience : std::chrono::milliseconds(0));
  std::size_t cancelled = 0, unsure = 0;
  for (auto& reply : replies) {
    const bool told = reply.wait_until(end) == std::future_status::ready;
    const Reply<JobStatus> status = told ? reply.get() : ClientError{};
    if (!status) ++unsure;
    if (status && status->state == "cancelled") ++cancelled;
  }
  const auto jobs = [](std::size_t count) { return grouped(count) + (count == 1 ? " job" : " jobs"); };
  if (cancelled > 0) say("interrupted: " + jobs(cancelled) + " cancelled, as nobody waits for an answer");
  if (unsure > 0)
    say((client.counters().answers ? "interrupted: the broker has not said whether "
                                   : "interrupted while no broker answers: none has said whether ") +
        jobs(unsure) + " ended; lanemq jobs lists what is left");
}

void say_if_nobody_serves(Client& client, const Common& common, const std::string& id) {
  std::future<Reply<JobStatus>> asked = client.status(id);
  if (!ready_within(asked, std::min<std::chrono::milliseconds>(kMoment, common.connect_timeout))) return;
  const Reply<JobStatus> status = asked.get();
  if (!status || !unserved_of(status->blocked_by)) return;
  const Explanation explanation = explain_status(*status);
  say(explanation.what + " " + explanation.help + " (lanemq explain " + printable(id) + ")");
}

std::vector<BrokerShard> shards_beside(const BrokerPong& pong, const Common& common) {
  std::vector<BrokerShard> others;
  if (asks_operators(common)) return others;
  for (const BrokerShard& shard : pong.shards)
    if (shard.name != pong.shard) others.push_back(shard);
  return others;
}

std::string home_endpoints(const BrokerPong& pong, const Common& common) {
  for (const BrokerShard& shard : pong.shards)
    if (shard.name == pong.shard && !shard.endpoints.empty() && !asks_operators(common))
      return endpoints_of(shard);
  return common.broker;
}

std::string endpoints_of(const BrokerShard& shard) {
  std::string all;
  for (const std::string& endpoint : shard.endpoints)
    all += (all.empty() ? "" : ",") + endpoint;
  return all;
}

ClientError no_answer_of(const BrokerShard& shard, const Common& common) {
  return {.code = "unreachable",
          .message = "no broker of shard \"" + printable(shard.name) + "\" answers at " +
                     printable(endpoints_of(shard)) + " within " + settings::show(common.connect_timeout) +
                     " (--connect-timeout)",
          .local = true};
}

void say_unreachable(const Common& common) {
  say(why_unreachable(common));
}

int end_unreached(const Common& common, bool json) {
  if (json && interrupted() == 0)
    put_json(error_json({.code = "unreachable", .message = why_unreachable(common)}));
  return kExitUnreachable;
}

int end_refused(const ClientError& error, bool json) {
  say_error(error);
  if (json) put_json(error_json(error));
  return kExitFailed;
}

void say_error(const ClientError& error) {
  std::string sentence = printable(error.code) + ": " + printable(error.message, limits::text_bytes_max);
  if (!error.id.empty()) sentence += " (job " + printable(error.id) + ")";
  if (error.retry_after) sentence += "; try again in " + short_duration(*error.retry_after);
  say(sentence);
  if (error.key_is_refused()) say(std::string(kKeyHelp));
  if (error.body.empty()) return;
  const std::string body =
      error_is_terminal() ? harmless(error.body.bytes()) : std::string(error.body.bytes());
  std::fwrite(body.data(), 1, body.size(), stderr);
  if (!body.ends_with('\n')) std::fputc('\n', stderr);
}

JobRequest request_of(const JobOptions& options) {
  JobRequest request{.service = options.service,
                     .id = options.id,
                     .lane = options.lane,
                     .model = options.model,
                     .client = options.client,
                     .attempts_max = options.attempts_max,
                     .durable = options.durable,
                     .cancel_when_gone = options.cancel_when_gone.value_or(false),
                     .group = options.group,
                     .group_size = options.group_size,
                     .notify = options.notify};
  if (options.cost_input)
    request.cost = wire::Cost{.input_tokens = options.cost_input, .output_tokens = options.cost_output};
  if (options.timeout_ms) request.timeout = std::chrono::milliseconds(*options.timeout_ms);
  return request;
}

}  // namespace lanemq::cli
