// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "common/http/server/base/message.hpp"
#include "common/http/server/base/responder.hpp"

namespace lanemq::http {

/// Handles a request and answers it, at once or later. On the loop's thread; must not block or throw (the
/// caller would get a 500).
using RequestHandler = std::function<void(HttpRequest request, ResponderPtr responder)>;

/// A path and its handler. `{name}` in a pattern matches one piece between slashes, `{name*}` at its end all
/// the rest, with slashes: `/v1/files/{id}/content`, `/v1/models/{id*}`.
struct Route {
  std::string method;
  std::string pattern;
  RequestHandler handler{};
  /// A longer body is refused before it is read; 0: the server's limit.
  std::size_t body_bytes_max = 0;
  /// The option that sets body_bytes_max; empty: there is none.
  std::string body_bound{};
  /// Bodies longer than Spool::kFrom go to a file in this folder; empty: all stay in memory.
  std::string spool_folder{};
  /// Called at the head of a request with a body. Returns in whose share of memory the body counts (empty:
  /// nobody's), or a refusal, so that no body is kept of a caller without permission. May be empty. On the
  /// loop's thread.
  std::function<tl::expected<std::string, HttpAnswer>(const HttpRequest& head)> admit{};
};

/// Finds a request's route. Of two patterns that match, the one with more fixed pieces wins.
class Router {
 public:
  /// Whether paths may begin with a lane's prefix, which is no part of a route (HttpRequest).
  enum class Prefixes : unsigned char { none, taken };
  explicit Router(Prefixes prefixes = Prefixes::taken) : prefixes_(prefixes) {}

  void add(Route route);
  void add(std::string method, std::string pattern, RequestHandler handler) {
    add(Route{.method = std::move(method), .pattern = std::move(pattern), .handler = std::move(handler)});
  }

  /// Paths may begin with this prefix, too, behind that of a lane: `/anthropic`. It outlives all requests.
  void take_prefix(std::string_view prefix) { own_prefixes_.push_back(prefix); }

  /// A path that is not there, though a route's pattern fits it.
  void hide(std::string path) { hidden_.push_back(std::move(path)); }

  struct Found {
    const Route* route = nullptr;  ///< null: there is none; valid until the next add()
    std::string allowed{};         ///< the path's methods, with commas; empty: no such path
  };
  /// Finds the route, removes prefixes from the path, and sets the request's params. HEAD counts as GET where
  /// a path has no HEAD.
  Found find(HttpRequest& request) const;

 private:
  struct Entry {
    Route route;
    std::vector<std::string> pieces;
    std::size_t fixed = 0;
  };
  void take_prefixes(HttpRequest& request) const;

  const Prefixes prefixes_;
  std::vector<std::string_view> own_prefixes_;
  std::vector<Entry> entries_;
  std::vector<std::string> hidden_;
};

}  // namespace lanemq::http
