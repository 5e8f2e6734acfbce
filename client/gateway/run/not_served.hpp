// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/door/settings.hpp"
#include "common/http/server/router.hpp"

namespace lanemq::gateway {

/// A path of the providers' SDKs that this gateway does not serve.
struct NotServed {
  std::string_view path;  ///< with all paths below it
  std::string_view what;
  std::string_view instead;  ///< what to use instead
};
/// All of them, as in docs/gateway.md.
std::span<const NotServed> not_served();

/// Has the paths among them found by no request that another route takes for an id.
void hide_not_served(Router& router);

/// Advice for a request of an unknown path: it is not served, or the base URL is wrong. Empty: no advice.
std::string hint_for(const Router& router, const HttpRequest& request);

/// The answer at `/`: the base URL of each API: that of the settings, else as the request names this host.
std::string welcome(const Settings& settings, const HttpRequest& request);

}  // namespace lanemq::gateway
