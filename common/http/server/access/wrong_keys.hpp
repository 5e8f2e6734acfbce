// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/http/server/base/loop.hpp"

namespace lanemq::http {

/// Slows down callers that try keys: after a few wrong keys of an address its next refusals are held back,
/// one after the other. A right key is served at once, from that address, too. Belongs to the loop's thread.
class WrongKeys {
 public:
  using TimePoint = Loop::TimePoint;

  static constexpr std::size_t kFree = 10;  ///< wrong keys of an address that are refused at once
  static constexpr std::chrono::milliseconds kBetween{100};  ///< between two later refusals
  static constexpr std::chrono::milliseconds kHoldMax{10'000};
  /// After so long without a wrong key an address has kFree ones again.
  static constexpr std::chrono::minutes kForgetAfter{10};
  static constexpr std::size_t kAddressesMax = 10'000;  ///< beyond it the address known longest is forgotten

  /// Notes a wrong key of an address; returns how long to hold its refusal back.
  std::chrono::milliseconds note(const std::string& address, TimePoint now);
  std::size_t addresses() const { return addresses_.size(); }

 private:
  struct Tries {
    std::size_t count = 0;
    TimePoint last{}, next{};  ///< next: the earliest time of the next refusal
  };

  std::unordered_map<std::string, Tries> addresses_;
  std::deque<std::string> in_order_;
};

}  // namespace lanemq::http
