// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "broker/core/histogram.hpp"
#include "broker/core/job.hpp"
#include "broker/core/options.hpp"

namespace lanemq::core {

class Service;
class Lane;

/// The queued jobs of one lane that need the same service and the same budgets: if its head cannot run now,
/// none of them can. First in, first out by arrival; a job that comes back stands at its old place.
///
/// Owns nothing: jobs must stay at their address while they are queued.
class Stream {
 public:
  Stream(Lane& lane, Service& service, BudgetSet budgets)
      : lane_(lane), service_(service), budgets_(budgets) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Lane& lane() const { return lane_; }
  Service& service() const { return service_; }
  BudgetSet budgets() const { return budgets_; }

  bool empty() const { return fresh_.empty() && returned_.empty(); }
  std::size_t depth() const { return fresh_.size() + returned_.size(); }
  /// The job whose turn it is, null when there is none.
  Job* head() const;
  /// Appends a job that has just arrived. Requires: its arrival is the latest so far.
  void push(Job& job);
  /// Puts a job back that was in this stream before, at its old place.
  void put_back(Job& job);
  void remove(Job& job);

  /// Place among its lane's ready streams; kept by Lane.
  std::size_t ready_at = kNotReady;
  static constexpr std::size_t kNotReady = static_cast<std::size_t>(-1);
  /// The turn in which its budgets were found wanting, so that they are asked once a turn.
  std::uint64_t unaffordable_in_turn = 0;

 private:
  Lane& lane_;
  Service& service_;
  BudgetSet budgets_;
  IntrusiveList<Job, &Job::hook> fresh_;
  std::map<std::uint64_t, Job*> returned_;  // by arrival; few: what workers gave back
};

/// Counters of a lane, since the start.
struct LaneCounters {
  std::uint64_t accepted = 0, succeeded = 0, failed = 0, refused = 0, requeued = 0, duplicates = 0;
};

/// One priority lane: its streams, its bounds and its figures.
class Lane {
 public:
  Lane(const LaneOptions& options, LaneIndex index) : options_(options), index_(index) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const LaneOptions& options() const { return options_; }
  LaneIndex index() const { return index_; }
  std::size_t depth() const { return queued + delayed; }

  /// The stream for jobs of a service under a set of budgets; made when it is first asked for.
  Stream& stream(Service& service, BudgetSet budgets);

  /// A stream is ready while it holds a job and its service has a free place of any kind.
  void update_ready(Stream& stream);
  const std::vector<Stream*>& ready() const { return ready_; }
  const std::vector<std::unique_ptr<Stream>>& streams() const { return streams_; }

  std::size_t queued = 0, delayed = 0, running = 0, bytes = 0;
  LaneCounters counters;
  Histogram wait, run;
  /// A job was done: feeds the rate below.
  void count_leaving(TimePoint now);
  double leaving_per_second = 0;  ///< over the last whole second, for retry_after of a full lane

 private:
  LaneOptions options_;
  LaneIndex index_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Stream*> ready_;
  TimePoint second_began_{};
  std::uint64_t left_in_second_ = 0;
};

}  // namespace lanemq::core
