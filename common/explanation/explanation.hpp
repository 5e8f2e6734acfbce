// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lanemq {

/// What the broker says of a job, by the protocol's names.
struct JobNow {
  std::string id{}, lane{}, state{}, blocked_by{}, worker{};
  std::int64_t attempts = 0;
  std::optional<std::chrono::milliseconds> eta{};
  std::string error_code{}, error_message{};  ///< that it ended with
};

/// A job's state in plain words, safe for a terminal.
struct Explanation {
  std::string what;  ///< what the job does, and the one thing it waits for
  std::string help;  ///< what would help; empty: nothing is needed
};

Explanation explain(const JobNow& job);

/// What helps where the upstream refused the key of the worker.
inline constexpr std::string_view kKeyHelp =
    "The key is the worker's: give lanemq-worker the right one and restart it; the upstream's message says "
    "what is wrong with this one.";

/// 950ms, 12.3s, 4m05s, 2h07m.
std::string short_duration(std::chrono::milliseconds duration);

}  // namespace lanemq
