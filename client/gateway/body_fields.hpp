// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "client/gateway/api_error.hpp"

namespace lanemq::gateway {

/// What is read of a request's body, which otherwise passes byte for byte.
struct BodyFields {
  std::string model{};
  std::string service_tier{};
  std::string previous_response_id{};  ///< empty where there is none
  bool in_conversation = false;        ///< it names a stored conversation
  bool stream = false;
};

/// Looks at the members of the top-level JSON object and steps over their values, in one pass without a tree:
/// whether what lies deeper is JSON is for the upstream to say. A member that is read and stands there twice,
/// or in another case, is an error, since readers do not agree on which of them counts.
tl::expected<BodyFields, ApiError> read_body_fields(std::string_view body);

}  // namespace lanemq::gateway
