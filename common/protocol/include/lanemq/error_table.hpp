// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace lanemq {

// The table of errors that clients see: X(code, HTTP status, says when to retry, meaning). The enumeration,
// the names on the wire, the HTTP mapping and docs/protocol/README.md are made from it.
#define LANEMQ_ERROR_TABLE(X)                                                                           \
  X(bad_request, 400, false, "malformed message, unknown lane or bad field; the message names it")      \
  X(unauthorized, 401, false, "the key of the connection does not count, or not any more")              \
  X(forbidden, 403, false, "the client may not use this lane, service or operation")                    \
  X(not_found, 404, false, "never known")                                                               \
  X(gone, 410, false, "known once and no longer kept")                                                  \
  X(conflict, 409, false, "the id is in use with other content")                                        \
  X(too_large, 413, false, "body or header over its limit; the message names the limit")                \
  X(unsatisfiable, 422, false, "can never run: it costs more than a budget can ever hold")              \
  X(lane_full, 429, true, "the lane holds its maximum of jobs or bytes")                                \
  X(client_full, 429, true, "the client holds its maximum of jobs")                                     \
  X(bytes_full, 429, true, "the broker holds its maximum of bytes")                                     \
  X(cancelled, 499, false, "cancelled by the client or an operator")                                    \
  X(slow_reader, 499, false, "a streamed answer was not taken for 30 s; the job goes on")               \
  X(internal, 500, false, "a fault of the broker")                                                      \
  X(upstream_rejected, 502, false, "the upstream's permanent error; its status and body are passed on") \
  X(upstream_failed, 502, true, "all attempts are spent")                                               \
  X(upstream_quota, 503, false, "every key of the pool is spent")                                       \
  X(limited, 429, true, "the upstream's rate is used up, and the job was not to wait for that")         \
  X(worker_lost, 502, true, "its workers died under it")                                                \
  X(stalled, 504, true, "its workers had said how far they were, and then nothing more")                \
  X(draining, 503, true, "the broker is stopping and takes no work")                                    \
  X(paused, 503, true, "a plugin that judges submits is switched off")                                  \
  X(store_full, 503, true, "the disk is full")                                                          \
  X(not_owner, 503, true, "another broker may own the store: nothing was taken, ask that one")          \
  X(unavailable, 503, true, "the store cannot keep its promise: nothing was taken, come again")         \
  X(deadline, 504, false, "timeout_ms is over")

/// Why a request or a job failed, as the client is told.
enum class ErrorCode : unsigned char {
#define LANEMQ_ERROR_ENUMERATOR(code, http, retry, meaning) code,
  LANEMQ_ERROR_TABLE(LANEMQ_ERROR_ENUMERATOR)
#undef LANEMQ_ERROR_ENUMERATOR
};

/// The message of a job that was `cancelled` since its client was gone for long, and its submit had said
/// `orphan: cancel`: a client that is there after all knows it by this.
inline constexpr std::string_view kOrphanText =
    "cancelled because its client is gone, as its submit asked for (orphan)";

/// One row of the table, in the order of the page's columns.
struct ErrorInfo {  // NOLINT(clang-analyzer-optin.performance.Padding): there are few
  ErrorCode code;
  std::string_view name;  ///< on the wire
  int http_status;
  bool says_when_to_retry;  ///< carries retry_after_ms
  std::string_view meaning;
};

/// All rows, in the order of the enumeration.
std::span<const ErrorInfo> error_table();
const ErrorInfo& error_info(ErrorCode code);
std::string_view name_of(ErrorCode code);
std::optional<ErrorCode> error_code(std::string_view name);
/// Whether the broker refused work because of a bound or an operator: the same job may be sent again later.
bool is_refusal(ErrorCode code);

// Why a worker's message is refused: X(code, meaning). The codes and docs/protocol/worker.md are made from
// it.
#define LANEMQ_REFUSAL_TABLE(X)                                                                              \
  X(unknown_session, "the broker does not know this worker: it says `ready` and what it holds")              \
  X(stale, "this outcome, chunk or progress comes too late: drop the attempt")                               \
  X(bad_request, "the message could not be read, `ready` names what is not there, or a chunk was not taken") \
  X(unauthorized, "the key of the connection does not count, or not any more: `ready` again later")          \
  X(full,                                                                                                    \
    "there are as many workers, or services that workers offer, as the broker may have: `ready` again "      \
    "later. What jobs name keeps no worker out")                                                             \
  X(too_large, "the message is over a limit")

/// Why a worker's message was not taken.
enum class RefusalCode : unsigned char {
#define LANEMQ_REFUSAL_ENUMERATOR(code, meaning) code,
  LANEMQ_REFUSAL_TABLE(LANEMQ_REFUSAL_ENUMERATOR)
#undef LANEMQ_REFUSAL_ENUMERATOR
};

std::string_view name_of(RefusalCode code);
std::optional<RefusalCode> refusal_code(std::string_view name);
/// The refusal of a message that could not be decoded.
RefusalCode refusal_of(ErrorCode code);

// The classes of workers' failures: X(class, meaning).
#define LANEMQ_ERROR_CLASS_TABLE(X)                                                       \
  X(retry, "transient: try again later, at the old place; costs an attempt")              \
  X(limited, "the upstream's rate is used up: pause until retry_after; costs no attempt") \
  X(quota, "the key is spent")                                                            \
  X(overloaded, "the upstream is short of capacity: try again later; costs an attempt")   \
  X(permanent, "never retried")                                                           \
  X(deadline, "the job's own time was over; says nothing of the upstream")                \
  X(released, "handed back untouched; costs no attempt")

/// How the broker treats a worker's failure.
enum class ErrorClass : unsigned char {
#define LANEMQ_CLASS_ENUMERATOR(name, meaning) name,
  LANEMQ_ERROR_CLASS_TABLE(LANEMQ_CLASS_ENUMERATOR)
#undef LANEMQ_CLASS_ENUMERATOR
};

std::string_view name_of(ErrorClass error_class);
std::optional<ErrorClass> error_class(std::string_view name);

// Which kind of an upstream's limit refused, of a failure of class `limited`: X(word, meaning).
#define LANEMQ_LIMITED_BY_TABLE(X)                \
  X(rate, "so much in a period of up to an hour") \
  X(concurrency, "too many calls at once")        \
  X(slope, "the pace rises too fast")             \
  X(day, "so much in a period of more than an hour")

enum class LimitedBy : unsigned char {
#define LANEMQ_LIMITED_BY_ENUMERATOR(word, meaning) word,
  LANEMQ_LIMITED_BY_TABLE(LANEMQ_LIMITED_BY_ENUMERATOR)
#undef LANEMQ_LIMITED_BY_ENUMERATOR
};

std::string_view name_of(LimitedBy kind);
/// None: the upstream did not say, or the word is of a later version.
std::optional<LimitedBy> limited_by(std::string_view name);

}  // namespace lanemq
