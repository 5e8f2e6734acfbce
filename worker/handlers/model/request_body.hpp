// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lanemq::worker {

/// Changes of a request's body before it goes upstream.
struct BodyEdits {
  std::string_view model{};       ///< the upstream's name of the model; empty: the body's stays
  bool drop_service_tier = true;  ///< else it goes upstream unchanged
  bool ask_usage = false;         ///< makes a stream end with its usage (OpenAI's `stream_options`)
};

/// A request's body for the upstream.
struct RequestBody {
  std::optional<std::string> text;  ///< none: unchanged
  bool streams = false;             ///< the request asks for a stream
  bool usage_added = false;         ///< the caller did not ask for the usage, and must not see it
};

/// Edits top-level members of a JSON body; all other bytes stay. Replaces a different `model`, removes
/// `service_tier`, and sets `stream_options.include_usage` to true in a body with `stream: true` that does
/// not have it. A caller with `include_usage: false` gets no usage either, since some upstreams refuse the
/// option.
///
/// Of several members with one name the last counts, as for most readers, but each `model` and `service_tier`
/// is edited. A body that is no JSON object stays unchanged: the upstream will refuse it.
RequestBody edit_request(std::string_view body, const BodyEdits& edits);

}  // namespace lanemq::worker
