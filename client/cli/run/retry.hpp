// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include <lanemq/client.hpp>

namespace lanemq::cli {

/// What to do with a line whose job was not answered well.
enum class AfterError : unsigned char {
  give_up,     ///< the line failed
  send_again,  ///< the broker took no work: the same job, later
  run_again    ///< the job ran out of luck: a further attempt of the line, later
};

/// A line on its way.
struct Flight {
  std::uint32_t place = 0;    ///< in InputFile::entries()
  std::uint32_t attempt = 1;  ///< part of the job's id
  int refusals = 0;           ///< in a row
  int retries_left = 0;
};

/// Decides by the error's code. The broker's refusals are waited out however often they come; a job that
/// ended in an error that says when to retry is run again while there are retries left.
AfterError after_error(const ClientError& error, const Flight& flight);

/// How long to wait: what the broker says, else longer with every refusal, up to five seconds. `chance` in
/// [0, 1) spreads those who were refused together.
std::chrono::milliseconds wait_before_retry(const ClientError& error, const Flight& flight, double chance);

}  // namespace lanemq::cli
