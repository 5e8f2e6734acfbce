// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lanemq::gateway {

/// A response that the upstream stores, an item of one or a container, and the name of the key that asked for
/// it.
struct OwnedResponse {
  std::string id{}, owner{};
};

/// Whose the responses are that the upstream stores: callers with keys share its account, and it tells their
/// responses to whoever knows an id. Known are those that were made through this gateway, and what
/// keep_with() was told of earlier. Belongs to the loop's thread.
class ResponseOwners {
 public:
  using Keep = std::function<void(OwnedResponse made)>;

  /// For one more the oldest one is forgotten of who has most: others keep theirs.
  static constexpr std::size_t kKnownMax = 250'000;
  /// A longer id is not noted.
  static constexpr std::size_t kIdBytesMax = 256;

  /// Who asked for a response has it. An id that is another's stays that.
  void note(std::string_view id, std::string_view owner);
  /// Knows `earlier` ones, the oldest first, and tells `keep` of each new one from now on.
  void keep_with(std::vector<OwnedResponse> earlier, Keep keep);
  bool belongs(std::string_view id, std::string_view owner) const;

 private:
  using Ids = std::deque<const std::string*>;  ///< the oldest first; they stand in owners_of_

  std::uint32_t number_of(std::string_view owner);
  void forget_one();

  std::unordered_map<std::string, std::uint32_t> owners_of_;  ///< of each id
  std::unordered_map<std::string, std::uint32_t> numbers_;    ///< of the owners
  std::vector<Ids> ids_;                                      ///< by their owner's number
  Keep keep_{};                                               ///< may be empty
};

}  // namespace lanemq::gateway
