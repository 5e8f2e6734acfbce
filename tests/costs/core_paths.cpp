// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lanemq/codec.hpp>

#include "tests/bench/core_load.hpp"
#include "tests/costs/paths.hpp"

namespace lanemq::costs {
namespace {

constexpr std::size_t kBatch = 16;

/// Sixteen jobs that come in one message, are offered in one, end in one and are answered in one.
class BatchTrips {
 public:
  BatchTrips() : broker_(bench::deep_lanes(), 1) {
    wire::Ready ready;
    ready.services = {"echo"};
    ready.capacity = 1000;
    ready.batch = kBatch;
    broker_.handle(core::WorkerReady{"worker", &ready}, now_);
    end_turn();
  }

  void trip() {
    submit();
    end_turn();
    answer();
    end_turn();
  }

 private:
  template <class Message>
  void join(const Message& message) {
    const BatchItem item = write_item(message, items_);
    if (!batch_)
      batch_.emplace(item, body_, items_);
    else
      batch_->add(item, body_, kBatch, items_);
  }
  std::string_view joined() {
    frame_.clear();
    batch_->write(items_, frame_);
    batch_.reset();
    items_.clear();
    return frame_.view();
  }

  void submit() {
    for (std::size_t i = 0; i < kBatch; ++i) {
      std::uint64_t number = ++last_id_;
      for (std::size_t digit = 26; number > 0; number /= 10)
        id_[--digit] = static_cast<char>('0' + number % 10);
      wire::Submit submit;
      submit.service = "echo";
      submit.lane = "high";
      submit.id = id_;
      submit.batch = kBatch;
      join(submit);
    }
    decoder_.decode(joined(), {}, requests_);
    for (std::size_t i = 0; i < requests_.size(); ++i)
      broker_.handle(
          core::Submitted{
              {"client", {}, false}, &std::get<wire::Submit>(requests_[i]), Blob::borrow(requests_.body(i))},
          now_);
  }

  void answer() {
    for (const std::uint64_t job : handed_) {
      wire::Outcome outcome;
      outcome.job = job;
      join(outcome);
    }
    handed_.clear();
    decoder_.decode(joined(), {}, reports_);
    for (std::size_t i = 0; i < reports_.size(); ++i)
      broker_.handle(core::OutcomeReported{"worker", &std::get<wire::Outcome>(reports_[i]),
                                           Blob::borrow(reports_.body(i))},
                     now_);
  }

  void end_turn() {
    now_ += std::chrono::microseconds(500);
    broker_.advance(now_);
    core::Outbox& outbox = broker_.outbox();
    for (const core::Send& send : outbox.sends) {
      const std::string_view header = outbox.header(send);
      if (send.peer != core::Peer::worker) continue;
      commands_decoder_.decode(header, {}, commands_);
      for (std::size_t i = 0; i < commands_.size(); ++i)
        if (const auto* job = std::get_if<wire::JobOffer>(&commands_[i])) handed_.push_back(job->job);
    }
    outbox.clear();
  }

  core::Broker broker_;
  core::TimePoint now_{std::chrono::seconds(1)};
  Decoder decoder_, commands_decoder_;
  Items<wire::ClientRequest> requests_;
  Items<wire::WorkerReport> reports_;
  Items<wire::WorkerCommand> commands_;
  Buffer items_, frame_;
  std::optional<Batch> batch_;
  std::string body_ = std::string(128, 'x'), id_ = std::string(26, '0');
  std::uint64_t last_id_ = 0;
  std::vector<std::uint64_t> handed_;
};

/// A job there and back, alone in its turn.
std::function<void()> round_trip() {
  auto load = std::make_shared<bench::RoundTrips>(bench::deep_lanes());
  return [load] {
    load->submit("high");
    load->finish_turn();
    load->answer();
    load->finish_turn();
  };
}

std::function<void()> batch_trip() {
  auto load = std::make_shared<BatchTrips>();
  return [load] { load->trip(); };
}

std::function<void()> decision(int scarce) {
  auto crowd = std::make_shared<bench::Crowd>(60'000, scarce);
  return [crowd] {
    if (!crowd->decide()) std::abort();
  };
}

}  // namespace

std::vector<Path> core_paths() {
  return {{"core: a round trip", 1000, round_trip},
          {"core: a batch of 16", 100, batch_trip},
          {"core: a decision beside 100 budgets", 500, [] { return decision(0); }},
          {"core: a decision beside 100 budgets, 90 of them used up", 500, [] { return decision(90); }}};
}

}  // namespace lanemq::costs
