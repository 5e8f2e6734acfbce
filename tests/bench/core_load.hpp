// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"

// Loads of the core without sockets, for who measures what a job costs inside of it.
namespace lanemq::bench {

using core::TimePoint;

/// A broker with one worker, spoken to in encoded messages.
class RoundTrips {
 public:
  explicit RoundTrips(core::Options options) : broker_(std::move(options), 1) {
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

/// The default lanes, as deep as a load wants them.
inline core::Options deep_lanes() {
  core::Options options = core::default_options();
  for (core::LaneOptions& lane : options.lanes)
    lane.depth_max = 2'000'000;
  return options;
}

/// A broker whose queue is deep and wide: jobs of 10,000 clients in five lanes wait for 100 budgets, which
/// makes some 500 streams with jobs. Each job is under the budget of its model, every second one also under
/// one that all of these share.
class Crowd {
 public:
  /// `scarce`: of how many of the models the upstream allows one job a second; of the others, as many as
  /// come.
  Crowd(int jobs, int scarce) : broker_(options_with(scarce), 1) {
    outcome_.usage.emplace();
    outcome_.usage->requests = 1;
    outcome_.usage->input_tokens = 200;
    outcome_.usage->output_tokens = 90;
    wire::Ready ready;
    ready.services = {"llm"};
    ready.capacity = kRunning;
    broker_.handle(core::WorkerReady{"worker", &ready}, now_);
    for (int i = 0; i < jobs; ++i)
      submit(i);
    while (running_.size() < kRunning) {
      now_ += kBetween;
      broker_.advance(now_);
      take_offers();
    }
  }

  /// One decision: a job ends, and another takes its place. False: none did, and there is one less.
  bool decide() {
    now_ += kBetween;
    const std::size_t running = running_.size();
    take_outcome(running_.front());
    hand_over();
    running_.pop_front();
    take_offers();
    return running_.size() >= running;
  }

  /// What a decision took: half of all took less.
  struct Median {
    std::chrono::duration<double> outcome;    ///< a job ends: settled, answered, its result kept
    std::chrono::duration<double> hand_over;  ///< the next is found, its budgets are debited, it is offered
  };

  /// Of so many turns, in each of which as many jobs end and others take their places.
  Median median(int turns, int decisions) {
    std::vector<std::chrono::duration<double>> outcomes, hand_overs;
    for (int i = 0; i < turns; ++i) {
      now_ += kBetween * decisions;
      const auto begun = std::chrono::steady_clock::now();
      for (int n = 0; n < decisions; ++n)
        take_outcome(running_[static_cast<std::size_t>(n)]);
      const auto told = std::chrono::steady_clock::now();
      hand_over();
      const auto done = std::chrono::steady_clock::now();
      outcomes.push_back((told - begun) / decisions);
      hand_overs.push_back((done - told) / decisions);
      running_.erase(running_.begin(), running_.begin() + decisions);
      take_offers();
    }
    return {middle_of(outcomes), middle_of(hand_overs)};
  }

 private:
  static constexpr int kModels = 99, kClients = 10'000, kRunning = 1000;
  static constexpr core::Duration kBetween = std::chrono::microseconds(5);

  // Not inlined, so that callgrind can tell them from the rest.
  [[gnu::noinline]] void take_outcome(std::uint64_t job) {
    outcome_.job = job;
    broker_.handle(core::OutcomeReported{"worker", &outcome_, {}}, now_);
  }
  [[gnu::noinline]] void hand_over() { broker_.advance(now_); }

  static std::chrono::duration<double> middle_of(std::vector<std::chrono::duration<double>>& times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

  static std::string model(int number) {
    return "model-" + std::to_string(number) + (number % 2 == 0 ? "-shared" : "");
  }

  static core::Options options_with(int scarce) {
    core::Options options = deep_lanes();
    const auto budget = [&](const std::string& models, std::int64_t requests) {
      const core::Duration minute = std::chrono::minutes(1);
      core::BudgetOptions& added = options.budgets.emplace_back();
      added.name = added.model = models;
      added.rates.push_back({.name = "requests_per_minute", .limit = requests, .period = minute});
      added.rates.push_back({.name = "tokens_per_minute",
                             .limit = 1'000'000'000,
                             .period = minute,
                             .resource = core::Resource::tokens});
    };
    for (int i = 0; i < kModels; ++i)
      budget(model(i), i < scarce ? 60 : 1'000'000'000);
    budget("*-shared", 1'000'000'000);
    return options;
  }

  void submit(int number) {
    const std::string client = "client-" + std::to_string(number % kClients);
    const std::string for_model = model(number % kModels);
    wire::Submit submit;
    submit.service = "llm";
    submit.lane = broker_.options().lanes[static_cast<std::size_t>(number / kModels) % 5].name;
    submit.model = for_model;
    submit.client = client;
    submit.cost = wire::Cost{.input_tokens = 200, .output_tokens = 100};
    broker_.handle(core::Submitted{{"connection", {}, false}, &submit, Blob::borrow(body_)}, now_);
    broker_.outbox().clear();
  }

  void take_offers() {
    core::Outbox& outbox = broker_.outbox();
    for (const core::Send& send : outbox.sends) {
      if (send.peer != core::Peer::worker) continue;
      decoder_.decode(outbox.header(send), command_);
      if (const auto* job = std::get_if<wire::JobOffer>(&command_)) running_.push_back(job->job);
    }
    outbox.clear();
  }

  core::Broker broker_;
  TimePoint now_{std::chrono::seconds(1)};
  Decoder decoder_;
  wire::WorkerCommand command_;
  wire::Outcome outcome_;
  std::string body_ = std::string(128, 'x');
  std::deque<std::uint64_t> running_;  // in the order in which they were handed over
};

}  // namespace lanemq::bench
