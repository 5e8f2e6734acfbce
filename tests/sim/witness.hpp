// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/sim/crashes.hpp"
#include "tests/sim/model.hpp"
#include "tests/sim/watcher.hpp"

namespace lanemq::sim {

/// Sees what goes over the wires of a broker that dies and comes back, and throws Violation when a promise
/// about durable jobs is broken. Knows nothing of what the broker decided and took back by dying: what was
/// not sent was not said. Where it cannot know whether a job is over, or forgotten, it accepts both.
class Witness final : public Watcher {
 public:
  Witness(const Swarm& swarm, const Crashes& crashes);

  // What the broker hears, when it does.
  void client_says(const std::string& address, const wire::ClientRequest& request, std::string_view body,
                   std::size_t envelope, TimePoint now) override;
  void worker_says(const std::string& address, const wire::WorkerReport& report, std::string_view body,
                   TimePoint now) override;
  void worker_disconnected(const std::string& address, core::WorkerDisconnected::Process process,
                           TimePoint now) override;
  void operator_asks(const wire::AdminQuery& query, TimePoint now) override;
  void reloaded(const core::Options& options, TimePoint now) override;

  // What it says, when that leaves. `waited`: for the disk.
  void noticed(const core::Notice& notice) override;
  void releasing(TimePoint decided_at, TimePoint now, bool waited);
  /// The job was handed over now, and its worker hears of it when its body has been read.
  void awaits_body(std::uint64_t job, TimePoint now) { handed_over_at_[job] = now; }
  /// So it was, and its worker hears of it when that is on disk.
  void offer_waits(const wire::JobOffer& offer, TimePoint now) { count_hand_over(offer, now); }
  void sent_to_client(const std::string& address, const wire::ClientReply& reply,
                      std::string_view body) override;
  void sent_to_worker(const std::string& address, const wire::WorkerCommand& command,
                      std::string_view body) override;

  /// Of what was taken of budgets, everything up to `noted_at` is on disk.
  void crashed(TimePoint noted_at);
  void started(TimePoint now);
  /// The broker is told that its disk is full, or is not: what needs no disk then leaves no trace there.
  void told_full(bool full) { full_ = full; }
  /// Nobody knows how much time passed: deadlines, retentions and windows may be over.
  void time_is_void(TimePoint now);

  /// Batches of which each job has ended, as its client heard.
  std::vector<std::string> complete_batches() const;
  /// Each end has a job that tells it, unless that was refused.
  void check_told(const core::Broker& broker) const;
  /// Somebody who asked was told that the batch is over.
  void check_over(const std::string& batch) const;

  /// No budget was overdrawn in any window.
  void check_windows();

  std::size_t jobs() const override { return job_of_number_.size(); }
  std::size_t dispatches() const override { return handed_over_.size(); }

 private:
  using Lease = std::pair<std::uint64_t, std::int64_t>;
  using StreamKey = std::tuple<std::string, std::string, std::string, std::string>;

  /// What a request asks, by its ref.
  struct Asked {
    std::string id, content, body;
    StreamKey stream;
    bool submits = false, may_be_kept = false, in_order = false;
    TimePoint at{}, ends_at = core::kNever;
    Duration retain{};
    std::int64_t attempts_max = 0;
    bool ended = false;           ///< it had its result or error
    bool reads = false;           ///< the chunks of a streamed answer
    std::int64_t next_chunk = 0;  ///< that it gets
  };
  /// What is known of a job that has, or had, an id.
  struct Followed {
    std::set<std::string> contents, bodies;
    bool promised = false;  ///< somebody heard that it is durable, or its end
    bool always_durable = true;
    TimePoint first_asked_at = core::kNever, promised_at{};
    TimePoint submitted_at{};           ///< what was promised
    TimePoint ends_at = core::kNever;   ///< when it may have ended at the earliest
    TimePoint deadline = core::kNever;  ///< at the earliest
    Duration retain = Duration::max();
    std::int64_t attempts_max = 0;      ///< the least of all submits of its id
    std::int64_t attempts_top = 0;      ///< the most
    std::vector<TimePoint> causes;      ///< that may end it
    std::int64_t offers = 0;            ///< that left
    std::vector<TimePoint> hand_overs;  ///< when; also of those that still waited for the disk
    bool in_order = false, moved = false;
    StreamKey stream;
    std::optional<std::string> answer;
    TimePoint answered_at{};             ///< when the broker decided on it
    TimePoint result_at = core::kNever;  ///< somebody heard its result; never: or it was submitted since
    std::map<std::int64_t, std::string> chunks;  ///< that anybody heard of its answer
    TimePoint chunk_at = core::kNever;           ///< when the first of them was decided
    TimePoint chunk_said_at = core::kNever;      ///< by a worker: it may end with that worker from then on
    TimePoint over_at = core::kNever;            ///< ends_at, but for that
    bool marked = true;  ///< no crash came so soon behind it that the broker may not know it any more
  };
  struct Pause {
    TimePoint said_at{}, until{};
  };
  struct Holder {
    std::string address;
    std::int64_t attempt = 0;
    TimePoint said_at{};
  };

