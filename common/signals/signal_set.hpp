// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <initializer_list>

namespace lanemq {

/// The set of these signals, for pthread_sigmask(), signalfd() and the like.
inline sigset_t signal_set(std::initializer_list<int> numbers) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : numbers)
    sigaddset(&signals, number);
  return signals;
}

}  // namespace lanemq
