// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/report.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <nlohmann/json.hpp>

namespace lanemq::bench {
namespace {

// More than this of a core used by others during a run moves the ratios by more than their usual spread.
constexpr double kOthersCoresMax = 0.35;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double median_of_figure(const std::vector<std::vector<double>>& runs, std::size_t figure) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const auto& run : runs)
    values.push_back(run[figure]);
  return median(values);
}

double paired_ratio(const Measured& measured, std::size_t figure) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < measured.lanemq.size(); ++round) {
    const double neighbours = (measured.raw[round][figure] + measured.raw[round + 1][figure]) / 2;
    ratios.push_back(neighbours > 0 ? measured.lanemq[round][figure] / neighbours : 0);
  }
  return median(ratios);
}

Verdict judge(const Goal& goal, const Summary& summary) {
  if (goal.of == Goal::Of::none) return Verdict::none;
  return goal.met_by(goal.of == Goal::Of::ratio ? summary.ratio : summary.lanemq) ? Verdict::met
                                                                                  : Verdict::missed;
}

const char* name_of(Peer peer) {
  return peer == Peer::raw ? "raw" : "lanemq";
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::none:
      return "-";
    case Verdict::met:
      return "met";
    case Verdict::missed:
      return "MISSED";
  }
  return "-";
}

/// A number with its decimals, and its thousands apart.
std::string format(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  std::string digits = text.data();
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = point; at > first + 3;)
    digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string goal_text(const Figure& figure) {
  if (figure.goal.of == Goal::Of::none) return "-";
  const bool ratio = figure.goal.of == Goal::Of::ratio;
  return std::string(ratio ? "ratio " : "") + (figure.goal.bound == Goal::Bound::at_least ? ">= " : "<= ") +
         format(figure.goal.value, ratio ? 2 : 0) + (ratio ? "" : " " + std::string(figure.unit));
}

}  // namespace

std::vector<Summary> summarize(const Measured& measured) {
  std::vector<Summary> summaries;
  for (std::size_t i = 0; i < measured.workload->figures.size(); ++i) {
    const Figure& figure = measured.workload->figures[i];
    Summary summary{.workload = measured.workload,
                    .figure = &figure,
                    .lanemq = median_of_figure(measured.lanemq, i),
                    .raw = median_of_figure(measured.raw, i),
                    .ratio = paired_ratio(measured, i)};
    summary.verdict = judge(figure.goal, summary);
    summaries.push_back(summary);
  }
  return summaries;
}

void print_progress(const Workload& workload, Peer peer, const std::vector<double>& values) {
  std::string line = std::string(workload.name) + " " + name_of(peer) + ":";
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Figure& figure = workload.figures[i];
    line += std::string(i == 0 ? " " : ", ") + std::string(figure.name) + " " +
            format(values[i], figure.decimals) + " " + std::string(figure.unit);
  }
  std::fprintf(stderr, "%s\n", line.c_str());
}

void print_run_json(const Workload& workload, Peer peer, int number, const std::vector<double>& values,
                    double others_cores) {
  nlohmann::ordered_json line = {
      {"type", "run"}, {"workload", workload.name}, {"peer", name_of(peer)}, {"number", number}};
  for (std::size_t i = 0; i < values.size(); ++i)
    line["figures"][std::string(workload.figures[i].name)] = {{"value", values[i]},
                                                              {"unit", workload.figures[i].unit}};
  line["others_cores"] = others_cores;
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

void print_summary_json(const std::vector<Summary>& summaries) {
  for (const Summary& summary : summaries) {
    const Goal& goal = summary.figure->goal;
    nlohmann::ordered_json line = {{"type", "summary"},
                                   {"workload", summary.workload->name},
                                   {"figure", summary.figure->name},
                                   {"unit", summary.figure->unit},
                                   {"lanemq", summary.lanemq},
                                   {"raw", summary.raw},
                                   {"ratio", summary.ratio}};
    if (goal.of != Goal::Of::none) {
      line["goal"] = {{"of", goal.of == Goal::Of::ratio ? "ratio" : "lanemq"},
                      {goal.bound == Goal::Bound::at_least ? "at_least" : "at_most", goal.value}};
      line["met"] = summary.verdict == Verdict::met;
    }
    std::printf("%s\n", line.dump().c_str());
  }
  std::fflush(stdout);
}

void print_table(std::FILE* out, const std::vector<Summary>& summaries,
                 const std::vector<Measured>& measured) {
  constexpr const char* kRow = "%-12s %-20s %14s %14s %7s  %-18s %s\n";
  std::fprintf(out, kRow, "workload", "figure", "lanemq", "raw", "ratio", "goal", "verdict");
  for (const Summary& summary : summaries) {
    const Figure& figure = *summary.figure;
    const std::string label = std::string(figure.name) + " " + std::string(figure.unit);
    std::fprintf(out, kRow, std::string(summary.workload->name).c_str(), label.c_str(),
                 format(summary.lanemq, figure.decimals).c_str(),
                 format(summary.raw, figure.decimals).c_str(), format(summary.ratio, 2).c_str(),
                 goal_text(figure).c_str(), name_of(summary.verdict));
  }
  for (const Measured& runs : measured) {
    if (runs.others_cores_max <= kOthersCoresMax) continue;
    std::fprintf(
        out, "note: %s: other processes used up to %.2f cores during a run; repeat it on a quiet machine\n",
        std::string(runs.workload->name).c_str(), runs.others_cores_max);
  }
}

}  // namespace lanemq::bench
