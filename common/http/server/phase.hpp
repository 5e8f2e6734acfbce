// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace lanemq::http {

/// Where a connection is with its present request. Only forward, but for the next request's head.
enum class Phase : unsigned char {
  head,        ///< a request is waited for, or its head is read
  body,        ///< its body is read
  exchange,    ///< it is with its handler, or its answer on its way
  answered,    ///< all of its answer is with what waits to be written
  discarding,  ///< the answer was sent; what comes is read and dropped
  closed,
};

/// The phase of a connection, which counts while it is busy: while a request is read or served.
class Progress {
 public:
  /// `busy`: the number of busy connections; outlives it.
  explicit Progress(std::size_t& busy) : busy_(busy) {}
  ~Progress() { enter(Phase::closed); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A closed connection stays closed.
  void enter(Phase phase) {
    if (is_closed()) return;
    if (is_busy()) --busy_;
    phase_ = phase;
    if (is_busy()) ++busy_;
  }
  bool is(Phase phase) const { return phase_ == phase; }
  bool is_exchanging() const { return is(Phase::exchange) || is(Phase::answered); }
  bool is_closed() const { return is(Phase::closed); }

 private:
  bool is_busy() const { return is(Phase::body) || is_exchanging(); }

  std::size_t& busy_;
  Phase phase_ = Phase::head;
};

}  // namespace lanemq::http
