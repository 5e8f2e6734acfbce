// SPDX-License-Identifier: Apache-2.0
// What goes to and fro between the double and its transport.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/upstream/api.hpp"
#include "tests/support/upstream/limit_headers.hpp"

namespace lanemq::upstream {

/// The header field by which a request speaks Anthropic's API.
inline constexpr std::string_view kVersionHeader = "anthropic-version";

/// A request as it arrived. The views must live through receive() only.
struct Request {
  std::string_view method;
  std::string_view target;  ///< The path, perhaps with a query, which is ignored.
  std::vector<std::pair<std::string_view, std::string_view>> headers{};
  std::string_view body;

  /// The value of the first header field with that name, in small letters; empty where there is none.
  std::string_view header(std::string_view name) const;
  std::string_view path() const { return target.substr(0, target.find('?')); }
  /// Anthropic's where it says so by `anthropic-version`.
  Dialect dialect() const;
};

struct Reply {
  unsigned status = 200;
  std::string body{};      ///< Unless the call has a script.
  HeaderFields headers{};  ///< Beside content-type and content-length.
};

// Replies to requests for no work.
Reply refusal(const Request& request, unsigned status, const ApiError& error);
Reply not_found(const Request& request);
Reply wrong_method(const Request& request, std::string_view method);

}  // namespace lanemq::upstream
