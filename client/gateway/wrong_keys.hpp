// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "client/gateway/http/loop.hpp"

namespace lanemq::gateway {

/// Slows down who tries keys: after a few wrong ones of an address its next refusals are held back, one after
/// the other. Whoever has a right key is served at once, from that address, too. Belongs to the loop's
/// thread.
class WrongKeys {
 public:
  using TimePoint = Loop::TimePoint;

  static constexpr std::size_t kFree = 10;  ///< wrong keys of an address that are refused at once
  static constexpr std::chrono::milliseconds kBetween{100};  ///< two refusals after that
  static constexpr std::chrono::milliseconds kHoldMax{10'000};
  /// After so long without a wrong key an address has its free ones again.
  static constexpr std::chrono::minutes kForgetAfter{10};
  static constexpr std::size_t kAddressesMax = 10'000;  ///< for one more, the one that is known longest goes

  /// A wrong key came from there: how long its refusal is held back.
  std::chrono::milliseconds note(const std::string& address, TimePoint now);
  std::size_t addresses() const { return addresses_.size(); }

 private:
  struct Tries {
    std::size_t count = 0;
    TimePoint last{}, next{};  ///< next: before it no refusal leaves
  };

  std::unordered_map<std::string, Tries> addresses_;
  std::deque<std::string> in_order_;
};

}  // namespace lanemq::gateway
