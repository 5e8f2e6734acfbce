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

namespace lanemq::gateway {

/// The header fields of a message, in the order in which they came; names are in lower case.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<std::pair<std::string, std::string>> fields) : fields_(fields) {}

  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  /// Replaces all fields of that name by one.
  void set(std::string_view name, std::string value);
  /// The first of that name (in lower case); null: there is none.
  const std::string* find(std::string_view name) const;
  /// The first of that name, empty where there is none.
  std::string_view get(std::string_view name) const;

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  std::size_t size() const { return fields_.size(); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

/// A request that was read whole. Prefixes that stand for something else than a route are taken off its path
/// and said beside it: `/lane/batch/v1/files` is `/v1/files` with the lane `batch`.
struct HttpRequest {
  std::string method{};           ///< in upper case
  std::string path{};             ///< as it came, percent signs and all, without prefixes and query
  std::string query{};            ///< behind the `?`, as it came
  std::string lane_prefix{};      ///< of `/lane/NAME`, decoded; empty: there was none
  bool anthropic_prefix = false;  ///< there was an `/anthropic` in front
  Headers headers{};
  Blob body{};              ///< owns its bytes
  std::string authority{};  ///< host and port, of the target or of Host; may be empty
  std::string peer{};       ///< the caller's address, without its port
  std::vector<std::pair<std::string, std::string>> params{};  ///< of the route's pattern, decoded
  mutable std::optional<std::string> secret_hash{};           ///< for secret_hash_of(), which fills it in

  /// What stands in the place of `{name}` of the route's pattern. Requires: the pattern has it.
  const std::string& param(std::string_view name) const;
  /// A parameter of the query, decoded; empty where it is absent.
  std::string query_param(std::string_view name) const;
};

/// An answer that is there whole. `content-length`, `connection` and `date` are the server's.
struct HttpAnswer {
  int status = 200;
  Headers headers{};
  Blob body{};                             ///< owns its bytes
  std::chrono::milliseconds held_back{0};  ///< before it is sent
};

/// `%41` as `A`; what is no escape stays as it is.
std::string percent_decoded(std::string_view text);

/// The words that go with a status: "Not Found".
std::string_view reason_phrase(int status);

/// A body that owns its text.
Blob blob_of(std::string text);
/// An answer of JSON text.
HttpAnswer json_answer(int status, std::string body);

}  // namespace lanemq::gateway
