// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "client/gateway/http/router.hpp"

namespace lanemq::gateway {

/// A path of the providers' APIs that their SDKs have and that is not served here.
struct NotServed {
  std::string_view path;  ///< and all below it
  std::string_view what;
  std::string_view instead;  ///< what to do
};
/// All of them; docs/gateway.md has the same table.
std::span<const NotServed> not_served();

/// What to say to who asks for a path that is not there: that it is one of those, or that the base URL is
/// wrong. Empty: nothing is known of it.
std::string hint_for(const Router& router, const HttpRequest& request);

/// What stands at `/`: which base URL is whose.
std::string welcome(const HttpRequest& request);

}  // namespace lanemq::gateway
