// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/api_error.hpp"
#include "client/gateway/stored_references.hpp"

namespace lanemq::gateway {

/// What is read of a request's body, which otherwise passes byte for byte.
struct BodyFields {
  std::string model{};
  std::string service_tier{};
  std::vector<StoredReference> stored{};  ///< `previous_response_id`, and what else Look::stored finds
  bool in_conversation = false;           ///< it names a stored conversation
  bool stream = false;
};

/// Whether `input` and `tools` are looked into, too, for what they refer to: at /v1/responses.
enum class Look : unsigned char { fields, stored };

/// Looks at the members of the top-level JSON object and steps over their values, in one pass without a tree:
/// whether what lies deeper is JSON is for the upstream to say. A member that is read and stands there twice,
/// or in another case, is an error, since readers do not agree on which of them counts.
tl::expected<BodyFields, ApiError> read_body_fields(std::string_view body, Look look = Look::fields);

}  // namespace lanemq::gateway
