// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace lanemq::core {

/// The unit that a limit counts.
enum class Resource : std::uint8_t { requests, tokens, input_tokens, output_tokens };

/// The amounts that a job takes, or took, from its upstream's limits.
struct Amounts {
  std::int64_t requests = 1, input_tokens = 0, output_tokens = 0;

  std::int64_t of(Resource resource) const {
    switch (resource) {
      case Resource::requests:
        return requests;
      case Resource::tokens:
        return input_tokens + output_tokens;
      case Resource::input_tokens:
        return input_tokens;
      case Resource::output_tokens:
        return output_tokens;
    }
    return requests;
  }
  bool operator==(const Amounts&) const = default;
};

inline Amounts sum_of(const Amounts& a, const Amounts& b) {
  return {.requests = a.requests + b.requests,
          .input_tokens = a.input_tokens + b.input_tokens,
          .output_tokens = a.output_tokens + b.output_tokens};
}

/// By this cost lanes, flows and clients share: the tokens, or 1 where tokens are not counted.
inline std::int64_t cost_of(const Amounts& amounts) {
  return std::max<std::int64_t>(amounts.input_tokens + amounts.output_tokens, 1);
}

/// A job's claim on its budgets, and its standing among others.
struct Claim {
  Amounts amounts;
  std::size_t lane = 0;      ///< the level at which it competes, 0 the top lane
  int hold = 0;              ///< thousandths of each burst that the claim leaves to the lanes above
  std::uint64_t number = 0;  ///< accounts that are earmarked away from this claim note it; 0: none is
  bool key_refused = false;  ///< an upstream refused a key of the job: it is not used to try a resting key
  std::uint16_t refused_key = kNoKey;  ///< that key's place in the set's pool: the job does not get it again
  static constexpr std::uint16_t kNoKey = 0xFFFF;
};

}  // namespace lanemq::core
