// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lanemq::trace {

/// The collector that spans go to, by OTLP over HTTP.
struct Collector {
  std::string endpoint{};  ///< http://HOST:PORT; /v1/traces is added where no path is named. Empty: none
  bool in_clear = false;   ///< may be http:// on another machine

  bool operator==(const Collector&) const = default;
};

/// Refuses what is no endpoint: http or https, a host, no credentials; and one on another machine without
/// TLS, unless that is meant. Throws std::invalid_argument with what is wrong.
void require_collector(const Collector& collector);

}  // namespace lanemq::trace
