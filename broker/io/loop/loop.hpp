// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "broker/core/broker.hpp"
#include "broker/io/bank/bank_desk.hpp"
#include "broker/io/base/options.hpp"
#include "broker/io/commits/commit_queue.hpp"
#include "broker/io/commits/handover_gate.hpp"
#include "broker/io/commits/post.hpp"
#include "broker/io/commits/store_watch.hpp"
#include "broker/io/desks/notice_log.hpp"
#include "broker/io/loop/clock_keeper.hpp"
#include "broker/io/loop/intake.hpp"
#include "broker/io/loop/loop_clock.hpp"
#include "broker/io/loop/loop_desks.hpp"
#include "broker/io/loop/server.hpp"
#include "broker/io/loop/stats_document.hpp"
#include "broker/io/loop/wait_spans.hpp"
#include "broker/io/peers/sockets.hpp"
#include "broker/io/store/body_reads.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// Reads sockets and clock, tells the core, commits, sends, turn by turn, with parts that it owns.
/// Not thread-safe: one thread owns everything here.
class Loop {
 public:
  /// As Server's.
  Loop(const ServerOptions& options, const core::Options& core_options, std::unique_ptr<Store> store,
       service::Host host, Configuration configuration, std::uint64_t seed);

  Sockets& sockets() { return sockets_; }
  int run();

 private:
  /// How the loop ends.
  struct End {
    std::optional<core::TimePoint> at;  ///< draining: when the time to finish is over
    bool now = false;
    int exit_code = 0;
  };

  void restore();
  void tell_restored(const Restored& restored, std::chrono::milliseconds took) const;
  bool turn();
  void take_bank(core::TimePoint now);
  void note_bank();
  long poll_timeout();
  void wait();
  void read_store(core::TimePoint now);
  void take_disconnected_workers();
  void take_gone_clients();
  void move_time_on(core::Duration expected);
  void look_at_connections();
  void make_spans();
  void take_commands();
  void begin_end(core::Duration within);
  void begin_handover();
  bool over();

  ServerOptions options_;
  core::Broker broker_;
  std::unique_ptr<Store> store_;
  TransportStats stats_;
  Sockets sockets_;
  LoopClock clock_;
  HandoverGate gate_;
  Post post_;
  CommitQueue commits_;
  BodyReads bodies_;
  std::optional<ClockKeeper> clocks_;  ///< none: the store has a clock of its own, or is not on disk
  StoreWatch store_watch_;
  LoopDesks desks_;
  DepthLog depths_;
  Intake intake_;
  std::unique_ptr<WaitSpans> spans_;  ///< null: none are made
  std::unique_ptr<BankDesk> bank_;    ///< null: no budget is shared
  service::Commands& commands_;
  int turns_deferred_ = 0;  ///< turns since a worker's connection ended, while workers have more messages
  End end_;
};

}  // namespace lanemq::io
