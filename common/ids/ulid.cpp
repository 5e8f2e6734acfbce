// SPDX-License-Identifier: Apache-2.0
#include "common/ids/ulid.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>

#include <sys/random.h>

namespace lanemq {
namespace {

constexpr char kCrockford[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

}  // namespace

std::string Ulids::make_id(std::uint64_t number, std::uint64_t unix_ms) const {
  std::array<unsigned char, 16> bits{};
  for (std::size_t i = 0; i < 6; ++i)
    bits[i] = static_cast<unsigned char>(unix_ms >> (40 - 8 * i));
  // The low 64 random bits count up modulo 2^64. The lost carry does no harm: the ids stay distinct.
  std::uint64_t low = 0;
  for (std::size_t i = 2; i < random_.size(); ++i)
    low = low << 8 | random_[i];
  low += number;
  bits[6] = random_[0];
  bits[7] = random_[1];
  for (std::size_t i = 0; i < 8; ++i)
    bits[8 + i] = static_cast<unsigned char>(low >> (56 - 8 * i));

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
  static const Ulids ulids(system_entropy());
  static std::atomic<std::uint64_t> number{0};
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
  return ulids.make_id(++number, static_cast<std::uint64_t>(ms));
}

std::array<unsigned char, 10> system_entropy() {
  std::array<unsigned char, 10> random{};
  // The kernel delivers up to 256 bytes at once, and no signal interrupts that.
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    throw std::runtime_error("the system gives no random numbers (getrandom)");
  return random;
}

}  // namespace lanemq
