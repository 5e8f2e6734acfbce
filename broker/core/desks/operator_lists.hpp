// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "broker/core/base/event.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/desks/document_page.hpp"
#include "broker/core/jobs/dead_job.hpp"

namespace lanemq::core {

class Answers;
class Dispatcher;
class Results;
struct State;
class Upstreams;

/// Answers operators' questions: lists, and one job. Changes nothing.
class OperatorLists {
 public:
  OperatorLists(State& state, const Upstreams& upstreams, Dispatcher& dispatcher, Results& results,
                Answers& answers)
      : state_(state), upstreams_(upstreams), dispatcher_(dispatcher), results_(results), answers_(answers) {}
  OperatorLists(const OperatorLists&) = delete;
  OperatorLists& operator=(const OperatorLists&) = delete;

  void list_jobs(const AdminAsked& event, TimePoint now);
  void show_job(const AdminAsked& event, TimePoint now);
  void list_lanes(const AdminAsked& event, TimePoint now);
  void list_services(const AdminAsked& event, TimePoint now);
  void list_workers(const AdminAsked& event, TimePoint now);
  void list_clients(const AdminAsked& event, TimePoint now);
  void list_budgets(const AdminAsked& event, TimePoint now);
  void list_pauses(const AdminAsked& event, TimePoint now);
  void list_dead(const AdminAsked& event, TimePoint now);

 private:
  void add_history(DocumentMap& document, const History& history, TimePoint now) const;

  State& state_;
  const Upstreams& upstreams_;
  Dispatcher& dispatcher_;
  Results& results_;
  Answers& answers_;
};

}  // namespace lanemq::core
