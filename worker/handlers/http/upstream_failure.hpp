// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include <curl/curl.h>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/upstream_body.hpp"
#include "worker/handlers/http/upstream_headers.hpp"

namespace lanemq::worker {

/// What an HTTP status that is no success means for the job: its class, its code (`upstream_<status>`,
/// `upstream_auth`, `request_over_limit`, `context_length_exceeded`), a message, when to come again and what
/// is to be settled. The body is the caller's to add.
///
/// Class `quota` is a key that is spent or that the upstream does not take: 402, a 401 whose code or type
/// says so (`invalid_api_key`, `authentication_error`), and what the body's code or type calls spent
/// (`insufficient_quota`, `billing_*`, `credit_*`, `*_spend_limit_exceeded`). Any other 401 and a 403 are
/// about the request, as other 4xx are. The words of a text say nothing of keys: upstreams write "quota" of
/// limits that are back within a minute.
JobFailure status_failure(long status, const UpstreamHeaders& headers, std::string_view body);

/// The same for an error that came inside an answer that had begun well: `error` is its JSON, with `type`,
/// `code` and `message`. Its status is the one that such an error has elsewhere: 529 of `overloaded_error`.
JobFailure error_event_failure(std::string_view error, const UpstreamHeaders& headers);

/// A success without a body, where there has to be one.
JobFailure empty_reply_failure(long status);

/// Which token of a stream did not come in time.
enum class LateToken : unsigned char { first, next };
JobFailure late_failure(LateToken token, std::chrono::milliseconds limit);

/// The job's own time was over before the call was: that says nothing of the upstream. `detail`: for people.
JobFailure deadline_failure(bool was_sent, std::string_view detail);

/// How far a call came that ended without a whole response.
struct TransportFacts {
  bool was_sent = false;    ///< the upstream may have seen the request
  long status = 0;          ///< 0: no response began
  bool over_limit = false;  ///< cut off by us: the answer is longer than `answer_bytes_max`
  std::size_t answer_bytes_max = 0;
  std::string detail{};  ///< for callers too: names no host
};
JobFailure transport_failure(CURLcode error, const TransportFacts& facts);

}  // namespace lanemq::worker
