// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "client/gateway/apis/api.hpp"

namespace lanemq::gateway {

/// What is written into a silent stream, in the form that each API's SDKs ignore between events. OpenAI's is
/// a comment with a single line end: after a blank line some of them would dispatch an empty event.
constexpr std::string_view keep_alive(Api api) {
  return api == Api::openai ? std::string_view(": ka\n")
                            : std::string_view("event: ping\ndata: {\"type\": \"ping\"}\n\n");
}

}  // namespace lanemq::gateway
