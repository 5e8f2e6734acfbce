// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/crashing_host.hpp"
#include "tests/sim/disasters.hpp"

namespace lanemq::sim {

/// What a client asked to be done, as it goes over the wire, again and again if need be.
struct Task {
  std::string id, service, lane, model, client, body, reply;
  std::string meta, trace, extras;  ///< msgpack
  std::uint32_t extras_count = 0;
  std::optional<std::int64_t> spare;  ///< its header is full but for so many bytes
  std::optional<std::int64_t> timeout_ms, delay_ms, retain_ms, attempts_max;
  std::optional<wire::Cost> cost;
  std::optional<bool> durable;
  bool stream = false;
  bool orphan = false;  ///< it is to be cancelled when its client is gone
  std::string group, notify;
  std::optional<std::int64_t> group_size;
};

/// The service whose jobs tell of ends.
inline constexpr const char* kHook = "hook";
/// Jobs of a batch, and batches of which a follower may ask at random.
inline constexpr std::uint64_t kBatchJobs = 4, kBatchesMost = 60;
/// One of the groups that jobs of a run may be of.
std::string some_group(Random& random, const Swarm& swarm);

/// What the actors of a run share.
struct Stage {
  const Swarm& swarm;
  Scheduler& scheduler;
  Random& random;
  BrokerHost& host;
  UpstreamWorld& upstreams;
  std::uint64_t next_ref = 1, next_task = 1;
  std::deque<Task> recent_tasks;  ///< with ids, of all clients
  bool healing = false;           ///< no new work and no new trouble
  core::TimePoint out_until{};    ///< there is no connection to any upstream until then
};

class SimClient;
class SimFollower;
class SimGateways;
class SimOperator;
class SimWorker;

struct RunReport {
  std::size_t events = 0, messages = 0, jobs = 0, dispatches = 0;
  Duration simulated{};
  std::uint64_t digest = 0;
};

/// One run: a seed's mixture of clients, workers and trouble around one broker, until all is over.
class World {
 public:
  /// What the broker is like: it may forget everything, or has a store and dies now and then.
  enum class Kind : std::uint8_t { forgetful, crashing };

  World(std::uint64_t seed, Kind kind, std::size_t events_max, Trace* trace);
  ~World();

  /// Throws Violation.
  RunReport run();
  /// In a few lines, for whoever reads a trace.
  std::string describe() const;

 private:
  void start_trouble();
  void make_trouble();
  void run_until(core::TimePoint end);
  bool is_busy() const;
  void answer_everybody();
  void finish_in_peace();
  void finish_by_drain();
  void finish_on_disk();
  void follow_batches();
  void check_callers();
  void clients_find_out();
  void return_late();

  Random random_;
  Swarm swarm_;
  std::uint64_t gateways_seed_ = 0;
  Crashes crashes_;
  std::size_t events_max_;
  Scheduler scheduler_;
  CrashingHost* crashing_ = nullptr;  // host_, where it is one
  std::unique_ptr<BrokerHost> host_;
  UpstreamWorld upstreams_;
  CallerLedger callers_;
  Stage stage_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  std::unique_ptr<SimOperator> operator_;
  std::unique_ptr<SimFollower> follower_;  // null where no job is of a group
  std::unique_ptr<SimGateways> gateways_;  // null where there are none
  std::unique_ptr<Disasters> disasters_;
};

}  // namespace lanemq::sim
