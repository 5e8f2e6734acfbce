// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "tests/support/upstream/limiter.hpp"
#include "tests/support/upstream/request.hpp"

namespace lanemq::upstream {

/// What a caller wants to go wrong or otherwise, said by the name of its model: MODEL+NAME=VALUE+NAME=VALUE…
/// Thus a fault reaches the double through any gateway, for that call alone.
struct ModelFaults {
  unsigned status = 0;                           ///< Refused with this status; 0: not.
  std::optional<std::uint64_t> retry_after_s{};  ///< Told beside that status.
  std::string code{};                            ///< Of the error beside that status.
  bool no_answer = false;                        ///< The connection is reset instead of an answer.
  bool hold = false;                             ///< Not a byte before the model is released.
  std::optional<Duration> delay{};               ///< To the first byte.
  std::optional<Duration> gap{};                 ///< Between deltas.
  std::optional<std::uint64_t> tokens{};         ///< Of the answer, if it allows as many.
  std::optional<std::uint64_t> reset_bytes{};    ///< The connection is reset after so much of the body.
  std::optional<std::uint64_t> half_bytes{};     ///< The connection is closed after so much of the body.
  std::optional<std::uint64_t> eof_deltas{};     ///< The stream ends after so many deltas, without its end.
  std::optional<std::uint64_t> error_deltas{};   ///< The same, with an error event.
  std::optional<std::uint64_t> stall_deltas{};   ///< After so many deltas nothing more comes.
  std::optional<std::uint64_t> pause_deltas{};   ///< The same, until the model is released.
  std::size_t drip = 0;                          ///< Bytes a write; 0: as they come.
  bool pings = false;                            ///< An event `ping` before each delta.
  bool comments = false;                         ///< A comment before each delta.
  std::string_view line_end = "\n";              ///< Of events.
  bool stamps = false;      ///< Each delta's text is when it was sent, in microseconds since 1970.
  std::uint64_t first = 0;  ///< Only for the first so many calls with the same body; 0: for all.
};

/// The longest any of these waits may be, and the most that any of the counts may say.
inline constexpr Duration kFaultWaitMax = std::chrono::hours(1);
inline constexpr std::uint64_t kFaultCountMax = 1'000'000'000;

/// Reads what follows the first `+` of a model's name. What is not known, or has no such value, is an error
/// that names it.
tl::expected<ModelFaults, ApiError> parse_model_faults(std::string_view model);

/// All pieces there are, one a line, for --help.
std::string model_faults_help();

}  // namespace lanemq::upstream
