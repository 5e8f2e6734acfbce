// SPDX-License-Identifier: Apache-2.0
#include "client/cli/cluster_view.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>

#include <nlohmann/json.hpp>

#include <lanemq/text.hpp>

#include "client/cli/text/table.hpp"
#include "common/explanation/explanation.hpp"

namespace lanemq::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Of a text that somebody else made.
constexpr std::size_t kMemberTextMax = 200;

std::int64_t integer_of(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The lines `name: value` of an answer, and the first of its lines.
struct Lines {
  std::string first;
  std::map<std::string, std::string, std::less<>> named;

  explicit Lines(std::string_view text) {
    first = printable(text.substr(0, text.find('\n')), kMemberTextMax);
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      if (const std::size_t colon = line.find(": "); colon != std::string_view::npos)
        named.try_emplace(std::string(line.substr(0, colon)),
                          printable(line.substr(colon + 2), kMemberTextMax));
    }
  }
  std::string value(std::string_view name) const {
    const auto at = named.find(name);
    return at == named.end() ? std::string() : at->second;
  }
};

/// Owners by their epochs. One that begins to serve is seen twice: by its HTTP before it tells its epoch, and
/// at its endpoint after.
std::map<std::int64_t, std::string> owners_of(const std::vector<Member>& members) {
  std::map<std::int64_t, std::string> owners;
  for (const Member& member : members)
    if (member.role == "owner") owners.try_emplace(member.epoch, member.instance);
  const auto starts = owners.find(0);
  if (starts != owners.end() && std::any_of(std::next(starts), owners.end(), [&](const auto& owner) {
        return owner.second == starts->second;
      }))
    owners.erase(starts);
  return owners;
}

std::string named(const std::string& instance, std::int64_t epoch) {
  return "\"" + instance + "\"" + (epoch > 0 ? " (epoch " + std::to_string(epoch) + ")" : "");
}

}  // namespace

Member member_of_stats(const std::string& endpoint, const std::string& stats) {
  Member member{.at = printable(endpoint), .says = {}};
  const Json document = Json::parse(stats, nullptr, false);
  const auto store = document.is_object() ? document.find("store") : document.end();
  if (store == document.end() || !store->is_object()) {
    member.says = "its answer cannot be read";
    return member;
  }
  const auto text = [](const Json& object, const char* name) {
    const auto at = object.find(name);
    return at != object.end() && at->is_string() ? printable(at->get<std::string>(), kMemberTextMax)
                                                 : std::string();
  };
  const auto number = [&](const char* name) {
    const auto at = store->find(name);
    return at != store->end() && at->is_number_integer() ? std::optional(at->get<std::int64_t>())
                                                         : std::nullopt;
  };
  member.shard = text(document, "shard");
  member.role = text(*store, "role");
  member.instance = text(*store, "instance");
  member.epoch = number("epoch").value_or(0);
  member.since_commit_ms = number("since_commit_ms");
  member.shares_no_store = member.role.empty();
  const std::string state = text(*store, "state");
  member.says = member.role.empty()
                    ? "its store is " + text(*store, "kind") + ", which no other broker shares"
                : state == "good" ? text(document, "state")
                                  : "store: " + state;
  return member;
}

Member member_of_http(const GatewayFacts& looked) {
  if (!looked.why_not.empty()) return silent_member(looked.url, looked.why_not);
  Member member{.at = printable(looked.url), .says = {}, .by_http = true};
  const Lines lines(looked.body);
  member.shard = lines.value("shard");
  member.role = lines.value("role");
  member.instance = lines.value("instance");
  member.owner = lines.value("owner");
  member.epoch = integer_of(lines.value("epoch"));
  if (const std::string since = lines.value("since_commit_ms"); !since.empty())
    member.since_commit_ms = integer_of(since);
  member.says = lines.first;
  // Who shares a store says its role; a broker of a shard that says none has a store of its own.
  member.shares_no_store = member.role.empty() && !member.shard.empty();
  if (member.role.empty())
    member.says = looked.status == 200 || looked.status == 503
                      ? member.says + "; it says nothing of a store that brokers share"
                      : "it answers " + std::to_string(looked.status) + ", and is no broker's HTTP";
  if (!looked.distrust.empty())
    member.says += " (its certificate is not trusted here: " + looked.distrust + ")";
  return member;
}

Member silent_member(const std::string& endpoint, const std::string& why, const std::string& shard) {
  return {.at = printable(endpoint), .shard = printable(shard), .says = why, .answers = false};
}

