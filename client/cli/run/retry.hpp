// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include <lanemq/client.hpp>

namespace lanemq::cli {

/// What to do with a line that has no good answer.
enum class AfterError : unsigned char {
  give_up,     ///< the line failed
  stop,        ///< the broker refuses what all lines have in common, so that none can succeed
  send_again,  ///< the broker refused the job: the same job later
  run_again    ///< the job failed: a further attempt of the line later
};

/// A line whose job is at the broker or waits to be sent again.
struct Flight {
  std::uint32_t place = 0;    ///< index in InputFile::entries()
  std::uint32_t attempt = 1;  ///< part of the job's id
  int refusals = 0;           ///< of the broker, in a row
  int retries_left = 0;
};

/// Whether the same line may succeed when it is sent again as it is.
bool may_succeed_later(const ClientError& error);

/// Whether it is about the key, the path or the rights with which all lines are sent, not about this one.
bool concerns_all_lines(const ClientError& error);

/// Decides by the error's code. Refusals of the broker are waited out, however many. A job whose error says
/// when to retry is run again while it has retries left.
AfterError after_error(const ClientError& error, const Flight& flight);

/// How long to wait: as the broker says, else longer with each refusal, up to five seconds. `chance` in [0,
/// 1) spreads lines that were refused together.
std::chrono::milliseconds wait_before_retry(const ClientError& error, const Flight& flight, double chance);

}  // namespace lanemq::cli
