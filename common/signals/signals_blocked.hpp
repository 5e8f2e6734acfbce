// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace lanemq {

/// No signal comes to this thread as long as this lives, nor to those that it starts meanwhile, for good:
/// signals are for the program's threads, and a socket that is being made takes one for a failure.
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
