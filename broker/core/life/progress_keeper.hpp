// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "broker/core/base/time.hpp"
#include "broker/core/jobs/job.hpp"

namespace lanemq::core {

class JobLife;
class Results;
struct State;
class Watchers;

/// Workers' reports on the progress of their jobs. Keeps the last report of each running job, tells it to
/// those who watch, and ends attempts that have gone silent: after an attempt's first report, the lane's
/// stall_timeout bounds its silence. The report goes with the attempt (State::forget_progress()).
class ProgressKeeper {
 public:
  /// Watchers hear of one job at most so often; of words in between the last one.
  static constexpr Duration kToldEvery = std::chrono::seconds(1);

  ProgressKeeper(State& state, Watchers& watchers, Results& results, JobLife& life)
      : state_(state), watchers_(watchers), results_(results), life_(life) {}
  ProgressKeeper(const ProgressKeeper&) = delete;
  ProgressKeeper& operator=(const ProgressKeeper&) = delete;

  /// Takes a word about a job that runs. Requires: it has a worker, and has not ended.
  void take(Job& job, const wire::Progress& said, TimePoint now);
  /// The timer has fired: a word is to be told, or the attempt may have stalled.
  void look(Progress& progress, TimePoint now);

 private:
  Duration patience_with(const Job& job) const;
  void set_note(Progress& progress, std::string_view note, TimePoint now);
  void tell(Progress& progress, TimePoint now);
  void set_timer(Progress& progress, TimePoint now);
  void end_attempt(Job& job, TimePoint now);

  State& state_;
  Watchers& watchers_;
  Results& results_;
  JobLife& life_;
};

}  // namespace lanemq::core
