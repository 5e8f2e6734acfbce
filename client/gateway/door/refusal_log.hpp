// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "client/gateway/apis/http_words.hpp"
#include "common/http/server/base/loop.hpp"

namespace lanemq::gateway {

/// Tells of requests that were refused for who sent them or since no worker served them, and of connections
/// that were closed over a bound, of each a line a second at most. Belongs to the loop's thread.
class RefusalLog {
 public:
  static constexpr std::chrono::seconds kBetween{1};
  static constexpr std::size_t kHashDigits = 6;  ///< of a secret's hash: enough to tell secrets apart

  struct Refused {
    std::string_view reason, address;
    std::string_view hash{};  ///< of the secret; empty: there was none
    std::string_view method{}, path{};
  };
  void note(const Refused& refused, Loop::TimePoint now);
  /// `bound`: the bound's name.
  void note_connection(std::string_view address, std::string_view bound, Loop::TimePoint now);
  /// No worker serves this service.
  void note_unserved(std::string_view service, Loop::TimePoint now);

 private:
  struct Line {
    Loop::TimePoint next{};
    std::uint64_t untold = 0;

    bool may_be_told(Loop::TimePoint now);
  };
  Line requests_, connections_, services_;
};

}  // namespace lanemq::gateway
