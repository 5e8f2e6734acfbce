// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace lanemq::client {

/// Makes ids that no other maker makes: ULIDs whose 80 random bits are drawn once and then counted on, so
/// that an id costs no system call.
///
/// Not thread-safe to make; make_id() may be called from any thread.
class JobIds {
 public:
  /// `random`: 80 bits from the system's entropy.
  explicit JobIds(std::array<unsigned char, 10> random) : random_(random) {}

  /// The id of the `number`-th job, made `unix_ms` milliseconds after 1970. Distinct numbers give distinct
  /// ids.
  std::string make_id(std::uint64_t number, std::uint64_t unix_ms) const;

 private:
  std::array<unsigned char, 10> random_;
};

/// 80 bits from the system's entropy. Throws std::runtime_error when there is none.
std::array<unsigned char, 10> system_entropy();

}  // namespace lanemq::client