namespace {

bool has_shards(const std::vector<Member>& members) {
  return std::any_of(members.begin(), members.end(), [](const Member& one) { return !one.shard.empty(); });
}

/// Of brokers for one store.
ClusterVerdict judge_store(const std::vector<Member>& members) {
  const auto owners = owners_of(members);
  ClusterVerdict verdict{
      .good = owners.size() == 1,
      .answered = std::any_of(members.begin(), members.end(), [](const Member& one) { return one.answers; })};
  if (owners.size() == 1) {
    verdict.says = named(owners.begin()->second, owners.begin()->first) + " owns the store";
    return verdict;
  }
  if (owners.size() > 1) {
    verdict.says = "several say that they own the store: ";
    for (const auto& [epoch, instance] : owners)
      verdict.says += (epoch == owners.begin()->first ? "" : ", ") + named(instance, epoch);
    verdict.says += "; of one store the highest epoch counts, and the others end by themselves";
    return verdict;
  }
  const auto seen =
      std::find_if(members.begin(), members.end(), [](const Member& one) { return !one.owner.empty(); });
  if (seen != members.end())
    verdict.says = named(seen->owner, seen->epoch) + " owned the store last, and did not answer here";
  else if (!verdict.answered)
    verdict.says = "no broker answers";
  else
    verdict.says = "no broker that answers owns a shared store";
  return verdict;
}

/// How many brokers serve from stores of their own, at least. Nothing tells which HTTP is of the broker at
/// which endpoint, so each of both may be of one broker; two endpoints are two.
std::size_t with_own_store(const std::vector<Member>& members) {
  std::size_t at_endpoints = 0, by_http = 0;
  for (const Member& member : members)
    if (member.shares_no_store) ++(member.by_http ? by_http : at_endpoints);
  return std::max(at_endpoints, by_http);
}

ClusterVerdict judge_shard(const std::string& shard, const std::vector<Member>& members) {
  const std::size_t own = with_own_store(members);
  if (own == 0) return judge_store(members);
  if (std::any_of(members.begin(), members.end(), [](const Member& one) { return !one.role.empty(); })) {
    ClusterVerdict verdict = judge_store(members);
    verdict.good = false;
    verdict.says += "; " + std::to_string(own) + " more serve" + (own == 1 ? "s" : "") + " shard " + shard +
                    " from a store of its own";
    return verdict;
  }
  if (own == 1) return {.good = true, .answered = true, .says = "one broker serves from its own store"};
  return {.answered = true,
          .says = std::to_string(own) + " brokers serve shard " + shard + ", each from a store of its own"};
}

}  // namespace

/// Each shard has a store of its own. A broker that does not say whose it is counts for none.
ClusterVerdict judge_cluster(const std::vector<Member>& members) {
  if (!has_shards(members)) return judge_store(members);
  std::map<std::string, std::vector<Member>> shards;
  for (const Member& member : members)
    if (!member.shard.empty()) shards[member.shard].push_back(member);
  ClusterVerdict verdict{.good = true};
  for (const auto& [shard, its] : shards) {
    const ClusterVerdict of_shard = judge_shard(shard, its);
    verdict.good = verdict.good && of_shard.good;
    verdict.answered = verdict.answered || of_shard.answered;
    verdict.says += (verdict.says.empty() ? "" : "\n") + ("shard \"" + shard + "\": " + of_shard.says);
  }
  return verdict;
}

std::string cluster_text(const std::vector<Member>& members, bool colour, std::size_t columns) {
  std::vector<TableRow> rows{{"ENDPOINT", "role", "instance", "epoch", "commit", "says"}};
  const bool with_shards = has_shards(members);
  if (with_shards) rows.front().insert(rows.front().begin() + 1, "shard");
  const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
  for (const Member& member : members)
    rows.push_back({member.at, or_dash(member.role), or_dash(member.instance),
                    member.epoch > 0 ? std::to_string(member.epoch) : "-",
                    member.since_commit_ms
                        ? short_duration(std::chrono::milliseconds(*member.since_commit_ms)) + " ago"
                        : "-",
                    member.says});
  if (with_shards)
    for (std::size_t i = 0; i < members.size(); ++i)
      rows[i + 1].insert(rows[i + 1].begin() + 1, or_dash(members[i].shard));
  return aligned_table(rows, colour, columns) + judge_cluster(members).says + "\n";
}

std::string cluster_json(const std::vector<Member>& members) {
  Json list = Json::array();
  for (const Member& member : members) {
    Json& row = list.emplace_back(Json{{"at", member.at}, {"answers", member.answers}});
    if (!member.shard.empty()) row["shard"] = member.shard;
    if (!member.role.empty()) row["role"] = member.role;
    if (!member.instance.empty()) row["instance"] = member.instance;
    if (!member.owner.empty()) row["owner"] = member.owner;
    if (member.epoch > 0) row["epoch"] = member.epoch;
    if (member.since_commit_ms) row["since_commit_ms"] = *member.since_commit_ms;
    row["says"] = member.says;
  }
  const ClusterVerdict verdict = judge_cluster(members);
  Json document{{"good", verdict.good}, {"says", verdict.says}, {"members", std::move(list)}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lanemq::cli
