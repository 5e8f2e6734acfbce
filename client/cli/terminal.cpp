// SPDX-License-Identifier: Apache-2.0
#include "client/cli/terminal.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace lanemq::cli {
namespace {

std::mutex mutex;       // guards the live line
std::string live_line;  // as it stands on the terminal

volatile std::sig_atomic_t caught_signal = 0;
volatile std::sig_atomic_t signal_bell = -1;  // an eventfd, made once

/// In a signal handler: errno is somebody's.
void ring_signal_bell() {
  const int before = errno;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(signal_bell, &one, sizeof one));  // full means that it rings already
  errno = before;
}

void on_interrupt(int signal) {
  caught_signal = signal;
  ring_signal_bell();
}

void on_resize(int) {
  ring_signal_bell();
}

void write_error(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

void say(std::string_view sentence) {
  const std::lock_guard lock(mutex);
  std::string text = live_line.empty() ? "" : "\r\x1b[K";
  text += "lanemq: ";
  text += sentence;
  text += '\n';
  text += live_line;
  write_error(text);
}

void show_live(std::string_view line) {
  if (!error_is_terminal()) return;
  const std::lock_guard lock(mutex);
  if (line.empty() && live_line.empty()) return;
  live_line = line;
  write_error("\r\x1b[K" + live_line);
}

bool error_is_terminal() {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  return terminal;
}

bool output_is_terminal() {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  return terminal;
}

bool output_takes_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return output_is_terminal() && (no_colour == nullptr || *no_colour == '\0');
}

std::size_t error_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool put(std::string_view data) {
  while (!data.empty()) {
    const ssize_t wrote = ::write(STDOUT_FILENO, data.data(), data.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      say(std::string("cannot write to the standard output: ") + std::strerror(errno));
      return false;
    }
    data.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

void catch_interrupts() {
  signal_bell = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one finds the default again
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int interrupted() {
  return caught_signal;
}

void catch_resizes() {
  struct sigaction action {};
  action.sa_handler = on_resize;
  sigemptyset(&action.sa_mask);
  sigaction(SIGWINCH, &action, nullptr);
}

int signal_descriptor() {
  return signal_bell;
}

void hush_signals() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(signal_bell, &count, sizeof count));
}

std::string short_duration(std::chrono::milliseconds duration) {
  const long long ms = duration.count();
  char text[32];
  if (ms < 1'000)
    std::snprintf(text, sizeof text, "%lldms", ms);
  else if (ms < 60'000)
    std::snprintf(text, sizeof text, "%lld.%llds", ms / 1'000, ms % 1'000 / 100);
  else if (ms < 3'600'000)
    std::snprintf(text, sizeof text, "%lldm%02llds", ms / 60'000, ms / 1'000 % 60);
  else
    std::snprintf(text, sizeof text, "%lldh%02lldm", ms / 3'600'000, ms / 60'000 % 60);
  return text;
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;)
    text.insert(at -= 3, 1, ',');
  return text;
}

}  // namespace lanemq::cli
