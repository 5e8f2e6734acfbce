// SPDX-License-Identifier: Apache-2.0
#include "client/cli/text/terminal.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lanemq/unprintable.hpp>

#include "common/signals/signal_set.hpp"

namespace lanemq::cli {
namespace {

std::mutex mutex;       // guards what follows
std::string live_line;  // as shown on the terminal
/// Sentences that wait for the end of HeldWords; none: they do not wait. What is beyond the bound is left
/// out.
std::optional<std::string> held;
constexpr std::size_t kHeldBytesMax = std::size_t{64} * 1024;

std::atomic<int> caught_signal{0};
int signal_bell = -1;         // an eventfd, made once
bool output_watched = false;  // set before there are threads

/// The thread in write_breaking_off(), which an interrupt wakes with kBreakOff.
std::atomic<bool> writing{false};
std::atomic<pthread_t> writer{};
constexpr int kBreakOff = SIGUSR1;
constexpr timespec kBreakOffEvery{.tv_sec = 0, .tv_nsec = 50'000'000};

/// Waits for signals on a thread of its own, which ends with the process: no handler interrupts other
/// threads.
void await_signals() {
  const sigset_t interrupts = signal_set({SIGINT, SIGTERM});
  sigset_t awaited = signal_set({SIGINT, SIGTERM, SIGHUP, SIGWINCH});
  while (true) {
    const int signal = sigtimedwait(&awaited, nullptr, &kBreakOffEvery);
    // Repeated: one signal may come just before the write.
    if (caught_signal != 0 && writing) pthread_kill(writer, kBreakOff);
    if (signal < 0) continue;
    if (signal != SIGWINCH) {
      caught_signal = signal;
      // From now on a second signal ends the process, as by default. But SIGHUP comes twice where a terminal
      // is closed: from the kernel and from the shell.
      awaited = signal_set({SIGHUP, SIGWINCH});
      pthread_sigmask(SIG_UNBLOCK, &interrupts, nullptr);
    }
    const std::uint64_t one = 1;
    static_cast<void>(!::write(signal_bell, &one, sizeof one));  // a full counter is readable already
  }
}

void write_error(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::size_t columns_of(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

HeldWords::HeldWords() {
  const std::lock_guard lock(mutex);
  held.emplace();
}

HeldWords::~HeldWords() {
  const std::lock_guard lock(mutex);
  write_error(*held);
  held.reset();
}

void say(std::string_view sentence) {
  const std::lock_guard lock(mutex);
  if (held) {
    if (held->size() < kHeldBytesMax) *held += "lanemq: " + std::string(sentence) + '\n';
    return;
  }
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

std::size_t output_columns() {
  return columns_of(STDOUT_FILENO);
}

std::size_t error_columns() {
  return columns_of(STDERR_FILENO);
}

std::string harmless(std::string_view data) {
  std::string text;
  text.reserve(data.size());
  const std::string shown = escape_unprintable(data);
  for (std::size_t at = 0; at < shown.size();) {
    const auto c = static_cast<unsigned char>(shown[at]);
    const std::size_t length = utf8_length(shown, at);
    if (length > 0 && (c >= 0x20 || c == '\n' || c == '\t')) {
      text.append(shown, at, length);
      at += length;
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned>(c));
    text += escaped;
    ++at;
  }
  return text;
}

ssize_t write_breaking_off(int fd, std::string_view data) {
  writer = pthread_self();
  writing = true;
  const ssize_t wrote = ::write(fd, data.data(), data.size());
  writing = false;
  return wrote;
}

bool put(std::string_view data) {
  while (!data.empty()) {
    const ssize_t wrote = write_breaking_off(STDOUT_FILENO, data);
    if (wrote < 0 && errno == EINTR && interrupted() != 0) return false;
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EPIPE) {
      caught_signal = SIGPIPE;
      return false;
    }
    if (wrote < 0) {
      say(std::string("cannot write to the standard output: ") + std::strerror(errno));
      return false;
    }
    data.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

bool put_foreign(std::string_view data) {
  return output_is_terminal() ? put(harmless(data)) : put(data);
}

bool ForeignPieces::put(std::string_view piece) {
  if (!output_is_terminal()) return cli::put(piece);
  held_ += piece;
  const std::size_t bytes = held_.size() - unfinished_bytes(held_);
  const std::string whole = held_.substr(0, bytes);
  held_.erase(0, bytes);
  return cli::put(harmless(whole));
}

bool ForeignPieces::end() {
  return cli::put(harmless(std::exchange(held_, {})));
}

bool put_json(std::string_view json) {
  return put(escape_unprintable(json));
}

void catch_interrupts() {
  signal_bell = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  for (const int number : {SIGINT, SIGTERM})
    std::signal(number, SIG_DFL);  // a parent may have made the process ignore it
  std::signal(SIGPIPE, SIG_IGN);   // put() handles the error
  struct sigaction nothing {};     // without SA_RESTART
  nothing.sa_handler = [](int) {};
  ::sigaction(kBreakOff, &nothing, nullptr);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  sigset_t signals = signal_set({SIGINT, SIGTERM, SIGWINCH});
  if (hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(await_signals).detach();
}

void watch_output() {
  output_watched = true;
}

int interrupted() {
  if (output_watched && caught_signal == 0) {
    pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
    if (::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0) caught_signal = SIGPIPE;
  }
  return caught_signal;
}

int signal_descriptor() {
  return signal_bell;
}

void hush_signals() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(signal_bell, &count, sizeof count));
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;)
    text.insert(at -= 3, 1, ',');
  return text;
}

}  // namespace lanemq::cli
