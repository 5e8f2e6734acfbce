// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <lanemq/blob.hpp>

#include "client/gateway/http/message.hpp"

namespace lanemq::gateway {

/// The way back of one request: one answer goes through it, whole or in pieces.
///
/// Everything here belongs to the loop's thread. All calls return at once, and after the caller is gone they
/// do nothing. Who lets go of the last reference without an answer answers 500 with it; after begin(), the
/// connection is cut.
class Responder {
 public:
  Responder() = default;
  virtual ~Responder() = default;
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  /// The whole answer. Requires: neither answer() nor begin() was called.
  virtual void answer(HttpAnswer answer) = 0;

  /// The head of an answer that comes in pieces. Requires: as answer().
  virtual void begin(int status, Headers headers) = 0;
  /// A piece. `written` is called when the system has taken these bytes and all before them: who waits for it
  /// is never ahead of the reader by more than the socket's buffer. Not called when the reader is gone.
  /// Requires: begin() was called, end() was not. Empty pieces are written as nothing.
  virtual void write(Blob bytes, std::function<void()> written = {}) = 0;
  /// No more pieces. Requires: as write().
  virtual void end() = 0;
  /// Breaks the connection off after what was written, so that the reader sees that the answer is not whole.
  virtual void cut() = 0;

  /// Called once when the caller hangs up, or reads nothing for too long, before the answer is over; replaces
  /// what was set before. Called at once if that has happened.
  virtual void on_gone(std::function<void()> gone) = 0;
  virtual bool gone() const = 0;
  /// Looks whether the caller has hung up by now, which is else found out later; then it is gone(). For what
  /// is in vain without somebody who waits for it: of a flood most have left before their turn comes.
  virtual bool has_hung_up() = 0;
};

using ResponderPtr = std::shared_ptr<Responder>;

}  // namespace lanemq::gateway
