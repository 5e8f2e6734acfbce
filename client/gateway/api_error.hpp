// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include <lanemq/blob.hpp>
#include <lanemq/client.hpp>

#include "client/gateway/api.hpp"
#include "client/gateway/http/message.hpp"

namespace lanemq::gateway {

/// How one kind of error is said in each API, and whether an SDK shall try again by itself.
struct ErrorRow {
  enum class Retry : unsigned char { no, yes, in_higher_lanes };
  /// Who is to look into it, as `x-lanemq-error` says.
  enum class Fault : unsigned char { request, gateway, queue, upstream };

  std::string_view name;  ///< as on the broker's wire, or one of the gateway's own
  int openai_status;
  std::string_view openai_type, openai_code;  ///< an empty code is said as null
  int anthropic_status;
  std::string_view anthropic_type;
  Retry retry;
  Fault fault;
};

/// All rows: the broker's codes, then the gateway's own.
std::span<const ErrorRow> api_error_table();
/// The row of that name; an unknown one is `internal`.
const ErrorRow& api_error_row(std::string_view name);

/// Why a caller does not get what it asked for.
struct ApiError {
  std::string name{};         ///< of the table
  std::string message{};      ///< names the thing, the limit and what to do
  std::string param{};        ///< the field of the request that is to blame
  std::string code{};         ///< OpenAI's `code`, where the row's is too coarse
  std::string lane{};         ///< of the job
  std::string_view reason{};  ///< in the metric of refusals, where the name is too coarse; a literal
  std::optional<std::chrono::milliseconds> retry_after{};
  std::optional<int> upstream_status{};
  Blob upstream_body{};

  bool should_retry() const;
  /// request, gateway, queue or upstream.
  std::string_view fault() const;
};

/// The request says something that cannot be done as it stands. `param`: the field of it that is to blame.
ApiError bad_request(std::string message, std::string param = {});
/// The same, for who returns an expected.
tl::unexpected<ApiError> wrong(std::string message, std::string param = {});

/// No SDK is told to come again by itself after as much: one asks before, in vain, another sleeps for
/// whatever it is told.
inline constexpr std::chrono::milliseconds kSdkWaitMax{60'000};

/// What the broker or the client library said, as an API error.
ApiError api_error_of(const ClientError& error, const std::string& lane);

/// The whole answer, with retry-after, retry-after-ms and x-should-retry. An error that the upstream itself
/// gave for the request keeps the upstream's status and body.
HttpAnswer error_answer(Api api, const ApiError& error, std::string_view request_id = {});
/// The same inside a stream that has begun, as the API's SDKs understand it.
std::string error_event(Api api, const ApiError& error, std::string_view request_id = {});

}  // namespace lanemq::gateway
