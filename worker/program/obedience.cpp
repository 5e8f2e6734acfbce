// SPDX-License-Identifier: Apache-2.0
#include "worker/program/obedience.hpp"

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace lanemq::worker {
namespace {

int make_event() {
  const int event = eventfd(0, EFD_CLOEXEC);
  if (event < 0) throw std::runtime_error("no descriptor is left to wait for commands");
  return event;
}

}  // namespace

Obedience::Obedience(service::Commands& commands, Told told)
    : commands_(commands), told_(std::move(told)), end_(make_event()), thread_([this] { run(); }) {}

Obedience::~Obedience() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(end_, &one, sizeof one));
  thread_.join();
  ::close(end_);
}

void Obedience::obey(Worker* worker, std::function<void()> reload) {
  const std::lock_guard lock(mutex_);
  worker_ = worker;
  reload_ = std::move(reload);
  if (reload_ && std::exchange(reload_is_due_, false)) reload_();
}

void Obedience::run() {
  pollfd looked_at[] = {{.fd = end_, .events = POLLIN, .revents = 0},
                        {.fd = commands_.descriptor(), .events = POLLIN, .revents = 0}};
  while (looked_at[0].revents == 0) {
    if (::poll(looked_at, 2, -1) < 0 && errno != EINTR) return;
    while (const auto command = commands_.next())
      take(*command);
  }
}

void Obedience::take(service::Command command) {
  const std::lock_guard lock(mutex_);
  if (command == service::Command::reload) {
    if (reload_) return reload_();
    reload_is_due_ = true;  // what has been read already may be old
    return;
  }
  if (!worker_) return told_.without_worker();
  told_.stop();
  worker_->stop();
}

}  // namespace lanemq::worker
