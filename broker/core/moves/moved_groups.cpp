// SPDX-License-Identifier: Apache-2.0
#include "broker/core/moves/moved_groups.hpp"

namespace lanemq::core {

void MovedGroups::take_note(std::string_view group, std::string_view record, bool goes) {
  Group& known = at(group);
  known.record = record;
  known.goes = known.goes || goes;
}

void MovedGroups::take_job(std::string_view group, bool goes) {
  Group& known = at(group);
  (goes ? known.goes : known.stays) = true;
}

std::string_view MovedGroups::torn() const {
  for (const auto& [name, group] : groups_)
    if (group.goes && group.stays) return name;
  return {};
}

bool MovedGroups::goes(std::string_view group) const {
  const auto known = groups_.find(group);
  return known != groups_.end() && known->second.goes;
}

std::vector<std::pair<std::string, std::string>> MovedGroups::notes() const {
  std::vector<std::pair<std::string, std::string>> notes;
  for (const auto& [name, group] : groups_)
    if (group.goes && !group.record.empty()) notes.emplace_back(name, group.record);
  return notes;
}

}  // namespace lanemq::core
