// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/stopped_inputs.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <span>
#include <string_view>

#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "broker/core/base/check.hpp"

namespace lanemq::io {
namespace {

using Control = int (*)(int, int, int, epoll_event*);
using Wait = int (*)(int, epoll_event*, int, int);

std::atomic<bool> called{false};

constexpr std::uint32_t kBreak = EPOLLERR | EPOLLHUP;
/// What libzmq hands to the system with a descriptor is the address of a record. Its lowest bit is free, and
/// says here that libzmq wants to read: an event shows what it was asked for.
constexpr std::uint64_t kReads = 1;

/// The function that this program would have without ours: the system's, or that of a sanitizer.
template <class Function>
Function next(const char* name) {
  const auto found = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
  LANEMQ_CHECK(found != nullptr);
  return found;
}

int control(int poller, int operation, int descriptor, epoll_event* event) {
  static const auto function = next<Control>("epoll_ctl");
  return function(poller, operation, descriptor, event);
}

/// Whether this thread is one of those in which libzmq reads connections. They are named ZMQbg/IO/0 and on.
bool is_of_libzmq() {
  static thread_local const bool is_of_libzmq = [] {
    std::array<char, 16> name{};
    return ::prctl(PR_GET_NAME, name.data()) == 0 &&
           std::string_view(name.data()).find("ZMQbg/IO") != std::string_view::npos;
  }();
  return is_of_libzmq;
}

/// Stops watching; a descriptor that is not watched is no error.
int leave(int poller, int descriptor) {
  const int result = control(poller, EPOLL_CTL_DEL, descriptor, nullptr);
  return result == -1 && errno == ENOENT ? 0 : result;
}

/// The same for libzmq's threads. Whether a descriptor is watched is asked of the system each time: a table
/// of ours would be wrong as soon as a number is used again.
int control_of_libzmq(int poller, int operation, int descriptor, epoll_event* event) {
  if (operation == EPOLL_CTL_DEL) return leave(poller, descriptor);
  if ((event->events & (EPOLLIN | EPOLLOUT)) == 0)
    return operation == EPOLL_CTL_ADD ? 0 : leave(poller, descriptor);
  LANEMQ_CHECK((event->data.u64 & kReads) == 0);
  epoll_event asked = *event;
  if ((asked.events & EPOLLIN) != 0) asked.data.u64 |= kReads;
  const int result = control(poller, operation, descriptor, &asked);
  if (result == -1 && operation == EPOLL_CTL_MOD && errno == ENOENT)
    return control(poller, EPOLL_CTL_ADD, descriptor, &asked);
  return result;
}

/// The form in which libzmq gets an event of the system.
epoll_event told(epoll_event event) {
  if ((event.events & kBreak) != 0) {
    const bool reads = (event.data.u64 & kReads) != 0 || (event.events & EPOLLIN) != 0;
    event.events = (event.events & ~kBreak) | (reads ? EPOLLIN : EPOLLOUT);
  }
  event.data.u64 &= ~kReads;
  return event;
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
  static const auto function = lanemq::io::next<lanemq::io::Wait>("epoll_wait");
  const int ready = function(poller, events, size, timeout);
  if (ready <= 0 || !lanemq::io::is_of_libzmq()) return ready;
  for (epoll_event& event : std::span(events, static_cast<std::size_t>(ready)))
    event = lanemq::io::told(event);
  return ready;
}
}
