// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lanemq::worker {

/// What is to be changed in a request's body before it goes upstream.
struct BodyEdits {
  std::string_view model{};       ///< of the upstream; empty: the body's own stays
  bool drop_service_tier = true;  ///< else it goes upstream as it is
  bool ask_usage = false;         ///< have a stream end with its usage (OpenAI's `stream_options`)
};

/// A request's body as it goes upstream.
struct RequestBody {
  std::optional<std::string> text;  ///< absent: unchanged
  bool streams = false;             ///< it asks for a stream
  bool usage_added = false;         ///< the caller did not ask for the usage; it must not see it
};

/// Edits the members at the top of a JSON body; every other byte stays what it is. `model` is replaced where
/// the body has one that says something else, `service_tier` is taken out, and a body with `stream: true`
/// that says nothing of `stream_options.include_usage` gets it set to true. A caller that says
/// `include_usage: false` gets no usage from us either: some upstreams refuse the option.
///
/// Of several members of one name the last counts, as with most readers, but no `model` or `service_tier` is
/// left as it was. A body that is no JSON object stays as it is: the upstream will say so.
RequestBody edit_request(std::string_view body, const BodyEdits& edits);

}  // namespace lanemq::worker
