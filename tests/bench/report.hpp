// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <vector>

#include "tests/bench/workloads.hpp"

namespace lanemq::bench {

/// The runs of one workload, in the order in which they were made: raw, lanemq, raw, lanemq, … raw.
struct Measured {
  const Workload* workload = nullptr;
  std::vector<std::vector<double>> raw;     ///< one run more than lanemq
  std::vector<std::vector<double>> lanemq;  ///< run i stands between raw runs i and i + 1
  double others_cores_max = 0;              ///< the most that other processes took during one of the runs
};

enum class Verdict { none, met, missed };

/// One figure over all rounds.
struct Summary {
  const Workload* workload = nullptr;
  const Figure* figure = nullptr;
  double lanemq = 0;  ///< median of the runs
  double raw = 0;     ///< median of the runs
  double ratio = 0;   ///< median over the rounds of lanemq over the mean of its two neighbours
  Verdict verdict = Verdict::none;
};

/// Requires: at least one round.
std::vector<Summary> summarize(const Measured& measured);

/// One line on stderr: a run has ended.
void print_progress(const Workload& workload, Peer peer, const std::vector<double>& values);
/// One JSON line on stdout for a run; `number` counts the runs of the workload from 1.
void print_run_json(const Workload& workload, Peer peer, int number, const std::vector<double>& values,
                    double others_cores);
/// One JSON line on stdout for each figure.
void print_summary_json(const std::vector<Summary>& summaries);
/// The table, and below it what casts doubt on it.
void print_table(std::FILE* out, const std::vector<Summary>& summaries,
                 const std::vector<Measured>& measured);

}  // namespace lanemq::bench
