// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/cluster/database.hpp"
#include "tests/sim/strict_upstream.hpp"
#include "tests/sim/watcher.hpp"

namespace lanemq::sim {

/// Sees what leaves the brokers of a cluster, what enters the servers' logs and what is asked of the
/// upstream, and throws Violation when a promise is broken: about durable jobs, over all owners. It knows
/// nothing of who owns the store.
class ClusterWitness final : public Watcher {
 public:
  explicit ClusterWitness(const core::Options& options)
      : options_(options), calls_now_(options.budgets.front()) {}

  // ---- clients and workers ----

  /// A client submits, cancels or fetches; answers name it by `ref`.
  void asks(std::uint64_t ref, const std::string& id, bool durable, std::int64_t tokens);
  void cancels(const std::string& id) { jobs_[id].cancelled = true; }
  /// A worker calls the upstream, and has its answer or gives the call up.
  void calls(std::uint64_t job, std::int64_t attempt, core::TimePoint now);
  void call_ends(std::uint64_t job, std::int64_t attempt, core::TimePoint now);
  /// Another shard's worker does.
  void other_calls(const std::string& account, const core::Amounts& amounts, core::TimePoint now);
  void other_call_ends(const std::string& account, core::TimePoint now) { calls_now_.end(account, now); }

  // ---- brokers ----

  /// What is sent from here on was decided then, and leaves now, from an owner that has this epoch.
  void releasing(core::TimePoint decided_at, core::TimePoint now, std::int64_t epoch);
  /// A candidate has heard that the store is its own.
  void owns(std::int64_t epoch, core::TimePoint now);
  /// A hand-over that waited for its body was decided earlier.
  void decided(std::uint64_t job, core::TimePoint at, std::int64_t epoch) {
    handed_over_at_[{epoch, job}] = at;
  }
  void sent_to_client(const std::string& address, const wire::ClientReply& reply,
                      std::string_view body) override;
  void sent_to_worker(const std::string& address, const wire::WorkerCommand& command,
                      std::string_view body) override;
  /// An owner takes its changes for committed.
  void told(std::uint64_t batch) { told_.insert(batch); }

  // ---- the database ----

  /// A transaction enters a log behind another one.
  void logged(std::size_t server, const LogEntry* before, const LogEntry& entry) const;

  // ---- the end ----

  /// All that was told is in the log, and once.
  void check_log(const std::vector<std::shared_ptr<const LogEntry>>& log) const;
  /// No window of the upstream was over its limit.
  void check_windows() const;
  /// Everybody was answered whose job is durable.
  void check_answered() const;
  /// The answer that was told; none: none was.
  std::optional<std::string> answer_of(const std::string& id) const;
  std::vector<std::string> answered_ids() const;

  std::size_t jobs() const override { return jobs_.size(); }
  std::size_t dispatches() const override { return offers_.size(); }

 private:
  using Lease = std::pair<std::uint64_t, std::int64_t>;
  struct Asked {
    std::string id;
    bool durable = false, ended = false;
  };
  struct Job {
    bool durable = false, promised = false, cancelled = false;
    std::int64_t tokens = 0;
    std::optional<std::string> answer;
    core::TimePoint promised_at{}, answered_at{};
    std::optional<std::uint64_t> number;
  };
  struct Offer {
    std::string id;
    std::string account;  ///< of its key; empty: it has none
    core::TimePoint decided_at{}, left_at{};
    std::int64_t epoch = 0;  ///< of the owner that made it
    bool runs = false;       ///< and its owner, or a later one, counts it
  };
  struct Call {
    core::TimePoint at{};  ///< as the upstream's windows count it
    std::string account;
    core::Amounts amounts;
  };

  void promised(Job& job);
  void end_call(Offer& offer, core::TimePoint now);
  void give_up(core::TimePoint now);
  /// Of a key of the budget.
  std::string account_of(std::string_view key) const;
  void ended(std::uint64_t ref, std::string_view code, std::string_view body);

  const core::Options& options_;
  core::TimePoint decided_at_{}, now_{};
  std::int64_t epoch_ = 0;
  std::map<std::int64_t, core::TimePoint> owned_;  ///< since when, by epoch
  std::map<std::uint64_t, Asked> asked_;
  std::map<std::string, Job> jobs_;
  std::map<std::uint64_t, std::string> id_of_;
  std::map<std::pair<std::int64_t, std::uint64_t>, core::TimePoint> handed_over_at_;  ///< by epochs and jobs
  std::map<Lease, Offer> offers_;
  std::vector<Call> calls_;
  StrictUpstream calls_now_;  ///< of which only the places count
  std::set<std::uint64_t> told_;
};

}  // namespace lanemq::sim
