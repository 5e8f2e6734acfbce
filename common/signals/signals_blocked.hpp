// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace lanemq {

/// Blocks all signals of this thread while it lives; threads started meanwhile keep them blocked. Signals are
/// handled by the program's own threads, and an interrupted call would fail while a socket is made.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace lanemq
