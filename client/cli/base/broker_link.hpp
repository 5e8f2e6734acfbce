// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include <lanemq/client.hpp>

#include "client/cli/base/commands.hpp"
#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {

/// Throws settings::UsageError, with the option's name, for endpoints that nobody could have.
void check_endpoints(const char* option, const std::string& endpoints);

/// Whether the command goes to a broker's endpoint for operators, which is that broker's alone.
bool asks_operators(const Common& common);

/// Options of a Client of this program; its log goes to the terminal.
ClientOptions client_options(const Common& common);

inline constexpr std::chrono::milliseconds kLookForSignalsEvery{50};
/// So long whoever looks what is at an endpoint waits for its first bytes.
inline constexpr std::chrono::milliseconds kLookPatience{1'000};

/// Waits until the future is ready. False: the time is over, or interrupted().
template <class T>
bool ready_within(const std::future<T>& reply, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (reply.wait_for(kLookForSignalsEvery) != std::future_status::ready)
    if (interrupted() != 0 || std::chrono::steady_clock::now() >= end) return false;
  return true;
}

/// Whether the broker answers within the connect timeout. Prints why not, unless interrupted().
bool reaches(Client& client, const Common& common);

/// Says, while a command waits for a broker that it has heard before, that none answers: after kFirst, and
/// then ever more seldom.
class SilenceWatch {
 public:
  static constexpr std::chrono::seconds kFirst{5}, kMostSeldom{300};
  /// How often look() is called, at the least.
  static constexpr std::chrono::milliseconds kEvery{500};

  /// Both outlive it.
  SilenceWatch(const Client& client, const Common& common) : client_(client), common_(common) {}
  void look();

 private:
  const Client& client_;
  const Common& common_;
  std::chrono::milliseconds next_ = kFirst;  ///< after so much silence it is said
};

/// Where the brokers of the shard are whose broker has answered; without shards what the command was given.
std::string home_endpoints(const BrokerPong& pong, const Common& common);
/// The shards beside the one whose broker has answered; none where operators ask.
std::vector<BrokerShard> shards_beside(const BrokerPong& pong, const Common& common);
/// Separated by commas.
std::string endpoints_of(const BrokerShard& shard);
/// That no broker of it has answered within the connect timeout.
ClientError no_answer_of(const BrokerShard& shard, const Common& common);
/// The answer of a shard's broker, or no_answer_of().
template <class T>
Reply<T> answer_of(const BrokerShard& shard, std::future<Reply<T>>& reply, const Common& common) {
  if (!ready_within(reply, common.connect_timeout)) return no_answer_of(shard, common);
  return reply.get();
}

/// Cancels the jobs of an interrupted command, which nobody else waits for, and prints how many ended. `ids`:
/// in the order in which they were submitted; the last one is cancelled first. Waits for the broker's
/// replies, a few seconds at most.
void cancel_and_say(Client& client, const std::vector<std::string>& ids);

/// Prints that a waiting job has no worker, if that is so. Waits for the broker's answer, kMoment at most.
void say_if_nobody_serves(Client& client, const Common& common, const std::string& id);

/// Prints that no broker answers there.
void say_unreachable(const Common& common);

/// Ends a command after no broker answered, which was printed: prints the JSON line where `json`. Returns the
/// exit code.
int end_unreached(const Common& common, bool json);

/// Ends a command that the broker refused: prints the error, and the JSON line where `json`. Returns the exit
/// code.
int end_refused(const ClientError& error, bool json);

/// Prints an error with its code, where it failed, and when to retry. The upstream's body goes to the
/// standard error unchanged.
void say_error(const ClientError& error);

/// Instead of a number of rows: the answer is no list.
inline constexpr std::size_t kNoList = static_cast<std::size_t>(-1);

/// Asks the broker as an operator, and returns its document; of a list (`rows_max` is not kNoList) as many
/// pages as hold so many rows. Empty: there is no answer, the reason was printed (as JSON where `json`), and
/// `code` is the exit code.
std::optional<std::string> ask_operator(Client& client, const Common& common, AdminRequest request,
                                        std::size_t rows_max, bool json, int& code);

/// The request for a job with these options.
JobRequest request_of(const JobOptions& options);

/// Waits for the reply to a request. Empty: no broker can be reached, which was printed, or interrupted(). A
/// broker that was reached once is waited for. Calls `waits_on` when that takes longer than kMoment.
inline constexpr std::chrono::seconds kMoment{2};
template <class T>
std::optional<T> wait_for(std::future<T>& reply, Client& client, const Common& common,
                          const std::function<void()>& waits_on = {}) {
  // An answer that is there already proves that the broker is.
  if (reply.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready &&
      !reaches(client, common) && reply.wait_for(std::chrono::milliseconds(0)) != std::future_status::ready)
    return std::nullopt;
  if (waits_on && !ready_within(reply, kMoment) && interrupted() == 0) waits_on();
  SilenceWatch silence(client, common);
  while (!ready_within(reply, SilenceWatch::kEvery)) {
    if (interrupted() != 0) return std::nullopt;
    silence.look();
  }
  return reply.get();
}

}  // namespace lanemq::cli
