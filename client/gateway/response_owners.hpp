// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace lanemq::gateway {

/// Whose the responses are that the upstream stores: callers with keys share its account, and it tells their
/// responses to whoever knows an id. Known are those that were made through this gateway since its start.
/// Belongs to the loop's thread.
class ResponseOwners {
 public:
  /// The oldest one is forgotten for one more.
  static constexpr std::size_t kKnownMax = 100'000;
  /// A longer id is not noted.
  static constexpr std::size_t kIdBytesMax = 256;

  /// Who asked for a response has it. An id that is another's stays that.
  void note(std::string_view id, std::string_view owner);
  bool belongs(std::string_view id, std::string_view owner) const;

 private:
  std::unordered_map<std::string, std::string> owners_;
  std::deque<std::string> in_order_;
};

/// The id that an answer to POST /v1/responses names; empty: none can be read. Of a stream: in its first
/// event, which `beginning` has to have whole.
std::string response_id_of(std::string_view answer);
std::string streamed_response_id_of(std::string_view beginning);

}  // namespace lanemq::gateway
