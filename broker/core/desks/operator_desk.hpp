// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "broker/core/base/event.hpp"
#include "broker/core/base/pauses.hpp"
#include "broker/core/base/refusal.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/jobs/stored.hpp"

namespace lanemq::core {

class Admission;
class Answers;
class Dispatcher;
class JobLife;
class Journal;
class KeptResult;
class OperatorLists;
class Results;
struct State;
class Terms;
class Watchers;
class WorkerDesk;

/// Handles the requests of operators, and changes what they ask for. admin_table.hpp lists the verbs.
class OperatorDesk {
 public:
  OperatorDesk(State& state, Terms& terms, Dispatcher& dispatcher, Journal& journal, Results& results,
               Answers& answers, JobLife& life, Admission& admission, WorkerDesk& workers,
               OperatorLists& lists, Watchers& watchers);
  OperatorDesk(const OperatorDesk&) = delete;
  OperatorDesk& operator=(const OperatorDesk&) = delete;

  void on(const AdminAsked& event, TimePoint now);

 private:
  // ---- pauses
  void pause(const AdminAsked& event, TimePoint now);
  void resume(const AdminAsked& event, TimePoint now);
  void answer_pause(const AdminAsked& event, bool paused, bool changed);
  std::optional<Refusal> not_there(PauseKind kind, std::string_view name) const;
  void set_paused(PauseKind kind, const std::string& name, bool paused);
  void drain_workers(const AdminAsked& event, bool drain);

  // ---- jobs
  void move_job(const AdminAsked& event, TimePoint now);
  std::optional<Refusal> redrive(KeptResult& result, TimePoint now);
  void redrive_dead(const AdminAsked& event, TimePoint now);
  void purge_dead(const AdminAsked& event);

  // ---- settings
  void change_limit(const AdminAsked& event, TimePoint now);
  void change_lane(const AdminAsked& event);
  void note_change(const AdminAsked& event, std::string_view what, std::string_view name, std::string how);
  void note_dead_change(const AdminAsked& event, std::string_view done, std::int64_t jobs);

  State& state_;
  Terms& terms_;
  Dispatcher& dispatcher_;
  Journal& journal_;
  Results& results_;
  Answers& answers_;
  JobLife& life_;
  Admission& admission_;
  WorkerDesk& workers_;
  OperatorLists& lists_;
  Watchers& watchers_;
  StoredDecoder decoder_;  ///< of dead jobs' records
};

}  // namespace lanemq::core
