// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/cluster/member.hpp"
#include "worker/session/session.hpp"

namespace lanemq::sim {

/// What the peers of a cluster share.
struct ClusterStage {
  const ClusterPlan& plan;
  Scheduler& scheduler;
  Random& random;
  ClusterWitness& witness;
  std::vector<std::unique_ptr<Member>>& members;
  std::uint64_t next_ref = 1, next_task = 1;
  bool healing = false;
};

/// A client that is told of all brokers, and asks again wherever an owner is: the same jobs under the same
/// ids.
class ClusterClient {
 public:
  explicit ClusterClient(ClusterStage& stage);

  /// Durable jobs of which it has heard no end.
  std::size_t pending() const;
  /// Asks once more for what was answered.
  void fetch(const std::string& id);

 private:
  struct Task {
    std::string body, lane;
    std::int64_t tokens = 0;
    bool durable = false, fetches = false;
  };

  void think();
  void look();
  void follow(std::size_t member);
  void submit(const std::string& id);
  void heard(const std::string& header, const std::string& body);
  void over(std::uint64_t ref, std::string_view code);
  template <class Message>
  void say(const Message& message, std::string_view body = {});

  ClusterStage& stage_;
  std::size_t at_ = 0;      ///< of the members
  std::uint64_t life_ = 0;  ///< of that one
  core::TimePoint alive_at_{};
  Link link_;
  Decoder decoder_;
  std::map<std::string, Task> tasks_;           ///< by id, without an end
  std::map<std::uint64_t, std::string> asked_;  ///< by ref
};

/// A worker with the real session, which goes to the next broker when one is silent.
class ClusterWorker {
 public:
  ClusterWorker(ClusterStage& stage, std::size_t number);

  /// It dies with all that it does, and is there again soon.
  void crash();

 private:
  using Lease = std::pair<std::uint64_t, std::int64_t>;

  void start();
  void connect();
  void heard(const std::string& header, const std::string& body);
  void act_on(const worker::Effects& effects);
  void finish(wire::Lease lease);
  void flush();
  void plan_wakeup();
  lanemq::TimePoint now() const { return lanemq::TimePoint(stage_.scheduler.now().time_since_epoch()); }

  ClusterStage& stage_;
  const std::string name_;
  std::size_t at_;
  std::uint64_t life_ = 0;
  std::unique_ptr<worker::Session> session_;
  Link link_;
  std::size_t linked_at_ = 0;
  Decoder decoder_;
  std::map<Lease, std::string> bodies_;
  std::set<Lease> calls_;  ///< under way
  core::TimePoint wakeup_at_ = core::kNever;
};

}  // namespace lanemq::sim
