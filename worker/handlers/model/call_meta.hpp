// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <lanemq/messages.hpp>

#include "worker/handlers/http/http_client.hpp"

namespace lanemq::worker {

/// What a job's `meta` says of its HTTP call: the map under its key `http`. docs/handlers.md has the words.
struct CallMeta {
  static constexpr std::size_t kPathBytesMax = 2048, kHeaderBytesMax = 1024;

  HttpMethod method = HttpMethod::post;
  std::string path{};  ///< begins with `/`; empty: the handler's own
  /// Those of the headers that may go upstream: `Name: value`.
  std::vector<std::string> header_lines{};
  bool forwards_service_tier = false;
  std::string problem{};  ///< why it cannot be followed; empty: it can
};

/// Reads it. What it does not know it ignores, an absent `meta` too. A path that could lead out of the
/// upstream's base URL, and a header that could forge others, is a problem.
CallMeta read_call_meta(wire::Raw meta);

}  // namespace lanemq::worker
