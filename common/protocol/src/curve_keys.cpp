// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>

#include <lanemq/curve_keys.hpp>

namespace lanemq {

bool is_curve_key(std::string_view text) {
  constexpr std::string_view kDigits =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
  constexpr std::size_t kGroup = 5;  // characters for four bytes
  if (text.size() != kCurveKeyChars) return false;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) return false;
    value = (i % kGroup == 0 ? 0 : value * kDigits.size()) + digit;
    if (value > std::numeric_limits<std::uint32_t>::max()) return false;
  }
  return true;
}

std::string CurveKeys::why_unusable() const {
  if (broker.empty() && secret.empty()) return {};
  if (broker.empty()) return "a secret key needs the broker's public key beside it";
  if (secret.empty()) return "the broker's public key needs a secret key of one's own beside it";
  if (!is_curve_key(broker)) return "the broker's public key is no key: a key has 40 characters of Z85";
  if (!is_curve_key(secret)) return "the secret key is no key: a key has 40 characters of Z85";
  return {};
}

}  // namespace lanemq
