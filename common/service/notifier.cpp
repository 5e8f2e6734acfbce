// SPDX-License-Identifier: Apache-2.0
#include "common/service/notifier.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <lanemq/text.hpp>

#include "common/log/log.hpp"

namespace lanemq::service {
namespace {

/// The watchdog is fed so many times in its time, so that a lost or a late datagram does no harm.
constexpr int kFeedsPerWatchdog = 4;
constexpr std::chrono::milliseconds kBeatMin{10};

void complain(const std::string& reason) {
  log::event(log::Level::warning, "service.unheard",
             {{"reason", reason}, {"do", "the program works; the service manager does not hear of it"}});
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The manager compares it with its own clock, to know which reload the following READY=1 ends.
std::int64_t monotonic_us() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1'000;
}

std::string extension(Notifier::Duration more) {
  return "EXTEND_TIMEOUT_USEC=" + std::to_string(std::max<std::int64_t>(more.count(), 1)) + "\n";
}

}  // namespace

Notifier::Notifier(const settings::Environment& environment) {
  const char* const address = environment("NOTIFY_SOCKET");
  if (address == nullptr || *address == '\0') return;
  listen_to(address);
  if (is_heard()) read_watchdog(environment);
}

Notifier::~Notifier() {
  if (socket_ >= 0) ::close(socket_);
}

void Notifier::listen_to(std::string_view address) {
  const std::string shown = "NOTIFY_SOCKET " + printable(address, 128);
  if (address.size() < 2 || (address.front() != '/' && address.front() != '@'))
    return complain(shown + " is neither a path nor @ and a name");
  if (address.size() > sizeof(sockaddr_un::sun_path) - 1)
    return complain(shown + " is longer than " + std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                    " bytes");
  address_ = address;
  // An abstract name begins with a zero byte, and ends with the address and not with one.
  if (address_.front() == '@') address_.front() = '\0';
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return complain(std::string("no socket: ") + std::strerror(errno));
  const timeval patience{.tv_sec = 0, .tv_usec = std::chrono::microseconds(kPatience).count()};
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

void Notifier::read_watchdog(const settings::Environment& environment) {
  const char* const time = environment("WATCHDOG_USEC");
  if (time == nullptr || *time == '\0') return;
  const char* const whose = environment("WATCHDOG_PID");
  if (whose != nullptr && whole_number(whose) != ::getpid()) return;  // of a process before this one
  const auto microseconds = whole_number(time);
  if (!microseconds || *microseconds <= 0)
    return complain("WATCHDOG_USEC " + printable(time, 64) + " is no number of microseconds above 0");
  watchdog_ = Duration(*microseconds);
}

std::optional<std::chrono::milliseconds> Notifier::beat_every() const {
  if (!is_heard()) return std::nullopt;
  if (!watchdog_) return kStatusEvery;
  const auto part = std::chrono::duration_cast<std::chrono::milliseconds>(*watchdog_ / kFeedsPerWatchdog);
  return std::clamp(part, kBeatMin, kStatusEvery);
}

/// One line, whatever the text holds: another one would be another message.
std::string Notifier::status_line(std::string_view text) {
  status_ = printable(text, kStatusBytesMax);
  return "STATUS=" + status_ + "\n";
}

bool Notifier::say(const std::string& lines, Wait wait) {
  sockaddr_un to{.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(to.sun_path, address_.data(), address_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const int flags = MSG_NOSIGNAL | (wait == Wait::no ? MSG_DONTWAIT : 0);
  const bool taken =
      ::sendto(socket_, lines.data(), lines.size(), flags, reinterpret_cast<const sockaddr*>(&to), size) >= 0;
  if (!taken && !failing_)
    complain("NOTIFY_SOCKET " + printable(address_, 128) + ": " + std::strerror(errno));
  failing_ = !taken;
  return taken;
}

void Notifier::say_state(const std::string& lines) {
  owed_ = say(lines, Wait::yes) ? std::string() : lines;
}

void Notifier::status(std::string_view text) {
  if (!is_heard()) return;
  const std::lock_guard lock(mutex_);
  if (printable(text, kStatusBytesMax) != status_) say(status_line(text), Wait::no);
}

void Notifier::extend(Duration more, std::string_view text) {
  if (!is_heard()) return;
  const std::lock_guard lock(mutex_);
  if (state_ == State::starting || state_ == State::stopping)
    say(extension(more) + status_line(text), Wait::no);
}

void Notifier::ready(std::string_view text) {
  if (!is_heard()) return;
  const std::lock_guard lock(mutex_);
  if (state_ != State::starting) return;
  state_ = State::ready;
  say_state("READY=1\n" + status_line(text));
}

void Notifier::reloading() {
  if (!is_heard()) return;
  const std::lock_guard lock(mutex_);
  if (state_ != State::ready) return;
  state_ = State::reloading;
  say_state("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic_us()) +
            "\nSTATUS=reads its configuration again\n");
}

void Notifier::reloaded() {
  if (!is_heard()) return;
  const std::lock_guard lock(mutex_);
  if (state_ != State::reloading) return;
  state_ = State::ready;
  say_state("READY=1\nSTATUS=" + status_ + "\n");
}

void Notifier::stopping(Duration within, std::string_view text) {
  if (!is_heard()) return;
  const std::lock_guard lock(mutex_);
  if (state_ == State::stopping) return;
  state_ = State::stopping;
  say_state("STOPPING=1\n" + extension(within) + status_line(text));
}

void Notifier::beat(std::chrono::nanoseconds now, bool lives, const std::function<std::string()>& text) {
  if (!is_heard()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!owed_.empty() && say(owed_, Wait::no)) owed_.clear();
    if (lives && watchdog_) say("WATCHDOG=1\n", Wait::no);
    if (state_ == State::reloading || (status_at_ && now - *status_at_ < kStatusEvery)) return;
    status_at_ = now;
  }
  status(text());
}

}  // namespace lanemq::service
