// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/core/desks/admission.hpp"
#include "broker/core/desks/client_desk.hpp"
#include "broker/core/desks/operator_desk.hpp"
#include "broker/core/desks/operator_lists.hpp"
#include "broker/core/desks/worker_desk.hpp"
#include "broker/core/life/answers.hpp"
#include "broker/core/life/groups.hpp"
#include "broker/core/life/handover.hpp"
#include "broker/core/life/job_life.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/core/life/progress_keeper.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/life/streams.hpp"
#include "broker/core/life/unserved.hpp"
#include "broker/core/life/watchers.hpp"
#include "broker/core/life/webhooks.hpp"
#include "broker/core/scheduler/dispatcher.hpp"
#include "broker/core/scheduler/parking.hpp"
#include "broker/core/scheduler/terms.hpp"
#include "broker/core/scheduler/upstreams.hpp"

namespace lanemq::core {

/// The parts of Broker, the lowest first: each is given the parts below it that it may ask, and none above.
struct Parts {
  Parts(State& state, std::uint64_t seed);

  Terms terms;
  Parking parking;
  Upstreams upstreams;
  Dispatcher dispatcher;
  Unserved unserved;
  Journal journal;
  Groups groups;
  Results results;
  Answers answers;
  Watchers watchers;
  Webhooks webhooks;
  Streams streams;
  Handover handover;
  JobLife life;
  ProgressKeeper progress;
  Admission admission;
  ClientDesk clients;
  WorkerDesk workers;
  OperatorLists lists;
  OperatorDesk operators;
};

}  // namespace lanemq::core
