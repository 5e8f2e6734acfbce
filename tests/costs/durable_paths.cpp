// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"
#include "broker/core/desks/restorer.hpp"
#include "broker/io/store/sqlite/sqlite_rows.hpp"
#include "broker/io/store/sqlite/sqlite_schema.hpp"
#include "common/sqlite/database.hpp"
#include "tests/bench/core_load.hpp"
#include "tests/costs/paths.hpp"

namespace lanemq::costs {
namespace {

template <class Outcome>
auto sure(Outcome outcome) {
  if (!outcome) throw std::runtime_error(outcome.error().message);
  if constexpr (!std::is_void_v<typename Outcome::value_type>) return *std::move(outcome);
}

/// A store's tables in memory: its statements are those of a file, without a disk and a thread.
class Rows {
 public:
  Rows() : database_(sure(sqlite::Database::open(":memory:", sqlite::Database::Mode::create))) {
    for (const char* const step : io::schema_steps())
      sure(database_.execute(step));
    rows_ = std::make_unique<io::StoreRows>(sure(io::StoreRows::prepare(database_)));
  }

  void commit(const core::Writes& writes) {
    sure(rows_->begin());
    for (const core::Write& write : writes)
      sure(rows_->apply(writes, write));
    sure(rows_->commit());
  }

 private:
  sqlite::Database database_;
  std::unique_ptr<io::StoreRows> rows_;
};

/// A broker whose jobs are on disk before they are told of, and one worker.
class DurableTrips {
 public:
  DurableTrips() : broker_(durable(), 1) {
    finish_start();
    wire::Ready ready;
    ready.services = {"echo"};
    ready.capacity = 1000;
    broker_.handle(core::WorkerReady{"worker", &ready}, now_);
    end_turn();
  }

  /// From a submit's frame to the commit and the `accepted` that waits for it. Nobody serves the job.
  void accept() { submit("none"); }
  /// The same for a job that is served, and its outcome with the answer that is kept.
  void live() {
    submit("echo");
    wire::Outcome outcome;
    outcome.job = offered_;
    frame_.clear();
    encode(outcome, body_, frame_);
    decoder_.decode(frame_.view(), report_);
    broker_.handle(
        core::OutcomeReported{"worker", &std::get<wire::Outcome>(report_), Blob::borrow(decoder_.body())},
        now_);
    end_turn();
  }

 private:
  static core::Options durable() {
    core::Options options = bench::deep_lanes();
    options.store_durable = true;
    for (core::LaneOptions& lane : options.lanes)
      lane.durable = true;
    return options;
  }

  void finish_start() {
    core::Restorer restorer = broker_.restorer();
    restorer.clock({});
    if (const auto done = restorer.finish(now_); !done) throw std::runtime_error(done.error().message);
    end_turn();
  }

  void submit(std::string_view service) {
    std::uint64_t number = ++last_id_;
    for (std::size_t digit = 26; number > 0; number /= 10)
      id_[--digit] = static_cast<char>('0' + number % 10);
    wire::Submit submit;
    submit.service = service;
    submit.lane = "high";
    submit.id = id_;
    frame_.clear();
    encode(submit, body_, frame_);
    decoder_.decode(frame_.view(), request_);
    broker_.handle(
        core::Submitted{
            {"client", {}, false}, &std::get<wire::Submit>(request_), Blob::borrow(decoder_.body())},
        now_);
    end_turn();
  }

  /// As the loop ends one: what was written is committed, then what waited for it is sent.
  void end_turn() {
    now_ += std::chrono::microseconds(500);
    broker_.advance(now_);
    core::Outbox& outbox = broker_.outbox();
    if (!outbox.writes.empty() || broker_.has_notes()) {
      const bool saves = broker_.write_notes();
      rows_.commit(outbox.writes);
      if (saves) broker_.notes_saved();
    }
    for (const core::Send& send : outbox.sends) {
      if (send.peer != core::Peer::worker) continue;
      commands_.decode(outbox.header(send), command_);
      if (const auto* job = std::get_if<wire::JobOffer>(&command_)) offered_ = job->job;
    }
    outbox.clear();
  }

  Rows rows_;
  core::Broker broker_;
  core::TimePoint now_{std::chrono::seconds(1)};
  Decoder decoder_, commands_;
  wire::ClientRequest request_;
  wire::WorkerReport report_;
  wire::WorkerCommand command_;
  Buffer frame_;
  std::string body_ = std::string(128, 'x'), id_ = std::string(26, '0');
  std::uint64_t last_id_ = 0, offered_ = 0;
};

}  // namespace

std::vector<Path> durable_paths() {
  return {{"durable: a job is accepted", 500,
           [] {
             auto load = std::make_shared<DurableTrips>();
             return [load] { load->accept(); };
           }},
          {"durable: a job's life", 500, [] {
             auto load = std::make_shared<DurableTrips>();
             return [load] { load->live(); };
           }}};
}

}  // namespace lanemq::costs
