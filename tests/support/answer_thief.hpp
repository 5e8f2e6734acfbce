// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lanemq::test {

/// Stands between clients and a server on a socket file. It passes on all that clients say; what the server
/// answers it keeps from them when it is told to, and then cuts the connections: what was asked was done, and
/// nobody heard of it.
class AnswerThief {
 public:
  /// `server`: the path of its socket file. Listens on a free port of 127.0.0.1.
  explicit AnswerThief(std::string server);
  ~AnswerThief();
  AnswerThief(const AnswerThief&) = delete;
  AnswerThief& operator=(const AnswerThief&) = delete;

  int port() const { return port_; }
  /// From now on nothing comes back by the connections that there are.
  void begin_to_steal();
  /// Cuts these connections. New ones are honest.
  void cut();
  /// Answers that were kept back so far, in reads.
  std::size_t stolen() const { return stolen_; }

 private:
  struct Pair {
    int client = -1, server = -1;
    bool steals = false;
  };

  void run();
  void accept_one();
  /// False: one of the two has ended.
  bool pass_on(Pair& pair, short client_ready, short server_ready);

  const std::string server_;
  int listener_ = -1, wake_ = -1, port_ = 0;
  std::atomic<bool> ends_{false};
  std::atomic<std::size_t> stolen_{0};
  std::mutex mutex_;  ///< of pairs_
  std::vector<Pair> pairs_;
  std::thread thread_;
};

}  // namespace lanemq::test
