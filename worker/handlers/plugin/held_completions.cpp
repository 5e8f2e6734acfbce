// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/plugin/held_completions.hpp"

#include <utility>
#include <vector>

namespace lanemq::worker {

HeldCompletions& HeldCompletions::of_process() {
  // Never destroyed: a plugin's thread may answer while the process ends.
  static HeldCompletions* const held = new HeldCompletions;
  return *held;
}

std::uint64_t HeldCompletions::hold(Held held) {
  const std::uint64_t number = ++last_;
  Shard& shard = shard_of(number);
  const std::lock_guard lock(shard.mutex);
  shard.held.emplace(number, std::move(held));
  return number;
}

bool HeldCompletions::with(std::uint64_t number, const std::function<void(Held&)>& use) {
  Shard& shard = shard_of(number);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.held.find(number);
  if (found == shard.held.end()) return false;
  use(found->second);
  return true;
}

bool HeldCompletions::take(std::uint64_t number, const std::function<void(Held&)>& use) {
  Shard& shard = shard_of(number);
  std::unique_lock lock(shard.mutex);
  auto node = shard.held.extract(number);
  lock.unlock();
  if (node.empty()) return false;
  use(node.mapped());
  return true;
}

void HeldCompletions::drop(const void* owner) {
  for (Shard& shard : shards_) {
    std::vector<Held> gone;  // their completions end their jobs outside the lock
    const std::lock_guard lock(shard.mutex);
    for (auto held = shard.held.begin(); held != shard.held.end();) {
      if (held->second.owner == owner) {
        gone.push_back(std::move(held->second));
        held = shard.held.erase(held);
      } else {
        ++held;
      }
    }
  }
}

}  // namespace lanemq::worker
