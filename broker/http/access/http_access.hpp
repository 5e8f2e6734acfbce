// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <tl/expected.hpp>

#include "broker/http/access/operator_link.hpp"
#include "broker/http/access/options.hpp"
#include "common/http/server/access/wrong_keys.hpp"
#include "common/http/server/base/message.hpp"

namespace lanemq::admin {

/// An answer of JSON: not kept by caches, and taken for nothing else by browsers.
/// A document as text in which nothing moves a terminal: unprintable.hpp.
std::string harmless_text_of(const Json& document);
http::HttpAnswer json_of(int status, const Json& document);
/// The same for an error. `code`: of the protocol, or one of docs/reference/admin-http.md.
http::HttpAnswer refused(int status, std::string_view code, std::string_view message);

/// Access rights by key; the keys may be replaced. Without keys everybody who reaches it may do all, and it
/// is for this machine alone. Belongs to the HTTP thread.
class HttpAccess {
 public:
  explicit HttpAccess(const HttpOptions& options) : hosts_(options.hosts) { replace(options.keys); }

  void replace(std::vector<HttpKey> keys);
  bool has_keys() const { return !keys_.empty(); }

  /// Why a request is refused by its head, whatever it asks for; none: it is not.
  std::optional<http::HttpAnswer> refused_at_door(const http::HttpRequest& head) const;
  /// The caller's name for the log, if it has the role; else the answer.
  tl::expected<std::string, http::HttpAnswer> caller_of(const http::HttpRequest& request, Role needed,
                                                        http::Loop::TimePoint now);

 private:
  const std::vector<std::string> hosts_;
  std::unordered_map<std::string, HttpKey> keys_;  ///< by the hashes of their secrets
  http::WrongKeys wrong_keys_;
};

}  // namespace lanemq::admin
