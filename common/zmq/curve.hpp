// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <zmq.hpp>

#include <lanemq/curve_keys.hpp>

/// Keys of encrypted connections on ZeroMQ's sockets.
namespace lanemq::socket {

struct KeyPair {
  std::string public_key, secret_key;
};

/// A new pair from the system's random bytes. Throws zmq::error_t where libzmq was built without CURVE.
KeyPair make_keys();
/// The public key of a secret one. Requires: is_curve_key(secret_key).
std::string public_key_of(const std::string& secret_key);

/// Has the socket, before it connects, take nobody but the broker with that key, and show its own. Does
/// nothing where there are none. Throws std::invalid_argument where they are unusable.
void show_keys(zmq::socket_t& socket, const CurveKeys& keys);
/// Has the socket, before it binds, take encrypted connections alone. Requires: is_curve_key(secret_key).
void ask_for_keys(zmq::socket_t& socket, const std::string& secret_key);

}  // namespace lanemq::socket
