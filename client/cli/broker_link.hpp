// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>

#include <lanemq/client.hpp>

#include "client/cli/commands.hpp"
#include "client/cli/terminal.hpp"

namespace lanemq::cli {

/// The options of a client of this program; what it has to tell goes to the terminal.
ClientOptions client_options(const Common& common);

/// Whether it is ready within the time; false earlier where interrupted() is so.
template <class T>
bool ready_within(const std::future<T>& reply, std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kLookForSignalsEvery{50};
  const auto end = std::chrono::steady_clock::now() + time;
  while (reply.wait_for(kLookForSignalsEvery) != std::future_status::ready)
    if (interrupted() != 0 || std::chrono::steady_clock::now() >= end) return false;
  return true;
}

/// Whether the broker answers within the connect timeout; says so when it does not, unless interrupted().
bool reaches(Client& client, const Common& common);

/// Says that no broker answers there.
void say_unreachable(const Common& common);

/// What is left to do when no broker answered, which was said: a program that asked for JSON gets its line.
/// Returns the exit code.
int end_unreached(const Common& common, bool json);

/// What is left to do when the broker refused: says it, and gives a program that asked for JSON its line.
/// Returns the exit code.
int end_refused(const ClientError& error, bool json);

/// Says an error with its code, where it failed, and when to try again; the upstream's body goes to the
/// standard error as it is.
void say_error(const ClientError& error);

/// Rows of an answer that is no list.
inline constexpr std::size_t kNoList = static_cast<std::size_t>(-1);

/// What an operator is answered: the document, or of a list (`rows_max` is not kNoList) as many pages of it
/// as hold so many rows. Empty: there is no answer, why was said (with `json` to a program as well), and
/// `code` is the exit code.
std::optional<std::string> ask_operator(Client& client, const Common& common, AdminRequest request,
                                        std::size_t rows_max, bool json, int& code);

/// A job's request from what was given on the command line.
JobRequest request_of(const JobOptions& options);

/// The reply to a request that was just made, or empty when no broker can be reached (which is said then), or
/// interrupted(). A broker that was reached once is waited for; `waits_on` is called where that takes longer
/// than kMoment.
inline constexpr std::chrono::seconds kMoment{2};
template <class T>
std::optional<T> wait_for(std::future<T>& reply, Client& client, const Common& common,
                          const std::function<void()>& waits_on = {}) {
  // An answer that is there already needs no proof that somebody is there to give it.
  if (reply.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready &&
      !reaches(client, common) && reply.wait_for(std::chrono::milliseconds(0)) != std::future_status::ready)
    return std::nullopt;
  if (waits_on && !ready_within(reply, kMoment) && interrupted() == 0) waits_on();
  while (!ready_within(reply, common.connect_timeout))
    if (interrupted() != 0) return std::nullopt;
  return reply.get();
}

}  // namespace lanemq::cli
