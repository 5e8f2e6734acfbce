// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/response_owners.hpp"

#include <algorithm>
#include <utility>

namespace lanemq::gateway {

void ResponseOwners::note(std::string_view id, std::string_view owner) {
  if (id.empty() || id.size() > kIdBytesMax) return;
  const std::uint32_t number = number_of(owner);
  const auto [at, is_new] = owners_of_.try_emplace(std::string(id), number);
  if (!is_new) return;
  ids_[number].push_back(&at->first);
  if (keep_) keep_({.id = std::string(id), .owner = std::string(owner)});
  if (owners_of_.size() > kKnownMax) forget_one();
}

std::uint32_t ResponseOwners::number_of(std::string_view owner) {
  const auto [at, is_new] = numbers_.try_emplace(std::string(owner), static_cast<std::uint32_t>(ids_.size()));
  if (is_new) ids_.emplace_back();
  return at->second;
}

void ResponseOwners::forget_one() {
  const auto most = std::max_element(ids_.begin(), ids_.end(),
                                     [](const Ids& a, const Ids& b) { return a.size() < b.size(); });
  owners_of_.erase(owners_of_.find(*most->front()));
  most->pop_front();
}

void ResponseOwners::keep_with(std::vector<OwnedResponse> earlier, Keep keep) {
  for (const OwnedResponse& made : earlier)
    note(made.id, made.owner);
  keep_ = std::move(keep);
}

bool ResponseOwners::belongs(std::string_view id, std::string_view owner) const {
  const auto at = owners_of_.find(std::string(id));
  const auto number = numbers_.find(std::string(owner));
  return at != owners_of_.end() && number != numbers_.end() && at->second == number->second;
}

}  // namespace lanemq::gateway
