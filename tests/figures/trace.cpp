// SPDX-License-Identifier: Apache-2.0
#include "tests/figures/trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>

namespace lanemq::figures {
namespace {

/// Requests in each minute.
constexpr std::array kInMinute = {191, 265, 329, 353, 307, 273, 268, 261, 322, 298, 301, 302, 345, 326, 283,
                                  279, 280, 308, 343, 351, 351, 343, 408, 396, 386, 398, 432, 480, 476, 453,
                                  448, 507, 438, 413, 423, 418, 465, 311, 329, 316, 333, 355, 319, 360, 334,
                                  375, 330, 249, 221, 249, 265, 280, 256, 254, 242, 260, 246, 225, 37};

struct Quantile {
  double share, value;
};
/// Tokens that a share of all does not exceed.
constexpr std::array<Quantile, 17> kPrompt = {{{0, 2},
                                               {.01, 29},
                                               {.05, 181},
                                               {.1, 207},
                                               {.2, 387},
                                               {.3, 403},
                                               {.4, 703},
                                               {.5, 1020},
                                               {.6, 1071},
                                               {.7, 1130},
                                               {.8, 1315},
                                               {.9, 2735},
                                               {.95, 4083},
                                               {.99, 4142},
                                               {.999, 6212},
                                               {.9999, 7930},
                                               {1, 14050}}};
constexpr std::array<Quantile, 17> kAnswer = {{{0, 7},
                                               {.01, 16},
                                               {.05, 41},
                                               {.1, 54},
                                               {.2, 77},
                                               {.3, 91},
                                               {.4, 103},
                                               {.5, 129},
                                               {.6, 177},
                                               {.7, 384},
                                               {.8, 400},
                                               {.9, 424},
                                               {.95, 451},
                                               {.99, 601},
                                               {.999, 954},
                                               {.9999, 1000},
                                               {1, 1000}}};

constexpr std::array<std::string_view, 20> kClients = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j",
                                                       "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"};

/// Between two of the table the logarithm is taken to be even.
std::int64_t value_at(std::span<const Quantile> table, double share) {
  std::size_t above = 1;
  while (above + 1 < table.size() && table[above].share < share)
    ++above;
  const Quantile &a = table[above - 1], &b = table[above];
  const double way = (share - a.share) / (b.share - a.share);
  return std::llround(std::exp(std::log(a.value) + way * (std::log(b.value) - std::log(a.value))));
}

}  // namespace

std::vector<whatif::Request> conversation_trace(std::uint64_t seed, unsigned critical_percent) {
  std::mt19937_64 random(seed);
  const auto share = [&] { return static_cast<double>(random() >> 11) * 0x1.0p-53; };
  std::vector<whatif::Request> requests;
  core::Duration minute{};
  for (const int count : kInMinute) {
    for (int i = 0; i < count; ++i)
      requests.push_back({.at = minute + core::Duration(static_cast<std::int64_t>(share() * 60e6))});
    minute += std::chrono::minutes(1);
  }
  std::sort(requests.begin(), requests.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  const core::Duration first = requests.front().at;
  for (whatif::Request& request : requests) {
    request.at -= first;
    request.input_tokens = value_at(kPrompt, share());
    request.output_tokens = value_at(kAnswer, share());
    request.lane = random() % 100 < critical_percent ? "critical" : "batch";
    request.client = kClients[random() % kClients.size()];
  }
  return requests;
}

}  // namespace lanemq::figures
