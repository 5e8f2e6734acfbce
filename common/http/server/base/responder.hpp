// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <lanemq/blob.hpp>

#include "common/http/server/base/message.hpp"

namespace lanemq::http {

/// What a handler knows of a request besides its answer, for who logs it.
struct AnswerFacts {
  std::string lane{}, model{};
  std::optional<std::chrono::milliseconds> waited{}, ran{};
  std::optional<std::int64_t> input_tokens{}, output_tokens{};
  std::string traceparent{};  ///< where what the request caused stands; empty: nowhere, or not said
};

/// The way back of a request: one answer, whole or in pieces.
///
/// Belongs to the loop's thread. All calls return at once, and do nothing after the caller has left.
/// Releasing the last reference without an answer answers 500; after begin() it cuts the connection.
class Responder {
 public:
  Responder() = default;
  virtual ~Responder() = default;
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  /// Sends a whole answer. Requires: neither answer() nor begin() was called.
  virtual void answer(HttpAnswer answer) = 0;

  /// Sends the head of an answer in pieces. Requires: neither answer() nor begin() was called.
  virtual void begin(int status, Headers headers) = 0;
  /// Sends a piece. `written` is called when the system has accepted it and all before, so that a sender that
  /// waits is ahead of the reader by at most the socket's buffer; not called when the reader has left. Empty
  /// pieces write nothing. Requires: begin() was called, end() was not.
  virtual void write(Blob bytes, std::function<void()> written = {}) = 0;
  /// Ends an answer in pieces. Requires: begin() was called, end() was not.
  virtual void end() = 0;
  /// Cuts the connection behind what was written, so that the reader sees that the answer is incomplete.
  virtual void cut() = 0;

  /// Says what is known of the request, before its answer's end. Replaces what was said before.
  virtual void tell(AnswerFacts facts) { static_cast<void>(facts); }

  /// Sets what is called once if the caller hangs up, or reads nothing for too long, before the answer's end;
  /// at once if that has happened. Replaces an earlier one.
  virtual void on_gone(std::function<void()> gone) = 0;
  virtual bool gone() const = 0;
  /// Looks whether the caller has hung up, which would else be noticed later; if so gone() is true. For work
  /// that is useless without the caller: in a flood most have left before their turn.
  virtual bool has_hung_up() = 0;
};

using ResponderPtr = std::shared_ptr<Responder>;

}  // namespace lanemq::http
