// SPDX-License-Identifier: Apache-2.0
#include "common/zmq/curve.hpp"

#include <array>
#include <stdexcept>

namespace lanemq::socket {
namespace {

using Text = std::array<char, kCurveKeyChars + 1>;

}  // namespace

KeyPair make_keys() {
  Text open{}, secret{};
  if (zmq_curve_keypair(open.data(), secret.data()) != 0) throw zmq::error_t();
  return {open.data(), secret.data()};
}

std::string public_key_of(const std::string& secret_key) {
  Text open{};
  if (zmq_curve_public(open.data(), secret_key.c_str()) != 0) throw zmq::error_t();
  return open.data();
}

void show_keys(zmq::socket_t& socket, const CurveKeys& keys) {
  if (const std::string why = keys.why_unusable(); !why.empty()) throw std::invalid_argument(why);
  if (keys.secret.empty()) return;
  socket.set(zmq::sockopt::curve_serverkey, keys.broker);
  socket.set(zmq::sockopt::curve_publickey, public_key_of(keys.secret));
  socket.set(zmq::sockopt::curve_secretkey, keys.secret);
}

void ask_for_keys(zmq::socket_t& socket, const std::string& secret_key) {
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, secret_key);
}

}  // namespace lanemq::socket
