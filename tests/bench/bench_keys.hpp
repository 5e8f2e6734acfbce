// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <zmq.hpp>

namespace lanemq::bench {

/// Keys for a run in which all is encrypted. They reach the processes by the environment; without it nothing
/// below does anything.
class BenchKeys {
 public:
  /// Makes the keys, puts them into the environment and the peers' into a folder, which this object removes.
  BenchKeys();
  ~BenchKeys();
  BenchKeys(const BenchKeys&) = delete;
  BenchKeys& operator=(const BenchKeys&) = delete;

  /// What lanemq-broker is told.
  std::vector<std::string> arguments() const;

 private:
  std::string folder_;
};

enum class End : unsigned char { client, worker };
/// Before the socket of an end connects.
void show_key(zmq::socket_t& socket, End end);
/// Before the socket of the bare broker binds. It lets in whoever knows its public key.
void ask_for_keys(zmq::socket_t& socket);

}  // namespace lanemq::bench
