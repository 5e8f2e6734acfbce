// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace lanemq::settings {

/// What listens at an endpoint that does not answer as expected.
enum class Peer : unsigned char {
  unknown,          ///< not found out, or it accepts connections and sends nothing
  no_host,          ///< the host's name is unknown
  no_word_of_host,  ///< whoever is asked for the address of the host's name does not answer in time
  nobody,           ///< nothing listens
  http,             ///< an HTTP server
  zeromq,           ///< a socket of ZeroMQ
  zeromq_keys,      ///< one that takes those alone who show a key (CURVE)
  other             ///< something else
};

/// Connects to `tcp://HOST:PORT` or `ipc://PATH` and looks at the first bytes. Sends what an HTTP server
/// answers and a ZeroMQ socket ignores, and to that the beginning of a greeting. Blocks for up to `patience`,
/// and as long for the look-up of the host's name.
Peer look_at(const std::string& endpoint, std::chrono::milliseconds patience);

/// For people: `an HTTP server answers there`; empty: what is there may be a broker.
std::string_view what_is_wrong_with(Peer peer);

/// The HOST of `tcp://HOST:PORT`.
std::string host_of(const std::string& endpoint);

}  // namespace lanemq::settings
