// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <lanemq/messages.hpp>

#include "worker/handlers/http/http_client.hpp"

namespace lanemq::worker {

/// What a job's `meta` says about its HTTP call: the map under its key `http`. docs/handlers.md describes it.
struct CallMeta {
  static constexpr std::size_t kPathBytesMax = 2048, kHeaderBytesMax = 1024;

  HttpMethod method = HttpMethod::post;
  std::string path{};  ///< begins with `/`; empty: the handler's own
  /// Headers that may go upstream: `Name: value`.
  std::vector<std::string> header_lines{};
  bool forwards_service_tier = false;
  std::string problem{};  ///< why the meta cannot be followed; empty: it can
};

/// Reads a `meta`. Ignores unknown keys, and an absent `meta`. A path that may lead out of the upstream's
/// base URL, or a header that may forge others, is a problem.
CallMeta read_call_meta(wire::Raw meta);

}  // namespace lanemq::worker
