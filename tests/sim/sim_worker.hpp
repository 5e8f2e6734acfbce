// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tests/sim/world.hpp"
#include "worker/session/session.hpp"

namespace lanemq::sim {

/// A worker: the real session around handlers that only pretend, on a machine that can fail and with a tongue
/// that can lie.
class SimWorker {
 public:
  SimWorker(Stage& stage, int number);

  void crash();
  /// A new connection that the session is told of.
  void reconnect();
  /// A new address at the broker that the session is not told of.
  void change_address();
  void stall(Duration time);
  /// Leaves in good order, at once or when its jobs are done, and comes back later; or for ever, when all
  /// heals.
  void leave(bool at_once);

 private:
  using Lease = std::pair<std::uint64_t, std::int64_t>;

  void start();
  void start_later();
  void connect();
  void heard(const std::string& header, const std::string& body);
  void finish(wire::Lease lease);
  struct Question {
    std::string body;
    std::optional<wire::Cost> cost;
    UpstreamCall call{};        ///< what it asks of the upstream
    UpstreamVerdict verdict{};  ///< what that said when it began
    bool begun = false;         ///< the upstream was asked
    bool misestimated = false;
    bool released = false;                       ///< it is to be handed back untouched
    std::shared_ptr<worker::StreamGate> gate{};  ///< of a streamed answer
    std::int64_t chunks = 0, chunks_left = 0;    ///< handed in, and to come
    bool waits = false;                          ///< for its reader
    bool speaks = false;                         ///< says now and then how far it is
    bool hangs = false;                          ///< said something, and is silent until it is told to end
  };
  void go_on(wire::Lease lease);
  void say_word(wire::Lease lease);
  void say_word_later(wire::Lease lease);
  void take(const wire::JobOffer& offer, const std::string& body);
  void begin(Question& question);
  bool is_out() const;
  bool is_unreachable() const;
  bool is_failing(const Question& question) const;
  std::int64_t draw_absurd();
  std::optional<wire::UpstreamLimits> draw_limits(const Question& question);
  void draw_refusal(const Question& question, JobFailure& failure);
  worker::JobOutcome draw_outcome(const Question& question);
  std::optional<wire::Usage> draw_usage(const Question& question);
  void act_on(worker::Effects& effects, bool last = true);
  void flush();
  void lie();
  void plan_wakeup();
  worker::Session& session() { return *session_; }
  lanemq::TimePoint now() const { return lanemq::TimePoint(stage_.scheduler.now().time_since_epoch()); }

  Stage& stage_;
  const std::string name_;
  std::unique_ptr<worker::Session> session_;
  std::vector<std::string> session_services_;
  std::uint64_t life_ = 0;  // what was planned in an earlier one is void
  Link link_;
  Decoder decoder_;
  std::map<Lease, Question> questions_;
  core::TimePoint wakeup_at_ = core::kNever;
  bool leaving_for_ever_ = false;
};

}  // namespace lanemq::sim
