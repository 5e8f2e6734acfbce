// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/http/message.hpp"
#include "client/gateway/http/responder.hpp"

namespace lanemq::gateway {

/// Does what a request asks for and answers it, at once or later. On the loop's thread; must not block and
/// must not throw (the caller then gets a 500).
using RequestHandler = std::function<void(HttpRequest request, ResponderPtr responder)>;

/// What answers a path. `{name}` in a pattern stands for one piece between slashes, `{name*}` at its end for
/// all that is left, slashes too: `/v1/files/{id}/content`, `/v1/models/{id*}`.
struct Route {
  std::string method;
  std::string pattern;
  RequestHandler handler{};
  /// A longer body is refused before it is read; 0: the server's own limit.
  std::size_t body_bytes_max = 0;
  /// The name of what says so; empty: nobody can set it.
  std::string body_bound{};
  /// Longer bodies than Spool::kFrom go to a file in this folder instead of memory; empty: none do.
  std::string spool_folder{};
  /// Says who sends a request that has a body when its head is there, or refuses it, so that nothing is kept
  /// of who may not send one. The name says in whose share of memory the body counts; empty: in nobody's. May
  /// be empty. On the loop's thread.
  std::function<tl::expected<std::string, HttpAnswer>(const HttpRequest& head)> admit{};
};

/// Finds the route of a request. Of two patterns that match, the one with more fixed pieces wins.
class Router {
 public:
  void add(Route route);
  void add(std::string method, std::string pattern, RequestHandler handler) {
    add(Route{.method = std::move(method), .pattern = std::move(pattern), .handler = std::move(handler)});
  }

  struct Found {
    const Route* route = nullptr;  ///< null: there is none; valid until the next add()
    std::string allowed{};         ///< the methods that the path has, with commas; empty: no such path
  };
  /// Looks at method and path, takes prefixes off the path and sets the params of the request. HEAD is taken
  /// for GET where a path has no HEAD of its own.
  Found find(HttpRequest& request) const;

 private:
  struct Entry {
    Route route;
    std::vector<std::string> pieces;
    std::size_t fixed = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace lanemq::gateway
