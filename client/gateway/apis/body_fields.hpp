// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/apis/api_error.hpp"
#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/apis/stored_references.hpp"
#include "common/http/server/base/message.hpp"

namespace lanemq::gateway {

/// What is read of a request, whose body passes byte for byte.
struct BodyFields {
  std::string model{};
  std::string service_tier{};
  std::vector<StoredReference> stored{};  ///< `previous_response_id`, and what Look::stored finds
  bool in_conversation = false;           ///< it names a stored conversation
  bool stream = false;
  bool background = false;  ///< with Look::stored: the response is answered before it is made
};

/// Look::stored also looks for references in `input` and `tools`, and for `background`, at /v1/responses.
enum class Look : unsigned char { fields, stored };

/// Reads members of the top-level JSON object and steps over their values, in one pass without a tree; the
/// upstream checks what lies deeper. A wanted member that occurs twice, or in another case, is an error:
/// readers disagree about which one counts.
tl::expected<BodyFields, ApiError> read_body_fields(std::string_view body, Look look = Look::fields);

/// The same of a request whose answer is never streamed.
BodyFields in_one_piece(BodyFields fields);
/// The same of a request without a body: its query says whether it is streamed.
BodyFields fields_of_query(const HttpRequest& request);

}  // namespace lanemq::gateway
