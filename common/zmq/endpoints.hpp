// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include <lanemq/endpoints.hpp>

#include "common/zmq/address_look.hpp"

namespace lanemq::socket {

/// The first endpoint that libzmq does not take, with its reason; none: it takes all. Peers connect to one at
/// a time, so that a slip in the others would show only when they are needed. Names are not looked up for it.
struct BadEndpoint {
  std::string endpoint, reason;
};
inline std::optional<BadEndpoint> bad_endpoint(zmq::context_t& context,
                                               const std::vector<std::string>& endpoints) {
  for (const std::string& endpoint : endpoints) {
    if (named_endpoint(endpoint)) continue;
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

/// Adds those of a broker's `told` that can be connected to: what it has wrong takes away nothing.
inline void learn(zmq::context_t& context, Endpoints& endpoints, const std::vector<std::string>& told) {
  for (const std::string& endpoint : told)
    if (!bad_endpoint(context, std::vector{endpoint})) endpoints.learn(endpoint);
}

}  // namespace lanemq::socket
