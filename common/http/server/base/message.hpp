// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/blob.hpp>

#include "common/url/percent.hpp"

namespace lanemq::http {

/// A message's header fields, in their order; names are in lower case.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<std::pair<std::string, std::string>> fields) : fields_(fields) {}

  void add(std::string name, std::string value) {
    if (fields_.empty()) fields_.reserve(kUsual);
    fields_.emplace_back(std::move(name), std::move(value));
  }
  /// Replaces all fields of that name.
  void set(std::string_view name, std::string value);
  /// Fields of one name become one, their values in order with commas between them, which is what they mean
  /// (RFC 9110, 5.3): so nobody reads the first of several alone.
  void join();
  /// The first field of that name (in lower case); null: there is none.
  const std::string* find(std::string_view name) const;
  /// The first field of that name; empty: there is none.
  std::string_view get(std::string_view name) const;

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  std::size_t size() const { return fields_.size(); }

 private:
  static constexpr std::size_t kUsual = 8;  // as many as most requests and answers have

  std::vector<std::pair<std::string, std::string>> fields_;
};

/// A complete request. Prefixes that are not part of a route are removed from its path:
/// `/lane/batch/v1/files` is `/v1/files` with lane_prefix `batch`.
struct HttpRequest {
  std::string method{};       ///< in upper case
  std::string path{};         ///< as received, still escaped; without prefixes and query
  std::string query{};        ///< behind the `?`, as received
  std::string lane_prefix{};  ///< from `/lane/NAME`, decoded; empty: none
  std::string_view prefix{};  ///< of Router::take_prefix(), which the path began with; empty: none
  Headers headers{};
  Blob body{};              ///< owns its bytes
  std::string authority{};  ///< host and port of the target or of Host; may be empty
  std::string peer{};       ///< the caller's address, without its port
  std::vector<std::pair<std::string, std::string>>
      params{};                                      ///< names of the route's pattern, values decoded
  mutable std::optional<std::string> secret_hash{};  ///< filled in by secret_hash_of()

  /// The path's value for `{name}` of the route's pattern. Requires: the pattern has it.
  const std::string& param(std::string_view name) const;
  /// A parameter of the query, decoded; empty: absent.
  std::string query_param(std::string_view name) const;
};

/// A complete answer. The server adds `content-length`, `connection` and `date`.
struct HttpAnswer {
  int status = 200;
  Headers headers{};
  Blob body{};                             ///< owns its bytes
  std::chrono::milliseconds held_back{0};  ///< how long to wait before it is sent
};

using lanemq::percent_decoded;  ///< of paths and queries

/// The phrase of a status: "Not Found".
std::string_view reason_phrase(int status);

/// A body that owns its text.
Blob blob_of(std::string text);
/// An answer of JSON text.
HttpAnswer json_answer(int status, std::string body);
/// An answer for people, which no cache keeps.
HttpAnswer text_answer(int status, std::string text);

}  // namespace lanemq::http
