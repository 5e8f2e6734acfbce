// SPDX-License-Identifier: Apache-2.0
#include "common/ids/ulid.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <stdexcept>

#include <sys/random.h>

namespace lanemq {
namespace {

constexpr char kCrockford[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The last id of this program.
struct Last {
  std::mutex mutex;
  std::uint64_t ms = 0;
  std::array<unsigned char, 10> bits{};
};

/// How far the clock may be set back without an id that sorts before the last one.
constexpr std::uint64_t kSetBackMs = 10'000;

}  // namespace

std::string ulid_of(std::uint64_t unix_ms, const std::array<unsigned char, 10>& random) {
  std::array<unsigned char, 16> bits{};
  for (std::size_t i = 0; i < 6; ++i)
    bits[i] = static_cast<unsigned char>(unix_ms >> (40 - 8 * i));
  std::copy(random.begin(), random.end(), bits.begin() + 6);

  // 128 bits are 26 digits of 5 bits, the first of them with only 3.
  std::string id(kUlidDigits, '0');
  unsigned window = 0;
  int held = 2;
  std::size_t digit = 0;
  for (const unsigned char byte : bits) {
    window = window << 8 | byte;
    held += 8;
    while (held >= 5) {
      held -= 5;
      id[digit++] = kCrockford[window >> held & 31];
    }
    window &= (1u << held) - 1;
  }
  return id;
}

std::string new_ulid() {
  static Last last;
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const auto ms =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count());
  const std::array<unsigned char, 10> random = system_entropy();
  const std::lock_guard held(last.mutex);
  if (ms > last.ms || last.ms - ms > kSetBackMs) {
    last.ms = ms;
    last.bits = random;
    last.bits[0] &= 0x7F;  // so that many can follow in this millisecond
    return ulid_of(last.ms, last.bits);
  }
  // Greater than the last one, by a step that tells nothing: up to 2^64.
  unsigned carry = 1;
  for (std::size_t i = last.bits.size(); i-- > 0;) {
    carry += last.bits[i] + (i < 2 ? 0u : random[i]);
    last.bits[i] = static_cast<unsigned char>(carry);
    carry >>= 8;
  }
  if (carry > 0) ++last.ms;
  return ulid_of(last.ms, last.bits);
}

std::array<unsigned char, 10> system_entropy() {
  std::array<unsigned char, 10> random{};
  // The kernel delivers up to 256 bytes at once, and no signal interrupts that.
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    throw std::runtime_error("the system gives no random numbers (getrandom)");
  return random;
}

}  // namespace lanemq
