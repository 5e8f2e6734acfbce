// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

/// Flows of a service that are looked at, the higher lanes first; the jobs of further ones want nothing.
inline constexpr std::size_t kFlowsWanting = 256;

/// Clients of a service that are looked at; others are taken for like them.
inline constexpr std::size_t kClientsWanting = 1024;

/// How many workers the service's jobs could keep busy: those that run, and those that wait and may be handed
/// over, as far as their budgets can feed them, each with a place of its own. More workers would wait as
/// well.
///
/// A client's jobs count as far as its in_flight_max leaves room; none while an operator pauses the client,
/// or while the client leaves it to others to try a failed upstream. For a service or a model whose upstream
/// fails, only the one job counts that tries it.
///
/// A budget feeds as many jobs at once as its concurrency allows, and as its rates give in the time that one
/// runs (before one has run: as may start now); nothing while its upstream or an operator pauses it. Jobs
/// that other services have of a shared budget count as running ones do, those that wait there do not. A
/// worker has as many places as the service's workers have on average; while there is none, one is wanted,
/// which tells.
std::size_t workers_wanted(const Service& service, Budgets& budgets, TimePoint now);

}  // namespace lanemq::core
