// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace lanemq::settings {

/// Who is there where nobody answers as was hoped.
enum class Peer : unsigned char {
  unknown,  ///< it could not be found out, or it takes connections and says nothing
  no_host,  ///< no host has that name
  nobody,   ///< nothing listens
  http,     ///< an HTTP server
  zeromq,   ///< a socket of ZeroMQ
  other     ///< who speaks something else
};

/// Connects to `tcp://HOST:PORT` or `ipc://PATH`, says what an HTTP server answers and a ZeroMQ socket does
/// not wait for, and looks at the first bytes. Blocks: for `patience` at most once the host's address is
/// known.
Peer look_at(const std::string& endpoint, std::chrono::milliseconds patience);

/// HOST of `tcp://HOST:PORT`.
std::string host_of(const std::string& endpoint);

}  // namespace lanemq::settings
