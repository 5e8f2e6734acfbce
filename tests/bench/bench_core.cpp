// SPDX-License-Identifier: Apache-2.0
// What one job costs inside the core, without sockets: decode, decide, encode, for a submit, its hand-over
// and its outcome; and what a decision costs with a deep queue. Google Benchmark: bench_core
// --benchmark_filter=...
#include <string>

#include <benchmark/benchmark.h>

#include <lanemq/codec.hpp>

#include "broker/core/budgets/body_estimate.hpp"
#include "tests/bench/core_load.hpp"

namespace {

using namespace lanemq;

using bench::Crowd;
using bench::RoundTrips;

constexpr std::size_t kTurn = 500;  // jobs to a turn, as under load

/// One job there and back: three decodes, four encodes (the ends' included) and all of the core.
void round_trip(benchmark::State& state) {
  RoundTrips bench(bench::deep_lanes());
  for (auto _ : state) {
    for (std::size_t i = 0; i < kTurn; ++i)
      bench.submit("high");
    bench.finish_turn();
    bench.answer();
    bench.finish_turn();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kTurn));
}
BENCHMARK(round_trip);

/// The same beside a million jobs that wait in the lowest lane.
void round_trip_over_a_million_queued(benchmark::State& state) {
  RoundTrips bench(bench::deep_lanes());
  for (std::size_t i = 0; i < 1'000'000; ++i)
    bench.submit("batch");
  for (auto _ : state) {
    for (std::size_t i = 0; i < kTurn; ++i)
      bench.submit("critical");
    bench.finish_turn();
    bench.answer();
    bench.finish_turn();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kTurn));
}
BENCHMARK(round_trip_over_a_million_queued)->Iterations(200);

/// One decision: an outcome, and the hand-over of the job that takes its place. For each number of queued
/// jobs, of scarce models, and of decisions to a turn. The time is that of the hand-over, `outcome` that of
/// the other half; each has a message encoded in it.
void decision(benchmark::State& state) {
  constexpr int kDecisions = 20'000;
  Crowd crowd(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const int to_a_turn = static_cast<int>(state.range(2));
  for (auto _ : state) {
    const Crowd::Median median = crowd.median(kDecisions / to_a_turn, to_a_turn);
    state.SetIterationTime(median.hand_over.count());
    state.counters["outcome"] = median.outcome.count();
  }
}
BENCHMARK(decision)
    ->ArgNames({"queued", "scarce", "to_a_turn"})
    ->ArgsProduct({{300'000, 1'000'000}, {0, 90}, {1, 100}})
    ->Iterations(1)
    ->UseManualTime();

void decode_submit(benchmark::State& state) {
  wire::Submit submit;
  submit.service = "echo";
  submit.lane = "high";
  submit.id = "01J000000000000000000000AB";
  Buffer frame;
  encode(submit, std::string(128, 'x'), frame);
  Decoder decoder;
  wire::ClientRequest request;
  for (auto _ : state)
    benchmark::DoNotOptimize(decoder.decode(frame.view(), request));
}
BENCHMARK(decode_submit);

/// A request of 256 KiB of text in JSON, as many messages; what the estimate of its tokens costs.
void estimate_request(benchmark::State& state) {
  std::string body = R"({"model":"m","max_tokens":500,"messages":[)";
  while (body.size() < 256 * 1024)
    body +=
        R"({"role":"user","content":"Natalia sold clips to 48 of her friends in April, and then she sold )"
        R"(half as many clips in May.\nHow many clips did Natalia sell altogether in April and May? )"
        R"(She also asked "how many of them were blue", and nobody could tell her that."},)";
  body.back() = ']';
  body += '}';
  for (auto _ : state)
    benchmark::DoNotOptimize(core::estimate_body(body));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * body.size()));
}
BENCHMARK(estimate_request);

void encode_job(benchmark::State& state) {
  wire::JobOffer job;
  job.job = 123456789;
  job.id = "01J000000000000000000000AB";
  job.lane = "high";
  const std::string body(128, 'x');
  Buffer frame;
  for (auto _ : state) {
    frame.clear();
    encode(job, body, frame);
    benchmark::DoNotOptimize(frame.view().data());
  }
}
BENCHMARK(encode_job);

}  // namespace

BENCHMARK_MAIN();
