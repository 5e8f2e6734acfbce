// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/http/server/small_server.hpp"

namespace lanemq::worker {

/// Where a worker's metrics and probes are served.
struct MetricsOptions {
  bool is_on = false;
  http::ServerOptions server = http::small_server(5574);
  std::string key{};  ///< the source of the secret that scrapers show; empty: nobody needs one
  /// As configured: paths, or `credential:NAME`. Empty: no TLS.
  std::string tls_certificate{}, tls_key{};
};

}  // namespace lanemq::worker
