// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "broker/core/broker.hpp"
#include "broker/io/bank/bank_desk.hpp"
#include "broker/io/base/options.hpp"
#include "broker/io/commits/commit_queue.hpp"
#include "broker/io/commits/handover_gate.hpp"
#include "broker/io/commits/post.hpp"
#include "broker/io/commits/store_watch.hpp"
#include "broker/io/desks/backup_desk.hpp"
#include "broker/io/desks/config_desk.hpp"
#include "broker/io/desks/key_desk.hpp"
#include "broker/io/desks/notice_log.hpp"
#include "broker/io/desks/ownership_desk.hpp"
#include "broker/io/desks/reload_desk.hpp"
#include "broker/io/desks/service_watch.hpp"
#include "broker/io/loop/boot_clock.hpp"
#include "broker/io/loop/clock_keeper.hpp"
#include "broker/io/loop/intake.hpp"
#include "broker/io/loop/stats_document.hpp"
#include "broker/io/loop/wait_spans.hpp"
#include "broker/io/peers/sockets.hpp"
#include "broker/io/store/body_reads.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// Server::run() returns this when the store has failed (sysexits(3), EX_IOERR).
inline constexpr int kExitStoreFailed = 74;
/// Its exit code after another broker has taken the store over, or is to take it (sysexits(3), EX_TEMPFAIL):
/// started again, this one waits.
inline constexpr int kExitDeposed = 75;

/// The store's content cannot be restored.
struct StoreError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Another broker took the store over while it was read, or its database went away: started again, this one
/// waits for it, or reads it anew.
struct StoreDeposed : StoreError {
  using StoreError::StoreError;
};

/// What the program knows of its configuration, and the loop does not.
struct Configuration {
  Reload reload;                     ///< reads it again
  core::OptionEditor edit;           ///< changes one option, by the file's rules
  ShowConfig show;                   ///< all options
  std::unique_ptr<BankRows> bank{};  ///< where the banks of shared budgets are; null: none are
};

/// The loop: reads sockets and clock, tells the core, commits, sends, turn by turn, with parts that it owns.
/// Not thread-safe: one thread owns everything here.
class Server {
 public:
  /// Binds the sockets and brings back what the store has. `signals` is a descriptor that becomes readable
  /// when a signal asks to stop, or with SIGHUP for a `reload` (signalfd); the caller keeps it, and
  /// `notifier`. Throws
  /// BindError when an endpoint cannot be bound, StoreError when the store cannot be read.
  Server(const ServerOptions& options, const core::Options& core_options, std::unique_ptr<Store> store,
         int signals, Configuration configuration, std::uint64_t seed, service::Notifier& notifier);

  std::string clients_endpoint() const { return sockets_.clients.endpoint(); }
  std::string workers_endpoint() const { return sockets_.workers.endpoint(); }
  /// Empty: there is none.
  std::string admin_endpoint() const;

  /// For threads that speak to it from this process.
  zmq::context_t& context() { return sockets_.context; }

  /// Tells the service manager that all is ready, then runs until a signal asks to stop and the drain is
  /// over. Returns the program's exit code.
  int run();

 private:
  using Clock = BootClock;

  core::TimePoint now() const;
  void restore();
  bool turn();
  void take_bank(core::TimePoint now);
  void note_bank();
  void wait();
  void read_store(core::TimePoint now);
  void take_disconnected_workers();
  void note_standstill(core::Duration expected);
  void look_at_connections();
  void make_spans();
  bool catches_up(std::size_t read);
  void take_signals(core::TimePoint now);
  void begin_end(core::Duration within);
  void begin_handover();
  bool over(core::TimePoint now);

  ServerOptions options_;
  core::Broker broker_;
  std::unique_ptr<Store> store_;
  TransportStats stats_;
  Sockets sockets_;
  HandoverGate gate_;
  Post post_;
  CommitQueue commits_;
  BodyReads bodies_;
  std::optional<ClockKeeper> clocks_;  ///< none: the store has a clock of its own, or is not on disk
  StoreWatch store_watch_;
  BackupDesk backups_;
  KeyDesk keys_;
  ServiceWatch service_watch_;
  DepthLog depths_;
  ReloadDesk reloads_;
  PluginDesk plugins_;
  ConfigDesk config_desk_;
  OwnershipDesk ownership_;
  Intake intake_;
  std::unique_ptr<WaitSpans> spans_;  ///< null: none are made
  std::unique_ptr<BankDesk> bank_;    ///< null: no budget is shared
  int signals_;
  Clock::time_point started_;
  Clock::time_point polled_{};
  core::TimePoint now_{};
  int turns_deferred_ = 0;  ///< turns since a worker's connection ended, while workers have more messages
  std::optional<core::TimePoint> stood_still_at_;  ///< the end of a standstill, while its messages are read
  std::optional<core::TimePoint> stop_at_;         ///< draining: when the time to finish is over
  bool stop_now_ = false;
  int exit_code_ = 0;
};

}  // namespace lanemq::io
