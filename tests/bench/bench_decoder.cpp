// SPDX-License-Identifier: Apache-2.0
//
// bench_decoder: what one header of 16 KiB costs the broker's loop at the most.
//
// Each shape of tests/fuzz/heavy_shapes.hpp is read again and again on one thread; the figure is the
// processor's time of the quickest of several rounds, for one message. Exit code 1: a shape costs more than a
// millisecond.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include <lanemq/codec.hpp>

#include "tests/fuzz/heavy_shapes.hpp"

namespace {

constexpr double kMicrosecondsMax = 1000;
constexpr int kRounds = 7, kReads = 50;

double thread_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

}  // namespace

int main() {
  using namespace lanemq;
  Decoder decoder;
  Items<wire::ClientRequest> items;
  double worst = 0;
  std::printf("%-58s %8s %10s %10s\n", "header", "bytes", "us", "work");
  for (const fuzz::HeavyShape& shape : fuzz::heavy_shapes(limits::header_bytes_max)) {
    double best = 1e18;
    for (int round = 0; round < kRounds; ++round) {
      const double start = thread_microseconds();
      for (int i = 0; i < kReads; ++i)
        (void)decoder.decode(shape.frame, {}, items);
      best = std::min(best, (thread_microseconds() - start) / kReads);
    }
    std::printf("%-58.*s %8zu %10.1f %10zu\n", static_cast<int>(shape.name.size()), shape.name.data(),
                shape.frame.size(), best, decoder.work());
    worst = std::max(worst, best);
  }
  std::printf("worst %.1f us\n", worst);
  return worst > kMicrosecondsMax ? 1 : 0;
}
