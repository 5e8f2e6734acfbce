// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <curl/curl.h>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/upstream_body.hpp"
#include "worker/handlers/http/upstream_headers.hpp"

namespace lanemq::worker {

/// What an unsuccessful HTTP status means for the job: class, code (`upstream_<status>`, `upstream_auth`,
/// `request_over_limit`, `context_length_exceeded`), message, time to retry, and usage. The caller adds the
/// body.
///
/// Class `quota`: the key is out of money or not accepted. That is 402; a 401 whose code or type says so
/// (`invalid_api_key`, `authentication_error`); and a body whose code or type names it (`insufficient_quota`,
/// `billing_*`, `credit_*`, `*_spend_limit_exceeded`). Any other 401, and a 403, is about the request, like
/// other 4xx. Message texts do not count: upstreams write "quota" of limits that are back within a minute.
///
/// Of class `limited`, `limited_by` and `limits` are read of headers, codes, JSON and texts
/// (limit_headers.hpp, refusal_body.hpp, refusal_texts.hpp).
JobFailure status_failure(long status, const UpstreamHeaders& headers, std::string_view body);

/// For the log: the URL that was asked, without its query, where the status says that nothing is there, and
/// `hint` what may be wrong with it; else empty.
std::string where_nothing_is(long status, std::string_view url, std::string_view hint);

/// status_failure() of an error inside an answer that began well. `error`: its JSON, with `type`, `code` and
/// `message`. Its status is the one the error has elsewhere: 529 for `overloaded_error`.
JobFailure error_event_failure(std::string_view error, const UpstreamHeaders& headers);

/// The same for an answer with a status of success that is nothing but an error: routers write that when
/// their own upstream failed. None: it is none.
std::optional<JobFailure> success_failure(const UpstreamHeaders& headers, std::string_view body);

/// A success without the body that it must have.
JobFailure empty_reply_failure(long status);

/// The token of a stream that did not come in time.
enum class LateToken : unsigned char { first, next };
JobFailure late_failure(LateToken token, std::chrono::milliseconds limit);

/// The job's deadline came before the call's end, which says nothing about the upstream. `detail`: for
/// people.
JobFailure deadline_failure(bool was_sent, std::string_view detail);

/// How far a call came that ended without a complete response.
struct TransportFacts {
  bool was_sent = false;    ///< the upstream may have seen the request
  long status = 0;          ///< 0: no response began
  bool over_limit = false;  ///< this side cut the answer: it is longer than `answer_bytes_max`
  std::size_t answer_bytes_max = 0;
  std::string detail{};  ///< callers see it, too: names no host
};
JobFailure transport_failure(CURLcode error, const TransportFacts& facts);

}  // namespace lanemq::worker
