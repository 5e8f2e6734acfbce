// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/upstream_headers.hpp"

namespace lanemq::worker {

/// What came of an answer that was read while it arrived.
struct AnswerOutcome {
  std::optional<JobFailure> failure{};  ///< absent: success
  Blob body{};                          ///< of a success: what was not passed on in pieces
  wire::Usage usage{};                  ///< of a success
};

/// Takes a successful answer while it arrives, in place of its being collected. Serves one call, on the
/// thread of the worker's loop.
class AnswerReader {
 public:
  enum class Step : unsigned char {
    nothing,  ///< no whole part of the answer came
    part,     ///< one came, a ping perhaps: the upstream is at work
    stop,     ///< the outcome is known, and nothing more is to be read
  };

  virtual ~AnswerReader() = default;

  /// Whether it reads an answer with these headers; any other is collected as ever. Asked once, before the
  /// first byte.
  virtual bool reads(const UpstreamHeaders& headers) = 0;
  virtual Step take(std::string_view bytes) = 0;
  /// What waits for pass_on(), in bytes.
  virtual std::size_t pending() const = 0;
  /// Sends on what waits. False: the job's reader is behind, and no more is to be read until it has caught
  /// up.
  virtual bool pass_on(Completion& done) = 0;
  /// Whether there was something that the job's reader can see.
  virtual bool has_content() const = 0;
  /// Whether all of the answer was there.
  virtual bool is_complete() const = 0;
  /// What is known of the usage of an answer that is broken off.
  virtual wire::Usage usage_so_far() const = 0;
  /// What came of it, called once. `broken`: why the transfer ended early; absent: the upstream ended it.
  virtual AnswerOutcome outcome(std::optional<JobFailure> broken) = 0;
};

}  // namespace lanemq::worker
