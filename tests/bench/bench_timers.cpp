// SPDX-License-Identifier: Apache-2.0
// How late the core is when many jobs come due, and what the cancel of one among many costs. Google
// Benchmark, a part of bench_core: --benchmark_filter='wake|expire|cancel'
#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "broker/core/broker.hpp"

namespace {

using namespace lanemq;
using core::Duration;
using core::TimePoint;
using std::chrono::milliseconds;

/// A broker in which jobs wait and nobody runs them.
class WaitingRoom {
 public:
  WaitingRoom() : broker_(options_for_many(), 1) {}

  void submit(int number, TimePoint now, std::optional<milliseconds> delay, milliseconds timeout) {
    const std::string id = id_of(number);
    wire::Submit submit;
    submit.service = "none";
    submit.id = id;
    if (delay) submit.delay_ms = delay->count();
    submit.timeout_ms = timeout.count();
    broker_.handle(core::Submitted{{"client", {}, false}, &submit, Blob::borrow(body_)}, now);
    broker_.outbox().clear();
  }

  /// How long the core took for it.
  std::chrono::duration<double> cancel(int number, TimePoint now) {
    const std::string id = id_of(number);
    wire::Cancel cancel;
    cancel.id = id;
    const core::CancelAsked asked{{"client", {}, false}, &cancel};
    const auto begun = std::chrono::steady_clock::now();
    broker_.handle(asked, now);
    const auto done = std::chrono::steady_clock::now();
    broker_.outbox().clear();
    return done - begun;
  }

  core::Broker& broker() { return broker_; }
  std::size_t delayed() const { return broker_.lanes()[2]->delayed; }
  std::size_t waiting() const { return broker_.lanes()[2]->depth(); }

 private:
  static std::string id_of(int number) { return "job-" + std::to_string(number); }

  static core::Options options_for_many() {
    core::Options options = core::default_options();
    for (core::LaneOptions& lane : options.lanes)
      lane.depth_max = 2'000'000;
    return options;
  }

  core::Broker broker_;
  std::string body_ = std::string(128, 'x');
};

/// When so many jobs come due: evenly in so long a time, each at a moment of its own.
std::vector<TimePoint> moments(int jobs, Duration spread) {
  std::vector<TimePoint> due;
  for (int i = 0; i < jobs; ++i)
    due.push_back(TimePoint(std::chrono::minutes(1)) + spread * i / jobs);
  return due;
}

/// Submits a job for each moment, in an order that has nothing to do with it. What a client states is whole
/// milliseconds, so the rest of a moment is that of the submit.
template <class Submit>
void submit_shuffled(std::vector<TimePoint> due, Submit submit) {
  std::shuffle(due.begin(), due.end(), std::mt19937_64(1));
  const auto rest = [](TimePoint moment) { return moment.time_since_epoch() % milliseconds(1); };
  std::stable_sort(due.begin(), due.end(), [&](TimePoint a, TimePoint b) { return rest(a) < rest(b); });
  int number = 0;
  for (const TimePoint moment : due) {
    const TimePoint now = TimePoint(std::chrono::seconds(1)) + rest(moment);
    submit(number++, now, std::chrono::duration_cast<milliseconds>(moment - now));
  }
}

/// What this thread has had of a CPU: what others take of the machine is no lateness of the core.
std::chrono::nanoseconds cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Lives through the moments: time goes on by what the core's turns take, and else to its next wake-up. What
/// is late is so by what the core had not got done. `left`: how many have not come.
template <class Left>
void replay(benchmark::State& state, core::Broker& broker, const std::vector<TimePoint>& due, Left left) {
  TimePoint now{};
  Duration latest{}, longest{};
  std::size_t come = 0;
  while (come < due.size()) {
    now = std::max(now, broker.next_wakeup().value());
    const auto begun = cpu_time();
    broker.advance(now);
    const auto took = std::chrono::ceil<Duration>(cpu_time() - begun);
    broker.outbox().clear();
    now += took;
    longest = std::max(longest, took);
    const std::size_t come_by_now = due.size() - left();
    if (come_by_now == come) continue;
    latest = std::max(latest, now - due[come]);
    come = come_by_now;
  }
  state.counters["late_ms"] = static_cast<double>(latest.count()) / 1000;
  state.counters["turn_ms"] = static_cast<double>(longest.count()) / 1000;
}

constexpr milliseconds kLong = std::chrono::hours(24);

/// A million delayed jobs whose delays end within so many seconds.
void wake(benchmark::State& state) {
  const auto due = moments(1'000'000, std::chrono::seconds(state.range(0)));
  for (auto _ : state) {
    WaitingRoom room;
    submit_shuffled(due, [&](int number, TimePoint now, milliseconds left) {
      room.submit(number, now, left, left + kLong);
    });
    replay(state, room.broker(), due, [&] { return room.delayed(); });
  }
}
BENCHMARK(wake)->ArgName("seconds")->Arg(0)->Arg(1)->Arg(10)->Arg(100)->Arg(1000)->Iterations(1);

/// A million queued jobs whose deadlines are within so many seconds; each is answered.
void expire(benchmark::State& state) {
  const auto due = moments(1'000'000, std::chrono::seconds(state.range(0)));
  for (auto _ : state) {
    WaitingRoom room;
    submit_shuffled(due, [&](int number, TimePoint now, milliseconds left) {
      room.submit(number, now, std::nullopt, left);
    });
    replay(state, room.broker(), due, [&] { return room.waiting(); });
  }
}
BENCHMARK(expire)->ArgName("seconds")->Arg(0)->Arg(1)->Arg(10)->Arg(100)->Arg(1000)->Iterations(1);

/// The cancel of one of so many queued jobs of one client, from the middle of its queue; the median.
void cancel(benchmark::State& state) {
  constexpr int kCancelled = 500;
  const int queued = static_cast<int>(state.range(0));
  const TimePoint now(std::chrono::seconds(1));
  for (auto _ : state) {
    WaitingRoom room;
    for (int i = 0; i < queued; ++i)
      room.submit(i, now, std::nullopt, kLong);
    std::vector<int> middle;
    for (int i = 0; i < kCancelled; ++i)
      middle.push_back(queued / 4 + static_cast<int>(std::int64_t{queued} / 2 * i / kCancelled));
    std::shuffle(middle.begin(), middle.end(), std::mt19937_64(1));
    std::vector<std::chrono::duration<double>> times;
    for (const int number : middle)
      times.push_back(room.cancel(number, now));
    const auto median = times.begin() + kCancelled / 2;
    std::nth_element(times.begin(), median, times.end());
    state.SetIterationTime(median->count());
  }
}
BENCHMARK(cancel)
    ->ArgName("queued")
    ->RangeMultiplier(10)
    ->Range(1'000, 1'000'000)
    ->Iterations(1)
    ->UseManualTime();

}  // namespace
