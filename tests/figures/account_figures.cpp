// SPDX-License-Identifier: Apache-2.0
#include "tests/figures/account_figures.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>

#include "tests/figures/stage.hpp"

namespace lanemq::figures {
namespace {

/// What a kind of cells has to reach: at the median, and the worst of them.
struct Bounds {
  double share = 0, share_worst = 0;  ///< of bulk
  double refused = 0;  ///< of bulk: by a call that was granted; else calls more than the witness
  double longer = 0,
         longer_worst = 0;  ///< of single calls: the median wait, in seconds more than the witness
};

/// Bulk goes at an even pace, which makes up for no time in which others left nothing: where they stop, or
/// the limit comes back, a window is full again after most of a period. Beside others who ask for more than
/// there is, an even pace gets an even part, and the witness, forty callers who ask on, gets theirs, too.
Bounds bounds_of(const Cell& cell) {
  const Account::Rules& rules = cell.rules;
  const bool greedy = rules.others == Others::greedy;
  if (!cell.bulk) {
    const bool told = rules.words == Words::all && rules.bound != Bound::places;
    return {.refused = 15, .longer = greedy ? 10.0 : 0.1, .longer_worst = !greedy ? 8.0 : told ? 20.0 : 90.0};
  }
  switch (rules.bound) {
    case Bound::bucket:
      if (greedy) return {.share = 0.12, .share_worst = 0.01, .refused = 2};
      return {
          .share = rules.others == Others::limit_falls ? 0.83 : 0.95, .share_worst = 0.5, .refused = 0.17};
    case Bound::fixed:
      if (greedy) return {.share = 0.38, .share_worst = 0.25, .refused = 0.1};
      return {.share = rules.others == Others::half ? 0.94 : 0.83, .share_worst = 0.7, .refused = 0.06};
    case Bound::sliding:
      if (greedy) return {.share = 0.36, .share_worst = 0.2, .refused = 0.15};
      return {.share = rules.others == Others::stop ? 0.73 : 0.8, .share_worst = 0.65, .refused = 0.09};
    case Bound::places:
      if (greedy) return {.share = 0.85, .share_worst = 0.01, .refused = 0.02};
      return {
          .share = rules.others == Others::limit_falls ? 0.83 : 0.95, .share_worst = 0.35, .refused = 0.03};
    case Bound::slope:
      break;
  }
  // Its words name the slope.
  if (rules.words == Words::all)
    return {.share = greedy ? 0.2 : 0.72, .share_worst = greedy ? 0.1 : 0.3, .refused = 0.15};
  return {.share = greedy ? 0.25 : 0.45, .share_worst = 0.08, .refused = greedy ? 0.35 : 0.2};
}

/// Fewer cells of a kind tell nothing of their median.
constexpr std::size_t kMedianOf = 20;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double wait_seconds(const std::vector<Duration>& waits) {
  return waits.empty() ? 0 : ms(quantile(waits, .5)) / 1000;
}

}  // namespace

void AccountFigures::note(std::uint64_t seed, const Cell& cell, const CellFigures& figures) {
  std::string kind = cell.kind();
  for (const char* resource : {"/requests", "/tokens"})
    if (const auto place = kind.find(resource); place != std::string::npos)
      kind.erase(place, std::string(resource).size());
  Row& row = rows_[kind];
  row.cell = cell;
  double good = 0;
  if (cell.bulk) {
    good = figures.share(cell);
    row.shares.push_back(good);
    row.refused.push_back(figures.refused_share());
  } else {
    row.longer.push_back(wait_seconds(figures.waits) - wait_seconds(figures.witness.waits));
    row.refused.push_back(static_cast<double>(figures.refused - figures.witness.refused));
    good = -row.longer.back();
  }
  if (row.worst_seed == 0 || good < row.worst) {
    row.worst = good;
    row.worst_seed = seed;
  }
}

bool AccountFigures::print(bool all) const {
  std::size_t out = 0, cells = 0;
  std::vector<double> shares, longer;
  for (const auto& [kind, row] : rows_) {
    const Bounds bounds = bounds_of(row.cell);
    const std::vector<double>& values = row.cell.bulk ? row.shares : row.longer;
    const double middle = median(values), refused = median(row.refused);
    const bool many = values.size() >= kMedianOf;
    const bool usual = row.cell.bulk ? middle >= bounds.share : middle <= bounds.longer;
    const bool worst = row.cell.bulk ? row.worst >= bounds.share_worst : -row.worst <= bounds.longer_worst;
    const bool within = worst && (!many || (usual && refused <= bounds.refused));
    cells += values.size();
    (row.cell.bulk ? shares : longer).push_back(middle);
    out += within ? 0 : 1;
    if (within && !all) continue;
    const auto seed = static_cast<unsigned long long>(row.worst_seed);
    if (row.cell.bulk)
      std::printf(
          "%-42s %3zu cells: share %.2f (at least %.2f), worst %.2f (%.2f; seed %llu), refused %.3f (at most "
          "%.2f)%s\n",
          kind.c_str(), values.size(), middle, bounds.share, row.worst, bounds.share_worst, seed, refused,
          bounds.refused, within ? "" : "  <--");
    else
      std::printf(
          "%-42s %3zu cells: waits %.1f s longer (at most %.1f), worst %.1f (%.0f; seed %llu), refused %.0f "
          "more (at "
          "most %.0f)%s\n",
          kind.c_str(), values.size(), middle, bounds.longer, -row.worst, bounds.longer_worst, seed, refused,
          bounds.refused, within ? "" : "  <--");
  }
  std::printf("accounts: %zu cells of %zu kinds, %zu kinds out of their bounds", cells, rows_.size(), out);
  if (!shares.empty()) std::printf("; bulk: share %.2f at the median kind", median(shares));
  if (!longer.empty())
    std::printf("; single calls: %.1f s longer at the worst kind",
                *std::max_element(longer.begin(), longer.end()));
  std::printf("\n");
  return out == 0;
}

bool run_accounts(std::uint64_t first, std::uint64_t last, bool print_all) {
  AccountFigures figures;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const Cell cell = Cell::draw(seed);
    figures.note(seed, cell, measure(cell));
  }
  return figures.print(print_all);
}

}  // namespace lanemq::figures
