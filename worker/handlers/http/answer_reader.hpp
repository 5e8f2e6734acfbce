// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/upstream_headers.hpp"

namespace lanemq::worker {

/// The outcome of an answer that was read while it arrived.
struct AnswerOutcome {
  std::optional<JobFailure> failure{};  ///< none: success
  Blob body{};                          ///< of a success: what was not passed on in pieces
  wire::Usage usage{};                  ///< of a success
};

/// Reads a successful answer while it arrives, instead of collecting it. Serves one call, on the thread of
/// the worker's loop.
class AnswerReader {
 public:
  enum class Step : unsigned char {
    nothing,  ///< no complete part of the answer came
    part,     ///< a part came, perhaps a ping: the upstream is at work
    stop,     ///< the outcome is known; nothing more is to be read
  };

  virtual ~AnswerReader() = default;

  /// Whether it reads an answer with these headers; any other is collected. Called once, before the first
  /// byte.
  virtual bool reads(const UpstreamHeaders& headers) = 0;
  virtual Step take(std::string_view bytes) = 0;
  /// Bytes that wait for pass_on().
  virtual std::size_t pending() const = 0;
  /// Passes on what waits. False: the job's reader is behind, and the caller reads no more until it has
  /// caught up.
  virtual bool pass_on(Completion& done) = 0;
  /// Whether the job's reader was sent content.
  virtual bool has_content() const = 0;
  /// Whether the answer is complete.
  virtual bool is_complete() const = 0;
  /// What is known of the usage of a broken-off answer.
  virtual wire::Usage usage_so_far() const = 0;
  /// The outcome, called once. `broken`: why the transfer ended early; none: the upstream ended it.
  virtual AnswerOutcome outcome(std::optional<JobFailure> broken) = 0;
};

}  // namespace lanemq::worker
