// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lanemq::gateway {

/// A response that the upstream stores, and the name of the key that asked for it.
struct OwnedResponse {
  std::string id{}, owner{};
};

/// Whose the responses are that the upstream stores: callers with keys share its account, and it tells their
/// responses to whoever knows an id. Known are those that were made through this gateway, and what
/// keep_with() was told of earlier. Belongs to the loop's thread.
class ResponseOwners {
 public:
  using Keep = std::function<void(OwnedResponse made)>;

  /// The oldest one is forgotten for one more.
  static constexpr std::size_t kKnownMax = 100'000;
  /// A longer id is not noted.
  static constexpr std::size_t kIdBytesMax = 256;

  /// Who asked for a response has it. An id that is another's stays that.
  void note(std::string_view id, std::string_view owner);
  /// Knows `earlier` ones, the oldest first, and tells `keep` of each new one from now on.
  void keep_with(std::vector<OwnedResponse> earlier, Keep keep);
  bool belongs(std::string_view id, std::string_view owner) const;

 private:
  std::unordered_map<std::string, std::string> owners_;
  std::deque<std::string> in_order_;
  Keep keep_{};  ///< may be empty
};

/// The id that an answer to POST /v1/responses names; empty: none can be read. Of a stream: in its first
/// event, which `beginning` has to have whole.
std::string response_id_of(std::string_view answer);
std::string streamed_response_id_of(std::string_view beginning);

}  // namespace lanemq::gateway
