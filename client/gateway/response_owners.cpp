// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/response_owners.hpp"

#include <utility>

#include "json/cursor.hpp"
#include "json/members.hpp"

namespace lanemq::gateway {

void ResponseOwners::note(std::string_view id, std::string_view owner) {
  if (id.empty() || id.size() > kIdBytesMax) return;
  if (!owners_.try_emplace(std::string(id), owner).second) return;
  in_order_.emplace_back(id);
  if (keep_) keep_({.id = std::string(id), .owner = std::string(owner)});
  if (in_order_.size() <= kKnownMax) return;
  owners_.erase(in_order_.front());
  in_order_.pop_front();
}

void ResponseOwners::keep_with(std::vector<OwnedResponse> earlier, Keep keep) {
  for (const OwnedResponse& made : earlier)
    note(made.id, made.owner);
  keep_ = std::move(keep);
}

bool ResponseOwners::belongs(std::string_view id, std::string_view owner) const {
  const auto at = owners_.find(std::string(id));
  return at != owners_.end() && at->second == owner;
}

std::string response_id_of(std::string_view answer) {
  return unquoted_json(member_bytes(answer, "id")).value_or("");
}

std::string streamed_response_id_of(std::string_view beginning) {
  constexpr std::string_view kData = "data:";
  for (std::size_t end = beginning.find('\n'); end != std::string_view::npos; end = beginning.find('\n')) {
    const std::string_view line = beginning.substr(0, end);
    beginning.remove_prefix(end + 1);
    if (!line.starts_with(kData)) continue;
    return response_id_of(member_bytes(line.substr(kData.size()), "response"));
  }
  return {};
}

}  // namespace lanemq::gateway
