// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "tests/bench/ends.hpp"

namespace lanemq::bench {

/// A client that hands in jobs and waits for no more than the word that they are taken. Every function throws
/// Failure where the peer refuses, is silent or says something else.
class Acceptor {
 public:
  Acceptor() = default;
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  virtual ~Acceptor() = default;

  /// Sends one job, or keeps it until push().
  virtual void submit(std::string_view body) = 0;
  virtual void push() {}
  /// Waits until some jobs are taken; how many that were submitted are.
  virtual std::size_t take_acks() = 0;
};

/// Of the bare loop.
std::unique_ptr<Acceptor> make_bare_acceptor(const std::string& endpoint);
/// Jobs of the default lane for a service that nobody serves; each must be on disk. `batch`: jobs in one
/// message.
std::unique_ptr<Acceptor> make_lmq1_acceptor(const std::string& endpoint, std::size_t batch);
/// By their own protocols, over TCP to a port of this machine.
std::unique_ptr<Acceptor> make_beanstalkd_acceptor(int port);
std::unique_ptr<Acceptor> make_redis_acceptor(int port);

}  // namespace lanemq::bench
