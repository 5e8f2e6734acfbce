// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/admin_table.hpp>
#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"
#include "broker/io/commits/store_watch.hpp"
#include "broker/io/desks/operator_log.hpp"
#include "broker/io/loop/held_messages.hpp"
#include "broker/io/loop/loop_desks.hpp"
#include "broker/io/loop/stats_document.hpp"
#include "broker/io/peers/sockets.hpp"
#include "broker/io/store/store.hpp"
#include "common/log/line_limit.hpp"

namespace lanemq::io {

/// Reads a bounded number of messages a turn and tells the core what they say. Answers what is no message, or
/// not allowed on that socket. Not thread-safe; belongs to the loop.
class Intake {
 public:
  /// Messages that one turn takes from one socket, items of batches counted: enough to pay for a turn, and so
  /// few that peers have something to do meanwhile.
  static constexpr std::size_t kMessagesPerTurn = 96;

  /// All but `edit` outlive it. `edit`: applies an operator's change of an option. `started`: the core's time
  /// now.
  Intake(core::Broker& broker, Sockets& sockets, Store& store, StoreWatch& store_watch, LoopDesks& desks,
         TransportStats& stats, core::OptionEditor edit, core::TimePoint started);

  /// Each returns how many messages it took.
  std::size_t read_workers(core::TimePoint now);
  std::size_t read_admin(core::TimePoint now);
  std::size_t read_clients(core::TimePoint now);
  /// Tells the core of submits and outcomes that need not wait for the store any more. Comes before
  /// Broker::advance() of the same time.
  void hear_held(core::TimePoint now);
  /// When hear_held() has something to tell whatever comes; none: not for now.
  std::optional<core::TimePoint> next_wakeup() { return held_.next_wakeup(); }
  /// The worker at that address leaves: tells the core first of its outcomes that wait.
  void let_go(std::string_view address, core::TimePoint now);
  /// The core is to give up what runs: tells it first of all outcomes that wait.
  void let_all_go(core::TimePoint now);
  /// Tells the core that the client at that address is gone: now, and after each of its held messages.
  void client_gone(std::string_view address, core::TimePoint now);

 private:
  std::size_t take_client_message(core::Peer peer, core::TimePoint now);
  std::size_t take_worker_message(core::TimePoint now);
  void take_request(core::Peer peer, wire::ClientRequest& request, const Blob& body, core::TimePoint now);
  bool may_be_kept(const wire::Submit& submit) const;
  bool hold_request(const wire::ClientRequest& request, const Blob& body, core::TimePoint now);
  bool hold_batch(core::TimePoint now);
  bool hold_outcome(const wire::Outcome& outcome, const Blob& body, core::TimePoint now);
  bool hear_behind_outcomes(core::TimePoint now);
  bool is_given_up_now(std::string_view address, wire::Lease lease, core::TimePoint now) const;
  template <class Goes>
  void hear_outcomes(core::TimePoint now, Goes goes);
  void hear_again(HeldMessages::Message& message, core::Peer peer, core::TimePoint now);
  void take_report(const wire::WorkerReport& report, const Blob& body, core::TimePoint now);
  void note_sender(const Router& router, Connections& connections) {
    connections.heard(incoming_.descriptor(), incoming_.wire_bytes(router.is_encrypted()));
  }
  void watch_client();
  void watch_worker(const wire::Ready& ready);
  std::string client_batch_refused(core::Peer peer, std::size_t maps, std::int64_t first_says) const;
  std::string worker_batch_refused(std::size_t maps) const;
  void note_unreadable(std::string_view door, const DecodeError& error);
  void answer_bad_request(core::Peer peer, const DecodeError& error);
  void answer_forbidden(core::Peer peer, const wire::ClientRequest& request);
  static bool changes_unnoticed(const AdminInfo& info, const wire::AdminQuery& query);
  void take_admin_query(const core::Origin& from, const wire::AdminQuery& query, core::TimePoint now);
  void answer_refused(const wire::ClientRequest& request, std::string_view id,
                      const Authorizer::Refusal& why);
  void answer_unauthorized(std::string_view why);
  void refuse_key(std::string_view why);
  void answer_ping(const core::Origin& from, const wire::Ping& ping, core::TimePoint now);
  void answer_stats(const core::Origin& from, const wire::StatsQuery& query, core::TimePoint now);
  void refuse_worker(const DecodeError& error, core::TimePoint now);

  core::Broker& broker_;
  Sockets& sockets_;
  StoreWatch& store_watch_;
  LoopDesks& desks_;
  TransportStats& stats_;
  core::OptionEditor edit_;
  core::TimePoint started_;
  Decoder decoder_;
  OperatorLog operator_log_;
  Incoming incoming_;  ///< the message being handled
  log::LineLimit unreadable_lines_{1};
  HeldMessages held_;
  Items<wire::ClientRequest> requests_;
  Items<wire::WorkerReport> reports_;
};

}  // namespace lanemq::io
