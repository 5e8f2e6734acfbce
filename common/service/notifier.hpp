// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "common/settings/environment.hpp"

namespace lanemq::service {

/// Tells the service manager (systemd) how this program is, in datagrams of sd_notify(3). Where no manager
/// listens all calls do nothing. Thread-safe.
///
/// A program begins in its start. It says ready() once it serves, reloading() and reloaded() around each
/// reload, and stopping() when it was told to stop; out of this order these calls do nothing. A manager that
/// reads nothing holds a caller up for kPatience at most; beat() then tells it later.
class Notifier {
 public:
  using Duration = std::chrono::microseconds;

  /// How long a change of state waits for room in the manager's socket. All else does not wait.
  static constexpr std::chrono::milliseconds kPatience{200};
  /// The shortest time between two status lines of beat().
  static constexpr std::chrono::milliseconds kStatusEvery{1'000};
  static constexpr std::size_t kStatusBytesMax = 512;

  /// No manager listens.
  Notifier() = default;
  /// Reads NOTIFY_SOCKET (a path, or `@` and an abstract name), WATCHDOG_USEC and WATCHDOG_PID. Logs
  /// `service.unheard` for what cannot be used; all else works without it.
  explicit Notifier(const settings::Environment& environment);
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  bool is_heard() const { return socket_ >= 0; }
  /// The manager ends a program that was not fed for so long; none: it does not watch.
  std::optional<Duration> watchdog() const { return watchdog_; }
  /// How often beat() is to be called; none: nobody listens.
  std::optional<std::chrono::milliseconds> beat_every() const;

  /// Sets the line that `systemctl status` shows; sent if it differs from the last.
  void status(std::string_view text);
  /// The present state, a start or a stop, may last `more` from now on, whatever the manager's timeout is.
  void extend(Duration more, std::string_view text);
  void ready(std::string_view text);
  void reloading();
  void reloaded();
  /// `within`: the stop takes no longer.
  void stopping(Duration within, std::string_view text);

  /// Feeds the watchdog if the program `lives`; and sets the status, which is asked for at most every
  /// kStatusEvery. `now`: of one clock that does not go back.
  void beat(std::chrono::nanoseconds now, bool lives, const std::function<std::string()>& text);

 private:
  enum class State : unsigned char { starting, ready, reloading, stopping };
  enum class Wait : bool { no, yes };

  void listen_to(std::string_view address);
  void read_watchdog(const settings::Environment& environment);
  bool say(const std::string& lines, Wait wait);
  void say_state(const std::string& lines);
  std::string status_line(std::string_view text);

  std::string address_;  ///< of the manager's socket, as in sockaddr_un::sun_path
  int socket_ = -1;
  std::optional<Duration> watchdog_;

  std::mutex mutex_;  ///< of what follows
  State state_ = State::starting;
  std::string status_;  ///< as sent last
  std::optional<std::chrono::nanoseconds> status_at_;
  bool failing_ = false;  ///< the last datagram was not taken
  std::string owed_;      ///< the change of state that was not taken; beat() says it again
};

/// While it lives the manager knows that the program reads its configuration again.
class Reloading {
 public:
  explicit Reloading(Notifier& notifier) : notifier_(notifier) { notifier_.reloading(); }
  ~Reloading() { notifier_.reloaded(); }
  Reloading(const Reloading&) = delete;
  Reloading& operator=(const Reloading&) = delete;

 private:
  Notifier& notifier_;
};

}  // namespace lanemq::service
