// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"
#include "tests/sim/auditor.hpp"
#include "tests/sim/caller_ledger.hpp"
#include "tests/sim/measure.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/scheduler.hpp"
#include "tests/sim/swarm.hpp"
#include "tests/sim/upstream_world.hpp"

namespace lanemq::sim {

/// The last lines of what happened, for whoever has to understand a failure.
class Trace {
 public:
  explicit Trace(std::size_t lines_max, bool echo) : lines_max_(lines_max), echo_(echo) {}
  void add(core::TimePoint when, const std::string& line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::size_t lines_max_;
  bool echo_;
  std::deque<std::string> lines_;
};

/// A connection between a peer and the broker. In order both ways, with a delay; what is under way is lost
/// when it dies.
struct Connection {
  core::Peer kind;
  std::string address;
  bool alive = true;
  std::string envelope;                ///< in front of what a REQ says; empty: it is none
  core::TimePoint up_at{}, down_at{};  ///< when the last message of each direction arrives
  core::TimePoint stalled_until{};     ///< nothing arrives before
  std::function<void(const std::string& header, const std::string& body)> receive;
};
using Link = std::shared_ptr<Connection>;

/// The broker of a run: the real core behind a network that can fail, watched by an auditor.
class BrokerHost {
 public:
  BrokerHost(const Swarm& swarm, Scheduler& scheduler, Random& random, Trace* trace);
  virtual ~BrokerHost() = default;
  BrokerHost(const BrokerHost&) = delete;
  BrokerHost& operator=(const BrokerHost&) = delete;

  Link connect(core::Peer kind, std::string envelope,
               std::function<void(const std::string& header, const std::string& body)> receive);
  /// Nobody is at the address any more.
  void disconnect(Link& link, bool process_ended = false);
  /// The peer reads and writes as before, but the broker sees a new address, and what was under way is lost.
  void change_address(const Link& link);
  void send(const Link& link, std::string_view header, std::string_view body);

  /// The transport takes the peer for gone, and is wrong.
  void take_for_gone(const Link& link);
  /// A new broker that knows nothing. Its peers find it under their old connections, at new addresses.
  void restart();
  void drain();
  /// An operator asks, and is heard at once.
  void operate(const wire::AdminQuery& query);
  /// The configuration is read again: as it was at the start, or with what is said now.
  void reload();
  void reload(const core::Options& options);
  /// The broker is stopped for so long, with all that it does; and goes on.
  void stand_still(Duration time);
  void go_on();
  bool stands_still() const { return scheduler_.now() < stands_until_; }
  bool drained() const { return broker_->drained(); }
  void give_up_running();

  /// Nothing is left of what any job took of a budget. No more turns after this.
  void check_all_restored() { auditor_->check_all_restored(broker_->budgets()); }

  /// Who is told what leaves the broker and comes to it. Requires: it outlives this.
  void tell(UpstreamWorld& upstreams) { upstreams_ = &upstreams; }
  /// Likewise, of what gateways and the broker say of callers' keys.
  void tell(CallerLedger& callers) { callers_ = &callers; }

  const Auditor& auditor() const { return *auditor_; }
  const core::Broker& broker() const { return *broker_; }
  bool is_down() const { return broker_ == nullptr; }
  /// The leases that were handed out lately, for liars.
  const std::deque<wire::Lease>& recent_leases() const { return recent_leases_; }
  std::uint64_t digest() const { return digest_; }
  std::size_t messages() const { return messages_; }
  std::size_t dispatches() const { return dispatches_ + watcher_->dispatches(); }
  std::size_t jobs() const { return jobs_ + watcher_->jobs(); }

 protected:
  /// Without a broker yet, and with somebody else in the auditor's place.
  BrokerHost(const Swarm& swarm, Scheduler& scheduler, Random& random, Trace* trace, Watcher& watcher);

  void make_broker();
  /// A turn begins; the broker has heard nothing of it yet.
  virtual void begin_turn() {}
  /// Shows the watcher what the last call to the core brought forth.
  virtual void report();
  virtual void send_all();
  void report_item(const core::Outbox& outbox, const core::Send& send, std::size_t item);
  void post(const core::Outbox& outbox, const core::Send& send);
  void schedule_turn(core::TimePoint when);
  /// The broker is gone, and with it all that was under way. Its peers are at new addresses when it is back.
  void lose_broker();
  void change_addresses();

  const Swarm& swarm_;
  Scheduler& scheduler_;
  Random& random_;
  Trace* trace_;
  std::unique_ptr<core::Broker> broker_;  ///< null while it is down
  int life_ = 0;
  core::Options options_;  ///< of the broker, as they are now
  core::Options file_;     ///< as its configuration was read last
  core::TimePoint stands_until_{};
  UpstreamWorld* upstreams_ = nullptr;
  CallerLedger* callers_ = nullptr;  // null where there are no gateways

 private:
  struct Packet {
    Link link;
    std::string header, body;
  };

  /// The broker, to be called; until the end of the expression what is allocated is counted as its own.
  class Call {
   public:
    explicit Call(core::Broker& broker) : broker_(broker) {}
    void handle(const core::Event& event, core::TimePoint now) { broker_.handle(event, now); }
    void advance(core::TimePoint now) { broker_.advance(now); }
    void give_up_running(core::TimePoint now) { broker_.give_up_running(now); }

   private:
    const InCore counted_;
    core::Broker& broker_;
  };
  Call calling() { return Call(*broker_); }
  void start();
  std::string new_address();
  Duration delay();
  void turn();
  void take(const Packet& packet);
  void take_client(const Packet& packet);
  void take_worker(const Packet& packet);
  void take_request(const Connection& link, const wire::ClientRequest& request, std::string_view body);
  void take_worker_report(const std::string& address, const wire::WorkerReport& report,
                          std::string_view body);
  void note_offer(const wire::JobOffer& offer);
  void note_standstill();
  void set(const wire::AdminQuery& asked);
  /// When what is sent now was decided, and whether it waited for the disk.
  virtual core::TimePoint decided_at(std::uint64_t /*job*/) { return scheduler_.now(); }
  virtual bool is_durable() const { return false; }
  void note_gone(core::Peer kind, const std::string& address);
  void plan_wakeup();

  std::unique_ptr<Auditor> auditor_;
  Watcher* watcher_ = nullptr;
  Decoder decoder_, sent_decoder_;
  std::unordered_map<std::string, Link> links_;
  std::vector<Packet> inbox_;
  std::vector<std::pair<core::Peer, std::string>> unreachable_;
  std::set<std::string> ended_;  // addresses whose processes have
  core::TimePoint turn_at_ = core::kNever;
  core::TimePoint last_turn_at_ = core::kNever;
  Duration idle_max_ = Duration::max();  // that the loop expected at its last turn
  std::vector<std::size_t> reported_;    // by message of the turn: its items that the auditor has seen
  std::size_t reported_notices_ = 0;
  std::size_t turn_bytes_ = 0;  // that the last turn sent
  std::deque<wire::Lease> recent_leases_;
  std::unordered_map<std::uint64_t, int> life_of_number_;
  std::uint64_t addresses_ = 0, digest_ = 0;
  std::size_t messages_ = 0, dispatches_ = 0, jobs_ = 0;
};

}  // namespace lanemq::sim
