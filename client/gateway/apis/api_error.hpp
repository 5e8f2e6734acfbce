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

#include "client/gateway/apis/api.hpp"
#include "client/gateway/apis/http_words.hpp"
#include "common/http/server/base/message.hpp"

namespace lanemq::gateway {

/// One kind of error in both APIs, and whether an SDK may retry by itself.
struct ErrorRow {
  enum class Retry : unsigned char { no, yes, in_higher_lanes };
  /// Whose fault it is, as `x-lanemq-error` says.
  enum class Fault : unsigned char { request, gateway, queue, upstream };

  std::string_view name;  ///< the broker's code, or one of the gateway's own
  int openai_status;
  std::string_view openai_type, openai_code;  ///< an empty code is sent as null
  int anthropic_status;
  std::string_view anthropic_type;
  Retry retry;
  Fault fault;
};

/// All rows: the broker's codes, then the gateway's own.
std::span<const ErrorRow> api_error_table();
/// The row of that name; `internal` for an unknown one.
const ErrorRow& api_error_row(std::string_view name);

/// Why a caller does not get what it asked for.
struct ApiError {
  std::string name{};         ///< of the table
  std::string message{};      ///< names the thing, the limit and what to do
  std::string param{};        ///< the field of the request at fault
  std::string code{};         ///< OpenAI's `code`, where the row's is too general
  std::string lane{};         ///< of the job
  std::string_view reason{};  ///< for the metric of refusals, where the name is too general; a literal
  std::optional<std::chrono::milliseconds> retry_after{};
  std::optional<int> upstream_status{};
  Blob upstream_body{};

  bool should_retry() const;
  /// request, gateway, queue or upstream.
  std::string_view fault() const;
};

/// The error of an invalid request. `param`: the field at fault.
ApiError bad_request(std::string message, std::string param = {});
/// The same, for functions that return an expected.
tl::unexpected<ApiError> wrong(std::string message, std::string param = {});

/// From this wait on no SDK is told to retry by itself: one retries earlier, in vain, another sleeps for any
/// time.
inline constexpr std::chrono::milliseconds kSdkWaitMax{60'000};

/// An error of the broker or the client library as an API error.
ApiError api_error_of(const ClientError& error, const std::string& lane);

/// The error's body, as each of the APIs has it.
std::string openai_error_body(const ApiError& error, std::string_view request_id);
std::string anthropic_error_body(const ApiError& error, std::string_view request_id);
/// Anthropic's status of an error, which says that an upstream is full.
int anthropic_status(const ApiError& error);

/// The error as an answer, with retry-after, retry-after-ms and x-should-retry. An upstream's error about the
/// request keeps its status and body.
HttpAnswer error_answer(const Api& api, const ApiError& error, std::string_view request_id = {});
/// The error as an event inside a stream, in the form that the API's SDKs understand.
std::string error_event(const Api& api, const ApiError& error, std::string_view request_id = {});

}  // namespace lanemq::gateway
