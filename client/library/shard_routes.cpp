// SPDX-License-Identifier: Apache-2.0
#include "client/library/shard_routes.hpp"

#include <utility>
#include <variant>

#include <lanemq/text.hpp>

namespace lanemq::client {
namespace {

constexpr std::chrono::milliseconds kRulesRetryAfter{1'000};

std::string named_shard(std::string_view shard) {
  return shard.empty() ? "the broker at the endpoint" : "shard \"" + printable(shard) + "\"";
}

std::string of_both(const std::string& service, const std::string& client) {
  return service + '\0' + client;
}

}  // namespace

bool ShardRoutes::learn(const ClusterWord& word) {
  home_ = word.shard;
  tenant_ = word.tenant;
  std::optional<ShardMap> shards = word.shards.empty() ? ShardMap() : decode_shards(word.shards);
  if (!shards) return false;
  shards_ = *std::move(shards);
  sent_on_.clear();
  return true;
}

void ShardRoutes::sent_on(const std::string& service, const std::string& client, std::string_view shard) {
  if (sent_on_.size() >= kSentOnMax) sent_on_.clear();
  sent_on_.insert_or_assign(of_both(service, client), std::string(shard));
}

std::string_view ShardRoutes::of_new(const std::string& service, const std::string& client) const {
  if (!sent_on_.empty())
    if (const auto at = sent_on_.find(of_both(service, client)); at != sent_on_.end()) return at->second;
  const Shard* const shard = shards_.empty() ? nullptr : shards_.of(service, tenant_);
  return shard != nullptr ? std::string_view(shard->name) : std::string_view();
}

std::vector<std::string_view> ShardRoutes::others_of_new(const std::string& service,
                                                         const std::string& client) const {
  std::vector<std::string_view> others;
  if (client.empty() || sent_on_.contains(of_both(service, client))) return others;
  const std::string_view known = of_new(service, client);
  for (const Shard& shard : shards_.all()) {
    if (!Shard{.name = {}, .services = shard.services}.matches(service, {})) continue;
    if (shard.name != known) others.push_back(shard.name);
    if (shard.tenants.empty()) break;  // it takes what is left
  }
  return others;
}

std::string_view ShardRoutes::of_spend() const {
  return shards_.empty() ? std::string_view() : std::string_view(shards_.all().back().name);
}

std::string_view ShardRoutes::of_job(const std::string& id) const {
  for (const Places* places : {&young_, &old_})
    if (const auto at = places->find(id); at != places->end()) return at->second;
  return {};
}

/// Two generations, of which the older one goes as a whole: so that the oldest go without a list of them.
void ShardRoutes::remember(const std::string& id, std::string_view shard) {
  if (young_.size() >= kRememberedMax / 2) {
    old_ = std::move(young_);
    young_.clear();
  }
  young_.insert_or_assign(id, std::string(shard));
}

JobSearch::State JobSearch::hear(std::string_view shard, const Outcome& answer) {
  --open_;
  const auto* const status = answer ? std::get_if<JobStatus>(&*answer) : nullptr;
  if (status != nullptr && status->state != "unknown") return state_ = State::found;
  if (!answer) {
    silent_.emplace_back(shard);
    const bool is_refused = !answer.error().local || answer.error().code == name_of(ErrorCode::unauthorized);
    if (is_refused && !refusal_) refusal_ = answer.error();
  }
  if (open_ > 0) return state_;
  return state_ = silent_.empty() ? State::unknown : State::unsure;
}

ClientError JobSearch::why_unsure(const std::string& id) const {
  if (refusal_) {
    ClientError error = *refusal_;
    error.id = id;
    return error;
  }
  std::string names;
  for (const std::string& shard : silent_)
    names += (names.empty() ? "" : ", ") + named_shard(shard);
  return {.code = std::string(name_of(ErrorCode::deadline)),
          .message = "no answer from " + names + " within " + std::to_string(time_.count()) +
                     " ms, and no other shard knows the job; ask again later",
          .id = id,
          .local = true};
}

ClientError sent_on_too_often(const std::string& id, std::string_view from, std::string_view to) {
  return {.code = std::string(name_of(ErrorCode::not_owner)),
          .message = "no shard takes the job: brokers have sent it on " +
                     std::to_string(ShardRoutes::kMovesMax) + " times, at last " + named_shard(from) +
                     " to " + named_shard(to) +
                     "; their rules (shard) differ, so submit it again once they are the same",
          .id = id,
          .retry_after = kRulesRetryAfter};
}

}  // namespace lanemq::client
