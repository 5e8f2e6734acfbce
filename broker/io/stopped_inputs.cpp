// SPDX-License-Identifier: Apache-2.0
#include "broker/io/stopped_inputs.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include <absl/container/flat_hash_map.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lanemq::io {
namespace {

std::atomic<bool> called{false};

/// What libzmq has asked for a descriptor so far.
enum class Input : std::uint8_t {
  none,  ///< not yet to read it; of a connection that is being made never
  on,
  stopped,  ///< not watched, which libzmq does not know
};

/// Whether this thread is one of those in which libzmq reads connections. They are named ZMQbg/IO/0 and on.
bool is_of_libzmq() {
  static thread_local const bool is_of_libzmq = [] {
    std::array<char, 16> name{};
    return ::prctl(PR_GET_NAME, name.data()) == 0 &&
           std::string_view(name.data()).find("ZMQbg/IO") != std::string_view::npos;
  }();
  return is_of_libzmq;
}

int control(int poller, int operation, int descriptor, epoll_event* event) {
  return static_cast<int>(::syscall(SYS_epoll_ctl, poller, operation, descriptor, event));
}

/// The same for libzmq's threads: each has descriptors of its own.
int control_of_libzmq(int poller, int operation, int descriptor, epoll_event* event) {
  static thread_local absl::flat_hash_map<int, Input> inputs;
  Input& input = inputs[descriptor];
  const bool is_stopped = input == Input::stopped;
  if (operation == EPOLL_CTL_DEL) {
    inputs.erase(descriptor);
    return is_stopped ? 0 : control(poller, operation, descriptor, event);
  }
  if (operation == EPOLL_CTL_ADD) {
    input = Input::none;
    return control(poller, operation, descriptor, event);
  }
  if ((event->events & EPOLLIN) != 0) {
    input = Input::on;
    return control(poller, is_stopped ? EPOLL_CTL_ADD : operation, descriptor, event);
  }
  if (is_stopped) return 0;
  if (input == Input::none) return control(poller, operation, descriptor, event);
  input = Input::stopped;
  return control(poller, EPOLL_CTL_DEL, descriptor, nullptr);
}

}  // namespace

bool guards_stopped_inputs() {
  return called.load(std::memory_order_relaxed);
}

}  // namespace lanemq::io

extern "C" {

int epoll_ctl(int poller, int operation, int descriptor, epoll_event* event) noexcept {
  lanemq::io::called.store(true, std::memory_order_relaxed);
  return lanemq::io::is_of_libzmq() ? lanemq::io::control_of_libzmq(poller, operation, descriptor, event)
                                    : lanemq::io::control(poller, operation, descriptor, event);
}

int epoll_wait(int poller, epoll_event* events, int size, int timeout) {
  const int ready = ::epoll_pwait(poller, events, size, timeout, nullptr);
  if (ready <= 0 || !lanemq::io::is_of_libzmq()) return ready;
  for (epoll_event& event : std::span(events, static_cast<std::size_t>(ready)))
    if ((event.events & EPOLLIN) != 0) event.events &= ~static_cast<std::uint32_t>(EPOLLERR | EPOLLHUP);
  return ready;
}
}
