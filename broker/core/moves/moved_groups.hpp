// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lanemq::core {

/// The groups of a store from which rows go to another one. A group goes as a whole, since it can be counted
/// in one place alone. Holds the notes of all groups of the store.
class MovedGroups {
 public:
  /// `goes`: the name, or whom it tells, says that it is among what goes.
  void take_note(std::string_view group, std::string_view record, bool goes);
  /// An open job of the group. Requires: it has one.
  void take_job(std::string_view group, bool goes);
  /// A group of which jobs go and others stay; empty: there is none. To be called when all are taken.
  std::string_view torn() const;

  bool goes(std::string_view group) const;
  /// Names and records of those that go and have a note.
  std::vector<std::pair<std::string, std::string>> notes() const;

 private:
  struct Group {
    std::string record;  ///< of its note; empty: it has none
    bool goes = false, stays = false;
  };
  Group& at(std::string_view group) { return groups_[std::string(group)]; }

  std::map<std::string, Group, std::less<>> groups_;
};

}  // namespace lanemq::core
