// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <absl/container/flat_hash_set.h>
#include <zmq.hpp>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"
#include "broker/io/body_cache.hpp"
#include "broker/io/disconnects.hpp"
#include "broker/io/processes.hpp"
#include "broker/io/router.hpp"
#include "broker/io/stats_document.hpp"
#include "broker/io/store.hpp"

namespace lanemq::io {

/// What the adapters are told at their start; the core has its own options.
struct ServerOptions {
  std::string clients = "tcp://127.0.0.1:5570";
  std::string workers = "tcp://127.0.0.1:5571";
  std::string admin;            ///< where operators connect
  bool admin_required = false;  ///< nobody runs without it; else its lack is a warning
  int client_receive_hwm = 256, client_send_hwm = 1000;
  std::size_t store_backlog_max = std::size_t{64} << 20;       ///< bytes that wait for the store's disk
  std::size_t client_large_bytes_max = std::size_t{32} << 20;  ///< large bodies on their way to one client
  std::size_t client_backlog_bytes_max = std::size_t{16}
                                         << 20;            ///< answers held for one client that reads slowly
  std::size_t backlog_bytes_max = std::size_t{256} << 20;  ///< the same for all clients
  int io_threads = 1;
};

/// Of Server::run(): the store failed; sysexits(3), EX_IOERR.
inline constexpr int kExitStoreFailed = 74;

/// Reads the configuration again, says in the log what came of it, and returns what the core is to go by;
/// none where it cannot be used.
using Reload = std::function<std::optional<core::Options>()>;

/// What is in the store cannot be brought back.
struct StoreError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The loop: reads the sockets and the clock, tells the core, commits, sends. One thread owns everything
/// here.
class Server {
 public:
  /// Binds the sockets and brings back what the store has. `signals` is a descriptor that becomes readable
  /// when a signal asks to stop, or with SIGHUP for a `reload` (signalfd); the caller keeps it. Throws
  /// zmq::error_t when an endpoint cannot be bound, StoreError when the store cannot be read.
  Server(const ServerOptions& options, const core::Options& core_options, std::unique_ptr<Store> store,
         int signals, Reload reload, core::OptionEditor edit, std::uint64_t seed);

  std::string clients_endpoint() const { return clients_.endpoint(); }
  std::string workers_endpoint() const { return workers_.endpoint(); }
  /// Empty: there is none.
  std::string admin_endpoint() const { return admin_ ? admin_->endpoint() : std::string(); }

  /// Runs until a signal has asked to stop and the drain is over. Returns the program's exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  core::TimePoint now() const;
  bool turn();
  void wait();
  std::size_t read_workers(core::TimePoint now);
  std::size_t read_admin(core::TimePoint now);
  std::size_t read_clients(core::TimePoint now);
  void bind_admin();
  std::size_t take_client_message(core::Peer peer, core::TimePoint now);
  std::size_t take_worker_message(core::TimePoint now);
  void take_request(core::Peer peer, const wire::ClientRequest& request, const Blob& body,
                    core::TimePoint now);
  void take_report(const wire::WorkerReport& report, const Blob& body, core::TimePoint now);
  void watch_peer();
  std::string client_batch_refused(core::Peer peer, std::size_t maps, std::int64_t first_says) const;
  std::string worker_batch_refused(std::size_t maps) const;
  void take_disconnected_workers();
  void watch_worker(const wire::Ready& ready);
  void answer_bad_request(core::Peer peer, const DecodeError& error);
  void answer_forbidden(core::Peer peer, const wire::ClientRequest& request);
  void refuse_worker(const DecodeError& error);
  void answer_stats(const core::Origin& from, const wire::StatsQuery& query, core::TimePoint now);
  void restore();
  void read_store(core::TimePoint now);
  void read_bodies(core::TimePoint now);
  void commit(core::TimePoint now);
  /// Whoever asked for a backup.
  struct BackupAsked {
    std::string address, envelope, ref, path;
  };
  void begin_backup(const core::Origin& from, const wire::AdminQuery& query);
  void refuse_backup(const BackupAsked& asked, const Error& why);
  void answer_backup(const Result<void>& ended);
  std::size_t store_backlog() const;
  void tell_store_behind(core::TimePoint now);
  void tell_store_stalled(core::TimePoint now);
  void send_all();
  bool has_committed() const;
  void send_committed();
  /// What is to be sent of an outbox: what waits for the disk, or what does not, and to whom.
  struct Part {
    bool waiting;
    bool to_workers = true, to_others = true;
  };
  void send_part(const core::Outbox& outbox, Part part);
  void send_to_client(const core::Outbox& outbox, const core::Send& send);
  void send_to_admin(const core::Outbox& outbox, const core::Send& send);
  void send_to_worker(const core::Outbox& outbox, const core::Send& send);
  void hold_back(std::string_view address, const core::Outbox& outbox, const core::Send& send);
  void note_standstill(core::Duration expected);
  bool catches_up(std::size_t read);
  void flush_backlogs();
  void log_notices();
  void take_signals(core::TimePoint now);
  bool over(core::TimePoint now);

