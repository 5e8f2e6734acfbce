// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <lanemq/blob.hpp>
#include <lanemq/error_table.hpp>

namespace lanemq {

/// Why a request was refused, or a job did not succeed.
struct ClientError {
  std::string code{};  ///< as on the wire; may be newer than this library
  std::string message{};
  std::string id{};  ///< the job's; empty: the request concerns no job
  std::optional<std::chrono::milliseconds> retry_after{};
  std::int64_t attempts = 0;
  std::chrono::milliseconds queued{0};  ///< of a job: until its last hand-over; if it had none, until its end
  std::string limiter{};
  std::int64_t chunks = 0;               ///< pieces of a streamed answer before it broke
  std::optional<int> upstream_status{};  ///< the HTTP status, where the upstream answered
  Blob body{};                           ///< the upstream's answer, if any; owns its bytes
  bool local = false;                    ///< from this library: whether the job ran is not known

  std::optional<ErrorCode> known_code() const { return error_code(code); }
  /// The upstream refused the key that the worker showed it: that is for whoever runs the worker to mend.
  bool key_is_refused() const { return code == "upstream_quota" && upstream_status == 401; }
};

/// A value from the broker, or an error: as a std::expected, which C++20 lacks. Reading the part that is not
/// there throws std::bad_variant_access.
template <class T>
class Reply {
 public:
  Reply() = default;
  Reply(ClientError error) : held_(std::in_place_index<1>, std::move(error)) {}
  template <class U>
  requires(std::convertible_to<U, T> && !std::same_as<std::remove_cvref_t<U>, Reply> &&
           !std::same_as<std::remove_cvref_t<U>, ClientError>) Reply(U&& value)
      : held_(std::in_place_index<0>, std::forward<U>(value)) {}

  bool has_value() const { return held_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& operator*() & { return std::get<0>(held_); }
  const T& operator*() const& { return std::get<0>(held_); }
  T&& operator*() && { return std::get<0>(std::move(held_)); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  /// Requires: !has_value(), as every reading of the error.
  ClientError& error() & { return std::get<1>(held_); }
  const ClientError& error() const& { return std::get<1>(held_); }
  ClientError&& error() && { return std::get<1>(std::move(held_)); }

 private:
  std::variant<T, ClientError> held_;
};

}  // namespace lanemq
