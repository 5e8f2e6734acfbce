// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lanemq::bench {

/// What a worker does with a job.
enum class JobKind : std::uint8_t {
  echo,   ///< gives it back as it is
  work,   ///< takes kWorkTime, then gives it back
  probe,  ///< writes down when it began, then gives it back; the bare broker's urgent deque is for these
};

/// The 128 bytes that every job carries and every reply gives back.
struct JobBody {
  JobKind kind = JobKind::echo;
  std::uint32_t slot = 0;          ///< the place in the client's window
  std::uint64_t sequence = 0;      ///< rises with every job of that slot, so a reply counts once
  std::uint64_t submitted_ns = 0;  ///< monotonic clock of the machine, comparable between processes
  std::uint64_t started_ns = 0;    ///< the same clock, written by the worker of a probe
  std::array<char, 96> filler = {};
};

inline constexpr std::size_t kBodyBytes = 128;
static_assert(sizeof(JobBody) == kBodyBytes && std::is_trivially_copyable_v<JobBody>);

/// The kind of the job whose kBodyBytes bytes stand at `body`, which need not be aligned.
inline JobKind kind_of(const void* body) {
  JobKind kind{};
  std::memcpy(&kind, static_cast<const char*>(body) + offsetof(JobBody, kind), sizeof kind);
  return kind;
}

}  // namespace lanemq::bench
