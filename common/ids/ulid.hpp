// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lanemq {

/// Digits of a ULID: 48 bits of time and 80 random bits in Crockford's base 32 (github.com/ulid/spec).
inline constexpr std::size_t kUlidDigits = 26;

/// The ULID of those random bits, made `unix_ms` milliseconds after 1970.
std::string ulid_of(std::uint64_t unix_ms, const std::array<unsigned char, 10>& random);

/// A new unique id, which sorts after all that this program made before, also within a millisecond. Random
/// bits are drawn for each: two ids of one's own tell nothing of how many others were made between them.
/// Thread-safe. Throws as system_entropy().
std::string new_ulid();

/// 80 bits from the system's entropy. Throws std::runtime_error when there is none.
std::array<unsigned char, 10> system_entropy();

}  // namespace lanemq
