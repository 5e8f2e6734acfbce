// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/bucket_signs.hpp"

#include <algorithm>

namespace lanemq::core {
namespace {

/// A bucket's reset may differ from what its remaining amount tells by this part of the period, and by what
/// whole seconds and the way of an answer hide.
constexpr std::int64_t kResetTolerance = 20;
constexpr Duration kResetSlack = std::chrono::milliseconds(1500);
/// Parts of a limit: amounts that differ clearly, and much.
constexpr std::int64_t kClearPart = 5, kMuchPart = 4;
/// A reported use below 1/kFarLessPart of what was sent is far less.
constexpr std::int64_t kFarLessPart = 4;
constexpr int kUnlikeMin = 3;

}  // namespace

bool BucketSigns::differs(Duration reset, std::int64_t used, std::int64_t whole, Duration period) {
  const Duration expected = full_in(used, whole, period);
  const Duration differs = reset > expected ? reset - expected : expected - reset;
  return differs > std::max(period / kResetTolerance, kResetSlack);
}

bool BucketSigns::heard(Duration reset, std::int64_t used, std::int64_t whole, std::int64_t sent,
                        Duration period, TimePoint now) {
  if (differs(reset, used, whole, period)) {
    since_ = kNever;
    if (!shown_ || ++doubts_ < kUnlikeMin) return false;
    shown_ = false;
    return true;
  }
  doubts_ = 0;
  if (since_ == kNever) {
    since_ = now;
    least_ = most_ = used;
  }
  least_ = std::min(least_, used);
  most_ = std::max(most_, used);
  if (shown_ || now - since_ < period / 2) return false;
  const bool differ = most_ - least_ >= whole / kClearPart;
  if (!differ && (sent < whole / kMuchPart || kFarLessPart * used > sent)) return false;
  return shown_ = true;
}

}  // namespace lanemq::core
