// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "client/gateway/http/loop.hpp"

namespace lanemq::gateway {

/// Tells of requests that were refused for who sent them, a line a second at most. Belongs to the loop's
/// thread.
class RefusalLog {
 public:
  static constexpr std::chrono::seconds kBetween{1};
  static constexpr std::size_t kHashDigits = 6;  ///< of a secret's hash: which one it was, and not what

  struct Refused {
    std::string_view reason, address;
    std::string_view hash{};  ///< of the secret; empty: there was none
    std::string_view method{}, path{};
  };
  void note(const Refused& refused, Loop::TimePoint now);

 private:
  Loop::TimePoint next_{};
  std::uint64_t untold_ = 0;
};

}  // namespace lanemq::gateway
