// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "client/gateway/apis/api_error.hpp"
#include "common/http/server/base/message.hpp"

namespace lanemq::gateway {

/// What a request says by which it is known when it is asked again.
struct AskedAgain {
  std::string idempotency_key{};  ///< empty: it has none
  bool sdk_retries = false;       ///< its SDK asks again by itself where an answer fails
  bool is_retry = false;          ///< it does so now
};
tl::expected<AskedAgain, ApiError> read_asked_again(const HttpRequest& request);

/// A name of the caller's request, the same at each gateway, such that nobody finds another one with the same
/// name: `what` is its Idempotency-Key, or a hash of it.
std::string name_of_asked(std::string_view caller, std::string_view what);

}  // namespace lanemq::gateway
