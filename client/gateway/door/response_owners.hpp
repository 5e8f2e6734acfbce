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

/// An id that an upstream stores (a response, an item of one, or a container), and the key that asked for it.
struct OwnedResponse {
  std::string id{}, owner{};
};

/// Who owns the responses that upstreams store. Callers' keys share the upstream's account, which returns any
/// response to whoever knows its id. Knows those made through this gateway, and the earlier ones from
/// keep_with(). Belongs to the loop's thread.
class ResponseOwners {
 public:
  using Keep = std::function<void(OwnedResponse made)>;

  /// Beyond it the oldest response of the owner with the most is forgotten, so that others keep theirs.
  static constexpr std::size_t kKnownMax = 250'000;
  /// Longer ids are not noted.
  static constexpr std::size_t kIdBytesMax = 256;

  /// Notes an id's owner; an id that has an owner keeps it.
  void note(std::string_view id, std::string_view owner);
  /// Adds `earlier` ones, the oldest first, and calls `keep` with each new one from now on.
  void keep_with(std::vector<OwnedResponse> earlier, Keep keep);
  bool belongs(std::string_view id, std::string_view owner) const;

 private:
  using Ids = std::deque<const std::string*>;  ///< the oldest first; keys of owners_of_

  std::uint32_t number_of(std::string_view owner);
  void forget_one();

  std::unordered_map<std::string, std::uint32_t> owners_of_;  ///< owner's number by id
  std::unordered_map<std::string, std::uint32_t> numbers_;    ///< owner's number by name
  std::vector<Ids> ids_;                                      ///< by owner's number
  Keep keep_{};                                               ///< may be empty
};

}  // namespace lanemq::gateway
