// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// The kinds of things that an operator can pause.
enum class PauseKind : std::uint8_t { lane, service, client, budget };

std::string_view name_of(PauseKind kind);
/// None for a name that is no kind's.
std::optional<PauseKind> pause_kind(std::string_view name);

/// An operator's order that no job of a lane, service, client or budget is handed over.
struct Pause {
  PauseKind kind;
  std::string name;    ///< of the lane, service, client or budget
  std::string reason;  ///< as the operator gave it; may be empty
  TimePoint since{};
};

/// All pauses, by kind and name, with their reasons. Dispatch asks the lane, service, client or budget
/// itself, which has a flag.
class Pauses {
 public:
  static constexpr std::size_t kMax = 1024;

  using Key = std::pair<PauseKind, std::string>;

  bool empty() const { return all_.empty(); }
  bool full() const { return all_.size() >= kMax; }
  /// Null: it is not paused.
  const Pause* find(PauseKind kind, const std::string& name) const {
    const auto place = all_.find({kind, name});
    return place == all_.end() ? nullptr : &place->second;
  }
  /// Adds the pause, or replaces that of the same kind and name. Requires: it replaces one, or !full().
  void set(Pause pause) { all_.insert_or_assign({pause.kind, pause.name}, pause); }
  void remove(PauseKind kind, const std::string& name) { all_.erase({kind, name}); }
  const std::map<Key, Pause>& all() const { return all_; }

 private:
  std::map<Key, Pause> all_;
};

}  // namespace lanemq::core