  Followed& followed(const std::string& id) { return jobs_[id]; }
  TimePoint may_be_gone_at(const Followed& job) const;
  static TimePoint refused_at(const Followed& job, const Pause& pause);
  bool may_have_made_way(const Followed& job) const;
  bool may_have_been_refused(const Followed& job, Duration ago) const;
  /// Whether it has not ended, whatever those may have heard who are not connected.
  bool goes_on_for_sure(const Followed& job) const;
  bool is_known(const Followed& job) const {
    return job.promised && decided_at_ < may_be_gone_at(job) && !may_have_made_way(job) &&
           !may_have_been_refused(job, crashes_.keeps ? job.retain : Duration(0));
  }
  void limits_change(TimePoint now);
  void count_hand_over(const wire::JobOffer& offer, TimePoint at);
  void may_end(Followed& job, TimePoint at);
  void may_end(std::uint64_t number, TimePoint at);
  void may_end_by(Followed& job, std::string_view code);
  void on(const wire::Submit& submit, std::string_view body, TimePoint now);
  void heard(const wire::Accepted& accepted);
  void heard_end(wire::Raw ref, std::string_view code, std::string_view body);
  void heard(const wire::StatusReply& status);
  void heard(const wire::ErrorReply& error, std::string_view body);
  void heard(const wire::ChunkReply& chunk, std::string_view body);
  void heard(const std::string& address, const wire::JobEvent& event);
  void heard_webhook(const wire::JobOffer& offer);
  bool has_ended(const std::string& id) const;
  void heard(const wire::JobOffer& offer, const std::string& address, std::string_view body);
  void check_order(const std::string& id, const Followed& job);
  void take_from_budgets(const wire::JobOffer& offer, const std::string& service, Lease lease);
  void check_inventory(const std::string& address, const wire::Heartbeat& inventory, TimePoint now);
  void alive(const std::string& address, TimePoint now);
  void forget_worker(const std::string& address);
  void move_worker(const std::string& from, const std::string& to);
  void check_cancels(TimePoint now) const;

  const Swarm& swarm_;
  const Crashes& crashes_;
  TimePoint now_{}, decided_at_{}, started_at_{};
  bool waited_ = false, limits_changed_ = false;
  bool full_ = false;  // the broker was told that its disk is

  std::vector<TimePoint> cleared_at_;  // when operators ran dead jobs again, or forgot them
  std::vector<TimePoint> full_at_;     // when new jobs were refused for a full disk, so that results made way
  struct MadeWay {
    TimePoint ended_at{}, said_at{};
  } made_way_;  // the youngest result of this life that did: it ended then at the earliest; and when that was
                // said
  std::map<std::string, Followed> jobs_;
  std::map<std::uint64_t, Asked> asked_;                // by ref
  std::map<std::string, std::string> service_of_body_;  // of all submits
  std::map<std::string, std::uint64_t> number_of_;      // of jobs that were handed over, by id
  std::map<std::uint64_t, core::TimePoint> over_at_;    // of those that ended without a worker's word
  std::map<std::string, core::TimePoint> here_since_;   // workers, in this life of the broker
  std::map<std::string, std::string> service_of_;       // of workers, by address: their first
  core::TimePoint paused_until_{};                      // what upstreams asked for last that is longest
  std::vector<Pause> pauses_;  // that upstreams asked for, of one model or of all; and rests of keys
  // A key rests for a minute, and twice as long each time: of all that were refused, this is the longest.
  Duration key_rest_ = std::chrono::seconds(30);
  core::TimePoint keys_rest_until_{};
  std::map<std::uint64_t, std::string> job_of_number_;
  std::map<std::string, std::string> body_of_unnamed_;
  std::set<Lease> handed_over_, settled_;
  std::map<std::uint64_t, TimePoint>
      handed_over_at_;  // in this life, where that was before it was decided to say so
  struct Attempt {
    std::int64_t attempt = 0;
    TimePoint at{};
  };
  std::set<Lease> hand_overs_;
  std::map<std::uint64_t, Attempt> last_;                     // of a job
  std::map<StreamKey, std::set<std::string>> first_in_line_;  // ids that were promised and never handed over
  std::map<std::string, TimePoint> workers_;                  // that said ready in this life: heard when last
  std::map<std::string, std::string> sessions_;               // of those: by name, the address
  std::map<std::uint64_t, Holder> holders_;
  std::map<std::pair<std::string, Lease>, TimePoint> cancels_due_;  // of overtaken attempts: listed when
  std::set<std::pair<std::string, Lease>> cancels_told_;            // by this connection
  std::set<Lease> outcomes_said_;
  std::map<std::uint64_t, std::set<std::int64_t>> failed_;  // attempts of a job that failed, as said
  std::map<std::uint64_t, std::set<std::int64_t>> paid_;    // those of which that was acknowledged
  std::map<std::uint64_t, std::string> listed_by_;  // in this life, jobs of earlier ones: at which address
  struct Taken {
    TimePoint at{};
    Lease lease;
    bool forgettable = false;  ///< the disk was full: what it took was not noted before it went out
  };
  std::vector<std::vector<Taken>> taken_;  // by budget
  /// A group whose jobs run once, all on disk.
  struct Batch {
    std::size_t size = 0;
    std::set<std::string> ids;
    bool over = false;  ///< somebody was told
  };
  std::map<std::string, Batch> batches_;
  std::map<std::string, std::string>
      notifies_;  // ids of jobs whose own ends are told, by those of the jobs that tell
  std::set<std::string> handed_out_webhooks_;               // ids of jobs that tell, with the time
  std::map<std::string, std::set<std::uint64_t>> telling_;  // their numbers, by ids without it
  std::set<std::string> untold_;                            // that were refused
  std::set<std::tuple<std::string, std::uint64_t, std::string>> overs_told_;  // by address, ref and batch
};

}  // namespace lanemq::sim
