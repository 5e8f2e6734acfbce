// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <zmq.hpp>

#include <lanemq/endpoints.hpp>

namespace lanemq::socket {

/// The first endpoint that libzmq does not take, with its reason; none: it takes all. Peers connect to one at
/// a time, so that a slip in the others would show only when they are needed.
struct BadEndpoint {
  std::string endpoint, reason;
};
inline std::optional<BadEndpoint> bad_endpoint(zmq::context_t& context, const Endpoints& endpoints) {
  for (const std::string& endpoint : endpoints.all()) {
    zmq::socket_t probe(context, zmq::socket_type::dealer);
    probe.set(zmq::sockopt::linger, 0);
    try {
      probe.connect(endpoint);
    } catch (const zmq::error_t& error) {
      return BadEndpoint{endpoint, error.what()};
    }
  }
  return std::nullopt;
}

}  // namespace lanemq::socket
