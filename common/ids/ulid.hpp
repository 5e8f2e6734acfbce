// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lanemq {

/// Digits of a ULID: 48 bits of time and 80 random bits in Crockford's base 32 (github.com/ulid/spec).
inline constexpr std::size_t kUlidDigits = 26;

/// Makes unique ids: ULIDs whose 80 random bits are drawn once and then counted up, so that an id costs no
/// system call. Thread-safe after construction.
class Ulids {
 public:
  /// `random`: 80 bits from the system's entropy.
  explicit Ulids(std::array<unsigned char, 10> random) : random_(random) {}

  /// The `number`-th id, made `unix_ms` milliseconds after 1970. Distinct numbers give distinct ids.
  std::string make_id(std::uint64_t number, std::uint64_t unix_ms) const;

 private:
  std::array<unsigned char, 10> random_;
};

/// A new unique id. Thread-safe. Throws as system_entropy().
std::string new_ulid();

/// 80 bits from the system's entropy. Throws std::runtime_error when there is none.
std::array<unsigned char, 10> system_entropy();

}  // namespace lanemq
