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
#include "client/gateway/batches/batch_store.hpp"
#include "client/gateway/door/batch_settings.hpp"

namespace lanemq::gateway {

/// How to run a request of a batch.
struct LineJob {
  JobRequest request{};
  std::string body{};
  std::string owner{};  ///< the key that pays for it
};

/// What the engine needs of the gateway.
class LineBroker {
 public:
  LineBroker() = default;
  virtual ~LineBroker() = default;
  LineBroker(const LineBroker&) = delete;
  LineBroker& operator=(const LineBroker&) = delete;

  /// The job of a batch's request: its service and model, and its body without members that no upstream may
  /// see. `step`: of the model's route, from 0. Equal requests give equal jobs, also in the next life of the
  /// gateway.
  virtual LineJob job_of(const StoredBatch& batch, std::string_view model, std::string_view body,
                         std::size_t step) = 0;
  /// Why the batch's key may not send that request now; none: it may. A refusal (is_refusal) has it wait.
  virtual std::optional<ClientError> why_not(const StoredBatch& batch, std::string_view model,
                                             std::string_view body) = 0;
  /// The model without @LANE, as a key's `models` mean it.
  virtual std::string_view without_lane(std::string_view model) const = 0;
  /// Whether the model's route goes on behind that step after that error.
  virtual bool falls_back(const StoredBatch& batch, std::string_view model, std::size_t step,
                          const ClientError& error) = 0;
  /// Steps of the longest route.
  virtual std::size_t steps_max() const = 0;
  /// Submits the job; its answer goes to BatchEngine::answered(), later.
  virtual void submit(BatchLine line, LineJob job) = 0;
  virtual void cancel(const std::string& job_id) = 0;
  /// Asks for the jobs, the last one first, and tells BatchEngine::answered() of the first that is over; of
  /// none, that it was cancelled. Jobs that are not over are.
  virtual void collect(BatchLine line, std::vector<std::string> job_ids) = 0;
};

/// Runs batches: reads their input, has the lines run, keeps the answers, writes the output.
///
/// Works in turns, and in each at one input or output, for a slice of it: requests come in between. What
/// happened is on disk before anything that follows from it is visible to others. If the disk refuses, the
/// turn is repeated later and nothing is lost. Not thread-safe; it is told the time. belongs to one thread;
/// it is told the time.
class BatchEngine {
 public:
  /// Continues what an earlier life left. Throws StoreFault.
  BatchEngine(const BatchSettings& settings, BatchStore& store, LineBroker& broker);
  ~BatchEngine();
  BatchEngine(const BatchEngine&) = delete;
  BatchEngine& operator=(const BatchEngine&) = delete;

  /// Begins with a batch. Requires: its row is committed.
  void start(StoredBatch batch);
  /// A running batch in its present state; null: there is none with that id.
  const StoredBatch* find(std::string_view id) const;
  /// Cancels batches, and has that on disk; a batch whose lines are all over goes on. Throws StoreFault, with
  /// nothing changed. Requires: find(id) is not null, of each.
  void cancel(const std::vector<std::string>& ids, WallTime now);
  /// Running batches of a caller.
  std::vector<std::string> ids_of(std::string_view owner) const;
  /// Whether a model, perhaps with @LANE, is one of `models` (StoredBatch::models).
  bool model_allowed(std::string_view models, std::string_view model) const;
  /// The running batch with this input file; empty: there is none.
  std::string user_of(std::string_view file_id) const;

  /// A submitted line has its answer.
  void answered(BatchLine line, Answer answer);

  /// Does what is due; true: there is more to do at once. Does not throw.
  bool turn(WallTime now);
  /// When turn() has work if nothing happens before; empty: never.
  std::optional<WallTime> next_wakeup() const;
  /// Why the disk refused the last turn; empty: it did not.
  const std::string& trouble() const { return trouble_; }
  /// Why the last unreadable input could not be read; empty: all could.
  const std::string& fault() const { return fault_; }
  /// Adds to `figures` the lines, and what the disk refused.
  void count(BatchFigures& figures) const;
  /// Lines at the broker.
  std::size_t in_flight() const { return runner_.in_flight(); }

 private:
  struct Span {
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
  };
  struct Active;
  class InputReader;
  class OutputWriter;
  /// An answer that is not on disk yet.
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
  void collect(BatchLine line);
  bool falls_back(const Active& active, BatchLine line, const ClientError& error);
  std::string_view read_line(const Active& active, std::uint32_t line);
  Active* next_to_step();
  void step(Active& active, WallTime now);
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
  BatchRunner::Actions actions_;  ///< done once all changes are on disk
  std::string line_;              ///< the last line that was read
  std::string trouble_, fault_;
  std::uint64_t troubles_ = 0;
  WallTime trouble_at_{};
  WallTime not_before_{};  ///< after trouble: when the next turn may be
  WallTime next_sweep_{};
  bool answers_left_ = true;  ///< answers of batches that are over may be left
};

}  // namespace lanemq::gateway
