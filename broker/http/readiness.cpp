// SPDX-License-Identifier: Apache-2.0
#include "broker/http/readiness.hpp"

#include <lanemq/text.hpp>

#include "common/explanation/unserved.hpp"

namespace lanemq::admin {
namespace {

std::string member(const Json& object, const char* outer, const char* inner) {
  const auto at = object.find(outer);
  return at != object.end() && at->is_object() ? at->value(inner, std::string()) : std::string();
}

/// Faults that a person should look at, though work is taken.
void add_remarks(const Json& stats, std::string& text) {
  if (member(stats, "bank", "state") == "away")
    text += "bank: away (jobs of budgets that shards share wait)\n";
  if (const auto unserved = stats.find("unserved"); unserved != stats.end())
    for (const auto& [service, state] : unserved->items())
      text += "no worker serves " +
              name_of(Unserved{.service = service,
                               .lane = state.value("lane", std::string()),
                               .draining = state.value("draining", false)}) +
              " (queued: " + state.value("queued", Json()).dump() + ")\n";
  if (const auto upstreams = stats.find("upstreams"); upstreams != stats.end())
    for (const auto& [service, state] : upstreams->items())
      if (const std::string breaker = state.value("breaker", std::string("closed")); breaker != "closed")
        text += "the upstream of " + printable(service) + " fails (breaker: " + breaker + ")\n";
  if (const auto paused = stats.find("paused"); paused != stats.end())
    for (const Json& one : *paused)
      text += "paused: " + printable(one.get<std::string>()) + "\n";
}

std::string role_lines(std::string_view role, const std::string& instance) {
  return "role: " + std::string(role) + "\ninstance: " + printable(instance) + "\n";
}

std::string epoch_lines(std::int64_t epoch, std::int64_t since_commit_ms) {
  return "epoch: " + std::to_string(epoch) + "\nsince_commit_ms: " + std::to_string(since_commit_ms) + "\n";
}

std::string shard_line(const std::string& shard) {
  return shard.empty() ? "" : "shard: " + printable(shard) + "\n";
}

/// Adds the role of the owner of a store that several brokers share; nothing for any other broker.
void add_role(const Json& stats, std::string& text) {
  const auto store = stats.find("store");
  if (store == stats.end() || !store->contains("role")) return;
  text +=
      role_lines(store->value("role", std::string()), store->value("instance", std::string())) +
      epoch_lines(store->value("epoch", std::int64_t{0}), store->value("since_commit_ms", std::int64_t{0}));
}

}  // namespace

Verdict health(std::chrono::milliseconds age) {
  if (age < kSilenceMax) return {true, "ok\n"};
  return {false, "the loop has not answered for " + std::to_string(age.count()) + " ms\n"};
}

Verdict readiness(const Json* stats, std::chrono::milliseconds age) {
  if (Verdict alive = health(age); !alive.good) return alive;
  if (stats == nullptr) return {false, "the loop has not answered yet\n"};
  Verdict verdict;
  if (stats->value("state", std::string()) == "draining") {
    verdict.good = false;
    verdict.text += "draining: the broker stops and takes no work\n";
  }
  if (const std::string store = member(*stats, "store", "state"); store != "good" && store != "none") {
    verdict.good = false;
    verdict.text +=
        "store: " + printable(store) +
        (store == "gone" ? " (its files were removed or replaced; lanemq backup saves what is open)" : "") +
        "\n";
  }
  if (verdict.good) verdict.text = "ready\n";
  add_remarks(*stats, verdict.text);
  add_role(*stats, verdict.text);
  verdict.text += shard_line(stats->value("shard", std::string()));
  return verdict;
}

Verdict readiness(const Candidacy& candidacy) {
  Verdict verdict{false, (candidacy.owns ? "starts: " : "waits: ") + printable(candidacy.why) + "\n" +
                             role_lines(candidacy.owns ? "owner" : "candidate", candidacy.instance)};
  if (!candidacy.owner.empty()) verdict.text += "owner: " + printable(candidacy.owner) + "\n";
  if (candidacy.epoch > 0) verdict.text += epoch_lines(candidacy.epoch, candidacy.since_commit.count());
  verdict.text += shard_line(candidacy.shard);
  return verdict;
}

}  // namespace lanemq::admin
