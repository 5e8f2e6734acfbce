// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/client.hpp>

#include "client/gateway/batches/batch_runner.hpp"
#include "client/gateway/batches/batch_settings.hpp"
#include "client/gateway/batches/batch_store.hpp"

namespace lanemq::gateway {

/// How a request of a batch is to be run.
struct LineJob {
  JobRequest request{};
  std::string body{};
  std::string owner{};  ///< the name of the key that pays for it
};

/// What the engine needs of the rest of the gateway.
class LineBroker {
 public:
  LineBroker() = default;
  virtual ~LineBroker() = default;
  LineBroker(const LineBroker&) = delete;
  LineBroker& operator=(const LineBroker&) = delete;

  /// The job of a request in that batch: which service and model it goes to, and its body without what no
  /// upstream shall see. `step`: of the model's route, 0 the first. Equal requests give equal jobs, in
  /// another life of the gateway, too.
  virtual LineJob job_of(const StoredBatch& batch, std::string_view model, std::string_view body,
                         std::size_t step) = 0;
  /// The model without the lane behind an @: what a key's models are about.
  virtual std::string_view without_lane(std::string_view model) const = 0;
  /// Whether the model's route goes on behind that step after that error.
  virtual bool falls_back(const StoredBatch& batch, std::string_view model, std::size_t step,
                          const ClientError& error) = 0;
  /// Of the longest route.
  virtual std::size_t steps_max() const = 0;
  /// Its answer goes to BatchEngine::answered(), later.
  virtual void submit(BatchLine line, LineJob job) = 0;
  virtual void cancel(const std::string& job_id) = 0;
};

/// Runs batches: reads what they hold, has their lines run, keeps the answers and writes the output.
///
/// One turn at a time: what happened is put on the disk first, and only then has anything that follows from
/// it happened for others. When the disk refuses, the turn is tried again later and nothing is lost. All
/// belongs to one thread; it is told the time.
class BatchEngine {
 public:
  /// Goes on with what an earlier life left. Throws StoreFault.
  BatchEngine(const BatchSettings& settings, BatchStore& store, LineBroker& broker);
  ~BatchEngine();
  BatchEngine(const BatchEngine&) = delete;
  BatchEngine& operator=(const BatchEngine&) = delete;

  /// Begins with a batch whose row was committed.
  void start(StoredBatch batch);
  /// A batch that is not over, as it is now; null: there is none of that id.
  const StoredBatch* find(std::string_view id) const;
  /// Cancels a batch, and has that on the disk; one whose lines are all over goes on. Throws StoreFault, and
  /// then nothing has happened. Requires: find(id) is not null.
  void cancel(std::string_view id, WallTime now);
  /// Whether the model, perhaps with a lane behind an @, is one of `models`: StoredBatch::models.
  bool model_allowed(std::string_view models, std::string_view model) const;
  /// Batches of a caller that are not over.
  std::int64_t count(std::string_view owner) const;
  /// The batch that is not over and has this file for its input; empty: there is none.
  std::string user_of(std::string_view file_id) const;

  /// A line that was submitted has its answer.
  void answered(BatchLine line, Answer answer);

  /// Does what is to be done; true: there is more at once. Throws nothing.
  bool turn(WallTime now);
  /// When turn() has something to do without anything happening before; empty: never.
  std::optional<WallTime> next_wakeup() const;
  /// Why the disk refused the last turn; empty: it did not.
  const std::string& trouble() const { return trouble_; }
  /// Why an input could not be read, the last time; empty: all could.
  const std::string& fault() const { return fault_; }
  /// What the engine knows of `figures`: the lines, and what the disk refused.
  void count(BatchFigures& figures) const;
  /// Lines that are at the broker.
  std::size_t in_flight() const { return runner_.in_flight(); }

 private:
  struct Span {
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
  };
  struct Active;
  class InputReader;
  class OutputWriter;
  /// An answer that is not on the disk yet.
  struct Unsaved {
    BatchLine line;
    LineOutcome outcome;
    std::string text;
  };
  enum class Stage : unsigned char { more, done };

  Active* active(std::string_view id) const;
  void take(BatchLine line, const Answer& answer, WallTime now);
  void keep(Active& active, BatchLine line, const Answer& answer);
  void save();
  void act(WallTime now);
  void submit(BatchLine line, WallTime now);
  void cancel_job(BatchLine line);
  bool falls_back(const Active& active, BatchLine line, const ClientError& error);
  std::string_view read_line(const Active& active, std::uint32_t line);
  bool step(Active& active, WallTime now);
  void step_input(Active& active, WallTime now);
  void run(Active& active, WallTime now);
  void step_output(Active& active, WallTime now);
  bool give_up_to(Active& active, std::uint32_t line, std::size_t& bytes);
  void end(Active& active, BatchState state, WallTime now);
  void sweep(WallTime now);

  const BatchSettings& settings_;
  BatchStore& store_;
  LineBroker& broker_;
  BatchRunner runner_;
  std::map<std::int64_t, std::unique_ptr<Active>> active_;
  std::vector<std::pair<BatchLine, Answer>> arrived_;
  std::vector<Unsaved> unsaved_;
  BatchRunner::Actions actions_;  ///< to be done once all is on the disk
  std::string line_;              ///< the last line that was read
  std::string trouble_, fault_;
  std::uint64_t troubles_ = 0;
  WallTime trouble_at_{};
  WallTime not_before_{};  ///< of the next turn, after trouble
  WallTime next_sweep_{};
  bool answers_left_ = true;  ///< of batches that are over
};

}  // namespace lanemq::gateway
