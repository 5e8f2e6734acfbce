// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/retry.hpp"

#include <algorithm>

namespace lanemq::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstWait{100};
constexpr milliseconds kLongestOwnWait{5'000};
constexpr milliseconds kLongestToldWait{60'000};  // after it the broker is asked again, whatever it said

}  // namespace

bool may_succeed_later(const ClientError& error) {
  const std::optional<ErrorCode> code = error.known_code();
  return error.retry_after || (code && error_info(*code).says_when_to_retry) ||
         code == ErrorCode::cancelled || code == ErrorCode::deadline || code == ErrorCode::internal;
}

bool concerns_all_lines(const ClientError& error) {
  // A 400 or 422 is about a line's own body.
  const int status = error.upstream_status.value_or(0);
  return error.known_code() == ErrorCode::forbidden || status == 401 || status == 403 || status == 404 ||
         status == 405;
}

AfterError after_error(const ClientError& error, const Flight& flight) {
  const std::optional<ErrorCode> code = error.known_code();
  if (code && is_refusal(*code)) return AfterError::send_again;
  // Of a job that was taken no error has these codes: what a worker calls it stands in the message.
  if (!error.local && (code == ErrorCode::bad_request || code == ErrorCode::unauthorized))
    return AfterError::stop;
  const bool may_be_retried = error.retry_after || (code && error_info(*code).says_when_to_retry);
  return may_be_retried && flight.retries_left > 0 ? AfterError::run_again : AfterError::give_up;
}

milliseconds wait_before_retry(const ClientError& error, const Flight& flight, double chance) {
  const milliseconds own = std::min(kFirstWait * (1 << std::min(flight.refusals, 10)), kLongestOwnWait);
  const milliseconds told = std::min(error.retry_after.value_or(milliseconds(0)), kLongestToldWait);
  // At least as long as the broker said, and up to a quarter longer.
  const milliseconds base = error.retry_after ? std::max(told, kFirstWait) : own;
  return base + milliseconds(static_cast<std::int64_t>(static_cast<double>(base.count()) * 0.25 * chance));
}

}  // namespace lanemq::cli
