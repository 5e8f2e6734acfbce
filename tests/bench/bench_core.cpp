// SPDX-License-Identifier: Apache-2.0
// What one job costs inside the core, without sockets: decode, decide, encode, for a submit, its hand-over
// and its outcome; and what a decision costs with a deep queue. Google Benchmark: bench_core
// --benchmark_filter=...
#include <string>

#include <benchmark/benchmark.h>

#include <lanemq/codec.hpp>

#include "broker/core/body_estimate.hpp"
#include "broker/core/broker.hpp"

namespace {

using namespace lanemq;
using core::TimePoint;

constexpr std::size_t kTurn = 500;  // jobs to a turn, as under load

/// A broker with one worker, spoken to in encoded messages.
class Bench {
 public:
  explicit Bench(core::Options options) : broker_(std::move(options), 1) {
    wire::Ready ready;
    ready.services = {"echo"};
    ready.capacity = 1000;
    broker_.handle(core::WorkerReady{"worker", &ready}, now_);
    finish_turn();
  }

  void submit(std::string_view lane) {
    ++next_id_;
    for (std::uint64_t i = 0, n = next_id_; i < 12; ++i, n /= 10)
      id_[25 - i] = static_cast<char>('0' + n % 10);
    wire::Submit submit;
    submit.service = "echo";
    submit.lane = lane;
    submit.id = id_;
    frame_.clear();
    encode(submit, body_, frame_);
    decoder_.decode(frame_.view(), request_);
    broker_.handle(
        core::Submitted{
            {"client", {}, false}, &std::get<wire::Submit>(request_), Blob::borrow(decoder_.body())},
        now_);
  }

  /// Answers every job that was handed over in the last turn.
  void answer() {
    for (const std::uint64_t job : handed_) {
      wire::Outcome outcome;
      outcome.job = job;
      frame_.clear();
      encode(outcome, body_, frame_);
      decoder_.decode(frame_.view(), report_);
      broker_.handle(
          core::OutcomeReported{"worker", &std::get<wire::Outcome>(report_), Blob::borrow(decoder_.body())},
          now_);
    }
    handed_.clear();
  }

  void finish_turn() {
    now_ += std::chrono::microseconds(500);
    broker_.advance(now_);
    core::Outbox& outbox = broker_.outbox();
    for (const core::Send& send : outbox.sends) {
      if (send.peer != core::Peer::worker) continue;
      commands_.decode(outbox.header(send), command_);
      if (const auto* job = std::get_if<wire::JobOffer>(&command_)) handed_.push_back(job->job);
    }
    outbox.clear();
  }

  core::Broker& broker() { return broker_; }

 private:
  core::Broker broker_;
  TimePoint now_{std::chrono::seconds(1)};
  Decoder decoder_, commands_;
  wire::ClientRequest request_;
  wire::WorkerReport report_;
  wire::WorkerCommand command_;
  Buffer frame_;
  std::string body_ = std::string(128, 'x'), id_ = std::string(26, '0');
  std::uint64_t next_id_ = 0;
  std::vector<std::uint64_t> handed_;
};

core::Options options() {
  core::Options options = core::default_options();
  for (core::LaneOptions& lane : options.lanes)
    lane.depth_max = 2'000'000;
  return options;
}

/// One job there and back: three decodes, four encodes (the ends' included) and all of the core.
void round_trip(benchmark::State& state) {
  Bench bench(options());
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
  Bench bench(options());
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
