// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/ends.hpp"
#include "tests/bench/process.hpp"

namespace lanemq::bench {

/// What the command line may change.
struct Settings {
  std::string bare_program;                  ///< path of bench_raw
  std::string lanemq_program;                ///< path of lanemq-broker
  std::string store = "memory";              ///< of lanemq-broker
  std::vector<std::string> lanemq_settings;  ///< key=value, each given to lanemq-broker as --set
  std::vector<std::string> lanemq_keys;      ///< further arguments of lanemq-broker, where all is encrypted
  int rounds = 3;
  Seconds warmup{1};
  Seconds seconds{3};        ///< measured time of a rate
  int round_trips = 20'000;  ///< measured round trips of the latency workload
  int jobs = 1'000'000;      ///< queued by the enqueue workload
  int batch_jobs = 10'000;   ///< queued before the priority workload's probes
  int probes = 1000;         ///< critical jobs of the priority workload
};

inline constexpr std::size_t kSamplesMax = 1'000'000;

/// What the processes of a run tell each other.
struct Control {
  std::atomic<int> workers_ready = 0;
  std::atomic<bool> prepared = false;         ///< a client has done what the next process waits for
  std::atomic<bool> go = false;               ///< a client that has prepared itself may begin
  std::atomic<bool> stop = false;             ///< a client in a closed loop submits nothing more
  std::atomic<std::uint64_t> completed = 0;   ///< round trips
  std::atomic<std::uint64_t> work_done = 0;   ///< JobKind::work
  std::atomic<std::uint64_t> elapsed_ns = 0;  ///< of a workload that a client times itself
  std::atomic<std::size_t> sample_count = 0;
  std::array<std::uint64_t, kSamplesMax> samples_ns;

  /// From one process at a time.
  void add_sample(std::uint64_t nanoseconds) {
    const std::size_t at = sample_count.load();
    if (at == kSamplesMax) throw Failure("more samples than kSamplesMax");
    samples_ns[at] = nanoseconds;
    sample_count.store(at + 1);
  }
};

/// One run of one workload against one broker: the processes and what they share. All end with this object.
class Rig {
 public:
  struct BrokerOptions {
    std::vector<std::string> raw = {};
    std::vector<std::string> lanemq = {};
  };
  struct Workers {
    int general = 1;
    int reserved = 0;  ///< numbered after the general ones
    int capacity = 1;
    std::size_t batch = 1;  ///< jobs in one message
  };

  Rig(Peer peer, const Settings& settings) : peer_(peer), settings_(settings) {}

  Peer peer() const { return peer_; }
  const Settings& settings() const { return settings_; }
  Control& control() { return *control_; }
  Children& children() { return children_; }
  pid_t broker_pid() const { return broker_.pid; }

  void start_broker(const BrokerOptions& options);
  /// Starts echo workers, each a process, and waits until the broker knows them all.
  void start_workers(const Workers& workers);
  /// Starts a client, a process that ends when `body` returns.
  pid_t start_client(const std::string& name, SendAhead ahead, const std::function<void(ClientEnd&)>& body,
                     std::size_t batch = 1);

 private:
  std::string name_of(const std::string& end) const;

  Peer peer_;
  const Settings& settings_;
  Shared<Control> control_;
  Children children_;
  BrokerProcess broker_;
};

}  // namespace lanemq::bench