  /// Answers that wait for a client to read.
  struct Held {
    std::string envelope, header;
    Blob body;
    std::size_t bytes() const { return sizeof(Held) + envelope.size() + header.size() + body.size(); }
  };
  struct Backlog {
    std::deque<Held> messages;
    std::size_t bytes = 0;
  };

  ServerOptions options_;
  core::Broker broker_;
  std::unique_ptr<Store> store_;
  zmq::context_t context_;
  Router clients_, workers_;
  std::optional<Router> admin_;
  Disconnects disconnects_;  // of clients
  Disconnects worker_disconnects_;
  Processes processes_;     // of workers
  int turns_deferred_ = 0;  // since workers' connections have ended, with more to read of what they said
  int signals_;
  Reload reload_;
  core::OptionEditor edit_;  // for what operators change
  Decoder decoder_;
  Incoming incoming_;
  Items<wire::ClientRequest> requests_;
  Items<wire::WorkerReport> reports_;
  Buffer document_;
  std::map<std::string, Backlog, std::less<>> backlogs_;
  TransportStats stats_;
  Clock::time_point started_;
  Clock::time_point polled_{};
  core::TimePoint now_{};
  std::optional<core::TimePoint> stop_at_;  // draining until then
  bool stop_now_ = false;
  int exit_code_ = 0;

  /// What waits for the disk, the oldest turn first.
  struct Uncommitted {
    std::uint64_t ticket = 0;
    std::size_t bytes = 0;
    std::unique_ptr<core::Outbox> outbox;
  };
  std::deque<Uncommitted> uncommitted_;
  std::size_t offered_ = 0;  ///< the first of them, which are committed and whose jobs have left
  std::size_t uncommitted_bytes_ = 0;
  std::vector<std::unique_ptr<core::Outbox>> spare_outboxes_;
  std::uint64_t ticket_ = 0;        // the last one
  std::uint64_t notes_ticket_ = 0;  // of the last notes that were given to the store
  core::TimePoint notes_at_{};
  std::optional<std::uint64_t> watched_notes_;  // those of which the core wants to hear that they are on disk
  bool behind_ = false, stalled_ = false;       // what the core was told of the store
  std::uint64_t committed_before_ = 0;          // when the disk was last seen to go on, or had nothing to do
  core::TimePoint went_on_at_{};
  std::optional<core::TimePoint> stood_still_at_;  // the end of it, while what came meanwhile is read
  StoreCondition condition_ = StoreCondition::good;
  BodyCache bodies_;
  std::vector<std::uint64_t> wanted_;  // bodies to ask for
  std::vector<std::uint64_t> wanted_results_;
  std::size_t reading_ = 0;  // bodies that were asked for and have not come
  std::vector<StoredBody> read_;
  absl::flat_hash_set<std::uint64_t> awaited_;  // bodies that somebody waits for
  std::optional<BackupAsked> backup_;

  std::vector<std::string> unreachable_;   // workers found gone while sending
  std::vector<std::string> gone_clients_;  // likewise
};

}  // namespace lanemq::io
