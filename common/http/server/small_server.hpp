// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/http/server/server.hpp"

namespace lanemq::http {

/// The bounds of a server for operators and probes, beside a program's own work: few people and programs
/// look, and a stranger must not cost the program its memory or its descriptors. Whoever says nothing gives
/// way to the next one, so no address needs a share: of probes and neighbours on one machine all have one.
inline ServerOptions small_server(std::uint16_t port) {
  return {.port = port,
          .connections_max = 256,
          .connections_per_address_max = 256,
          .header_bytes_max = std::size_t{16} * 1024,
          .body_bytes_max = std::size_t{64} * 1024,
          .bodies_bytes_max = std::size_t{4} * 1024 * 1024,
          .uploads_bytes_max = 1,
          .answers_bytes_max = std::size_t{32} * 1024 * 1024};
}

}  // namespace lanemq::http
