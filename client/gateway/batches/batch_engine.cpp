// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_engine.hpp"

#include <algorithm>
#include <exception>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <unistd.h>

#include <lanemq/text.hpp>

#include "client/gateway/apis/named_models.hpp"
#include "client/gateway/batches/batch_api.hpp"
#include "client/gateway/batches/batch_documents.hpp"
#include "common/json/line_reader.hpp"

namespace lanemq::gateway {

using std::chrono::milliseconds;

namespace {

constexpr std::size_t kSliceBytes = std::size_t{256} * 1024;  ///< read or written in one turn
constexpr std::size_t kFaultsMax = 100;                       ///< faults named in a batch's errors
constexpr milliseconds kTroubleWait{1'000};
constexpr milliseconds kDeadlineMargin{60'000};
constexpr milliseconds kSweepEvery{60'000};
constexpr std::size_t kSweepMax = 100;         ///< expired files and batches handled in one turn
constexpr std::size_t kOldAnswersMax = 1'000;  ///< removed in one turn

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == line.npos;
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

/// Reads a batch's input from its start: finds its lines, and their faults.
class BatchEngine::InputReader {
 public:
  InputReader(const BatchEngine& engine, const StoredBatch& batch, int fd, std::int64_t lines_max)
      : engine_(engine),
        batch_(batch),
        reader_(fd, kLineBytesMax),
        lines_max_(lines_max),
        checks_(batch.state == BatchState::validating) {}

  /// Reads on, a part in each call; throws std::system_error.
  Stage step(std::vector<Span>& spans) {
    std::size_t bytes = 0;
    FileLine line;
    while (bytes < kSliceBytes) {
      if (stopped_ || !reader_.next(line)) {
        finish(spans);
        return Stage::done;
      }
      ++number_;
      bytes += line.bytes;
      take(line, spans);
    }
    return Stage::more;
  }

  std::vector<BatchFault> faults{};
  std::string model{};  ///< of the first line

 private:
  void take(const FileLine& line, std::vector<Span>& spans) {
    if (line.too_long) {
      add({"line_too_long", "a line holds up to " + std::to_string(kLineBytesMax) + " bytes", {}});
      return;
    }
    if (is_blank(line.text)) return;
    if (static_cast<std::int64_t>(spans.size()) == lines_max_) {
      add({"too_many_requests", "a batch holds up to " + std::to_string(lines_max_) + " requests", {}});
      stopped_ = true;
      return;
    }
    spans.push_back({line.offset, static_cast<std::uint32_t>(line.text.size())});
    // An input that an earlier life has checked is not checked again.
    if (checks_) check(line.text);
  }
  void check(std::string_view text) {
    const auto request = read_batch_line(*batch_.api, batch_.endpoint, text);
    if (!request) {
      add(request.error());
      return;
    }
    if (!ids_.insert(request->custom_id).second)
      add({"duplicate_custom_id",
           "The custom_id for this request is a duplicate of another request. The custom_id parameter must "
           "be unique for "
           "each request in a batch.",
           "custom_id"});
    if (!engine_.model_allowed(batch_.models, request->model))
      add({"model_not_allowed",
           "model \"" + printable(request->model, 64) + "\" is not allowed with this key", "body.model"});
    if (!batch_.models.empty())
      for (const NamedModel& named : named_models_of(request->body))
        if (!engine_.model_allowed(batch_.models, named.model))
          add({"model_not_allowed",
               "model \"" + printable(named.model, 64) + "\" is not allowed with this key",
               "body." + named.param});
    if (model.empty()) model = request->model;
  }
  void add(LineFault fault) {
    faults.push_back({std::move(fault.code), std::move(fault.message), std::move(fault.param), number_});
    stopped_ |= faults.size() >= kFaultsMax;
  }
  void finish(const std::vector<Span>& spans) {
    if (spans.empty() && faults.empty())
      faults.push_back(
          {"empty_file", "The batch input file is empty. It must hold at least one request.", {}, 0});
    ids_.clear();
  }

  const BatchEngine& engine_;
  const StoredBatch& batch_;
  LineReader reader_;
  std::int64_t lines_max_;
  bool checks_;
  bool stopped_ = false;  ///< later lines do not count
  std::unordered_set<std::string> ids_;
  std::int64_t number_ = 0;
};

/// Writes a batch's answers into its files, in the order of the lines.
class BatchEngine::OutputWriter {
 public:
  explicit OutputWriter(BatchStore& store) : store_(store) {}

  struct Output {
    std::string id{};
    std::unique_ptr<BatchStore::Writing> writing{};
  };
  Output good{}, bad{};  ///< an empty id: nothing was written to it
  std::uint32_t next = 0;
  std::int64_t given_up = 0;

  void keep() {
    for (Output* output : {&good, &bad})
      if (output->writing) output->writing->keep();
  }
  void write(Output& output, std::string_view text) {
    if (!output.writing) {
      output.id = store_.make_id("file-");
      output.writing = std::make_unique<BatchStore::Writing>(store_, output.id);
    }
    output.writing->write(text);
  }

 private:
  BatchStore& store_;
};

/// A batch that is not over.
struct BatchEngine::Active {
  StoredBatch batch;
  std::unique_ptr<File> input{};
  std::vector<Span> lines{};
  std::unique_ptr<InputReader> reader{};
  std::unique_ptr<OutputWriter> writer{};
  struct AtBroker {
    std::string custom_id{};
    std::size_t step = 0;  ///< of the model's route
  };
  std::map<std::uint32_t, AtBroker> at_broker{};
  bool changed = false;          ///< `batch` differs from its row
  std::uint64_t stepped_at = 0;  ///< its last step came behind those with smaller ones

  bool read = false;  ///< the lines' places are known
  /// Whether its lines run; else there is input to read or output to write.
  bool runs() const { return read && batch.state == BatchState::in_progress; }
};

BatchEngine::BatchEngine(const BatchSettings& settings, BatchStore& store, LineBroker& broker)
    : settings_(settings),
      store_(store),
      broker_(broker),
      runner_(RunnerLimits{.in_flight_max = settings.in_flight_max}) {
  for (StoredBatch& batch : store_.unfinished_batches())
    start(std::move(batch));
}

BatchEngine::~BatchEngine() = default;

void BatchEngine::start(StoredBatch batch) {
  auto active = std::make_unique<Active>(Active{.batch = std::move(batch)});
  const std::int64_t number = active->batch.number;
  active_.emplace(number, std::move(active));
}

const StoredBatch* BatchEngine::find(std::string_view id) const {
  for (const auto& [number, active] : active_)
    if (active->batch.id == id) return &active->batch;
  return nullptr;
}

bool BatchEngine::model_allowed(std::string_view models, std::string_view model) const {
  if (models.empty()) return true;
  model = broker_.without_lane(model);
  while (!models.empty()) {
    const std::size_t end = std::min(models.find('\n'), models.size());
    if (glob_match(models.substr(0, end), model)) return true;
    models.remove_prefix(std::min(end + 1, models.size()));
  }
  return false;
}

std::vector<std::string> BatchEngine::ids_of(std::string_view owner) const {
  std::vector<std::string> ids;
  for (const auto& [number, active] : active_)
    if (active->batch.owner == owner) ids.push_back(active->batch.id);
  return ids;
}

std::string BatchEngine::user_of(std::string_view file_id) const {
  for (const auto& [number, active] : active_)
    if (active->batch.input_file == file_id) return active->batch.id;
  return {};
}

BatchEngine::Active* BatchEngine::active(std::string_view id) const {
  for (const auto& [number, active] : active_)
    if (active->batch.id == id) return active.get();
  return nullptr;
}

void BatchEngine::cancel(const std::vector<std::string>& ids, WallTime now) {
  std::vector<Active*> batches;
  for (const std::string& id : ids) {
    Active& batch = *active(id);
    if (batch.batch.cancelling_at != 0 || batch.batch.state == BatchState::finalizing) continue;
    batch.batch.cancelling_at = ms_of(now);
    batch.changed = true;
    batches.push_back(&batch);
  }
  try {
    save();
  } catch (const StoreFault&) {
    for (Active* const batch : batches)
      batch->batch.cancelling_at = 0;
    throw;
  }
  for (const Active* const batch : batches)
    runner_.cancel(batch->batch.number);
}

// ---- a turn ---------------------------------------------------------------------------------------------

void BatchEngine::answered(BatchLine line, Answer answer) {
  arrived_.emplace_back(line, std::move(answer));
}

bool BatchEngine::turn(WallTime now) {
  for (auto& [line, answer] : std::exchange(arrived_, {}))
    take(line, answer, now);
  if (now < not_before_) return false;

  try {
    // What the disk refused in an earlier turn comes first.
    if (actions_.submit.empty() && actions_.cancel.empty() && actions_.finished.empty()) {
      actions_ = runner_.advance(now);
      for (const BatchLine line : actions_.submit) {
        Active& batch = *active_.at(line.batch);
        const std::int64_t started_to = runner_.started_to(line.batch);
        batch.changed |= std::exchange(batch.batch.started_to, started_to) != started_to;
      }
    }
    save();
    act(now);

    Active* const next = next_to_step();
    if (next != nullptr) step(*next, now);
    const bool more = next != nullptr;
    sweep(now);
    trouble_.clear();
    return more || answers_left_ || !arrived_.empty();
  } catch (const std::exception& error) {
    trouble_ = error.what();
    ++troubles_;
    trouble_at_ = now;
    not_before_ = now + kTroubleWait;
    return false;
  }
}

void BatchEngine::count(BatchFigures& figures) const {
  const auto running = static_cast<std::int64_t>(runner_.in_flight());
  std::int64_t open = 0;
  for (const auto& [number, active] : active_)
    if (active->runs()) open += active->batch.lines - active->batch.succeeded - active->batch.failed;
  figures.lines_running = running;
  figures.lines_waiting = std::max<std::int64_t>(open - running, 0);
  figures.commits_failed = troubles_;
  figures.commit_failed_at = troubles_ == 0 ? 0 : ms_of(trouble_at_);
  figures.disk_refuses = !trouble_.empty();
}

std::optional<WallTime> BatchEngine::next_wakeup() const {
  if (!trouble_.empty()) return not_before_;
  const std::optional<WallTime> next = runner_.next_wakeup();
  return next ? std::min(*next, next_sweep_) : next_sweep_;
}

void BatchEngine::take(BatchLine line, const Answer& answer, WallTime now) {
  if (!runner_.is_in_flight(line)) return;
  Active& batch = *active_.at(line.batch);
  if (!answer) {
    const ClientError& error = answer.error();
    const std::optional<ErrorCode> code = error.known_code();
    // The gateway's own key may count again.
    if (code && (is_refusal(*code) || code == ErrorCode::unauthorized)) {
      runner_.refused(line, error.retry_after, now);
      return;
    }
    if (code == ErrorCode::cancelled) {
      // This process ends. The next one submits the line again, and the broker knows it.
      if (error.local) return;
      // The line of a stopped batch is given up, which needs no row.
      if (runner_.stopping(line.batch)) {
        batch.at_broker.erase(line.line);
        runner_.settled(line);
        return;
      }
    }
    if (falls_back(batch, line, error)) {
      // The step need not be stored: after a restart the broker refuses the step before again, which leads
      // here.
      ++batch.at_broker.at(line.line).step;
      return submit(line, now);
    }
  }
  keep(batch, line, answer);
  runner_.settled(line);
}

bool BatchEngine::falls_back(const Active& active, BatchLine line, const ClientError& error) {
  if (runner_.stopping(line.batch) || broker_.steps_max() == 1) return false;
  try {
    const StoredBatch& batch = active.batch;
    const auto read = read_batch_line(*batch.api, batch.endpoint, read_line(active, line.line));
    return read && broker_.falls_back(batch, read->model, active.at_broker.at(line.line).step, error);
  } catch (const std::exception&) {
    return false;  // the line failed with a known error, and cannot be read any more
  }
}

void BatchEngine::keep(Active& active, BatchLine line, const Answer& answer) {
  StoredBatch& batch = active.batch;
  const auto at_broker = active.at_broker.extract(line.line);
  const LineName name{
      .api = batch.api, .batch_id = batch.id, .line = line.line, .custom_id = at_broker.mapped().custom_id};
  unsaved_.push_back({.line = line,
                      .outcome = answer ? LineOutcome::succeeded : LineOutcome::failed,
                      .text = answer_line(name, answer)});
  ++(answer ? batch.succeeded : batch.failed);
  if (answer && answer->usage) {
    batch.usage.input_tokens += answer->usage->input_tokens.value_or(0);
    batch.usage.output_tokens += answer->usage->output_tokens.value_or(0);
    batch.usage.cached_tokens += answer->usage->cached_tokens.value_or(0);
    batch.usage.reasoning_tokens += answer->usage->reasoning_tokens.value_or(0);
  }
  active.changed = true;
}

/// Writes all changes to the disk. Throws StoreFault, with nothing written.
void BatchEngine::save() {
  std::vector<Active*> changed;
  for (const auto& [number, active] : active_)
    if (active->changed) changed.push_back(active.get());
  if (changed.empty() && unsaved_.empty()) return;
  store_.transaction([&] {
    for (const Unsaved& answer : unsaved_)
      store_.add_answer(answer.line.batch, answer.line.line, answer.outcome, answer.text);
    for (const Active* active : changed)
      store_.update_batch(active->batch);
  });
  unsaved_.clear();
  for (Active* active : changed)
    active->changed = false;
}

void BatchEngine::act(WallTime now) {
  const BatchRunner::Actions actions = std::exchange(actions_, {});
  for (const BatchLine line : actions.submit)
    submit(line, now);
  for (const BatchLine line : actions.cancel)
    cancel_job(line);
  for (const BatchLine line : actions.collect)
    collect(line);
  for (const std::int64_t number : actions.finished) {
    Active& active = *active_.at(number);
    active.batch.state = BatchState::finalizing;
    active.batch.finalizing_at = ms_of(now);
    active.changed = true;
    active.at_broker.clear();
  }
}

void BatchEngine::cancel_job(BatchLine line) {
  const Active& active = *active_.at(line.batch);
  const auto at = active.at_broker.find(line.line);
  if (at != active.at_broker.end()) broker_.cancel(line_job_id(active.batch.id, line.line, at->second.step));
}

/// What was paid for in an earlier life is kept. How far the line's route had gone there is not known.
void BatchEngine::collect(BatchLine line) {
  Active& active = *active_.at(line.batch);
  const StoredBatch& batch = active.batch;
  Active::AtBroker& at_broker = active.at_broker[line.line];
  try {
    if (const auto read = read_batch_line(*batch.api, batch.endpoint, read_line(active, line.line)))
      at_broker.custom_id = read->custom_id;
  } catch (const std::exception& error) {
    fault_ = error.what();
  }
  std::vector<std::string> ids;
  for (std::size_t step = 0; step < broker_.steps_max(); ++step)
    ids.push_back(line_job_id(batch.id, line.line, step));
  broker_.collect(line, std::move(ids));
}

void BatchEngine::submit(BatchLine line, WallTime now) {
  Active& active = *active_.at(line.batch);
  const StoredBatch& batch = active.batch;
  std::string problem = "the batch's input cannot be read any more";
  try {
    const auto read = read_batch_line(*batch.api, batch.endpoint, read_line(active, line.line));
    if (read) {
      Active::AtBroker& at_broker = active.at_broker[line.line];
      at_broker.custom_id = read->custom_id;
      if (std::optional<ClientError> why = broker_.why_not(batch, read->model, read->body))
        return answered(line, *std::move(why));
      LineJob job = broker_.job_of(batch, read->model, read->body, at_broker.step);
      job.request.id = line_job_id(batch.id, line.line, at_broker.step);
      job.request.lane = batch.lane;
      job.request.client = batch.client;
      // The batch expires before the job, and cancels it.
      job.request.timeout = std::max(time_of(batch.deadline) - now, milliseconds(0)) + kDeadlineMargin;
      job.request.retain = settings_.retain;
      broker_.submit(line, std::move(job));
      return;
    }
    problem += ": " + read.error().message;
  } catch (const std::exception& error) {
    fault_ = error.what();
  }
  active.at_broker.try_emplace(line.line);
  answered(line, ClientError{.code = "internal", .message = std::move(problem)});
}

std::string_view BatchEngine::read_line(const Active& active, std::uint32_t line) {
  const Span span = active.lines.at(line);
  read_at(active.input->get(), span.offset, span.length, line_);
  return line_;
}

// ---- reading the input, writing the output ----------------------------------------------------------------

/// Owners take turns, and so do the batches of each: who comes with one does not wait for another's hundred.
BatchEngine::Active* BatchEngine::next_to_step() {
  std::unordered_map<std::string_view, std::uint64_t> last_of;
  for (const auto& [number, one] : active_)
    if (!one->runs()) last_of[one->batch.owner] = std::max(last_of[one->batch.owner], one->stepped_at);
  const auto turn_of = [&](const Active& one) { return std::pair(last_of[one.batch.owner], one.stepped_at); };
  Active* next = nullptr;
  for (const auto& [number, one] : active_)
    if (!one->runs() && (next == nullptr || turn_of(*one) < turn_of(*next))) next = one.get();
  return next;
}

void BatchEngine::step(Active& active, WallTime now) {
  for (const auto& [number, one] : active_)
    active.stepped_at = std::max(active.stepped_at, one->stepped_at + 1);
  if (!active.read)
    step_input(active, now);
  else
    step_output(active, now);
}

void BatchEngine::step_input(Active& active, WallTime now) {
  StoredBatch& batch = active.batch;
  try {
    if (!active.reader) {
      active.lines.clear();
      active.input = std::make_unique<File>(store_.open_bytes(batch.input_file));
      active.reader = std::make_unique<InputReader>(*this, batch, active.input->get(),
                                                    settings_.*batch_api_of(*batch.api).lines_max);
    }
    if (active.reader->step(active.lines) == Stage::more) return;
  } catch (const std::exception& error) {
    fault_ = error.what();
    batch.errors =
        faults_document({{.code = "file_unreadable",
                          .message = "the gateway cannot read the input any more; its log says why"}});
    end(active, BatchState::failed, now);
    return;
  }
  const InputReader& reader = *active.reader;
  if (batch.state == BatchState::validating && !reader.faults.empty()) {
    batch.errors = faults_document(reader.faults);
    end(active, BatchState::failed, now);
    return;
  }
  if (batch.state == BatchState::validating) {
    batch.state = BatchState::in_progress;
    batch.in_progress_at = ms_of(now);
    batch.lines = static_cast<std::int64_t>(active.lines.size());
    batch.model = reader.model;
    active.changed = true;
  }
  BatchStore::Answered answered =
      store_.answered(batch.number, static_cast<std::uint32_t>(active.lines.size()));
  batch.succeeded = answered.succeeded;
  batch.failed = answered.failed;
  active.reader.reset();
  active.read = true;
  if (batch.state == BatchState::finalizing) return;
  runner_.add({.number = batch.number,
               .caller = batch.owner.empty() ? batch.client : batch.owner,
               .done = std::move(answered.lines),
               .started_to = static_cast<std::uint32_t>(batch.started_to),
               .deadline = time_of(batch.deadline),
               .cancelling = batch.cancelling_at != 0});
}

void BatchEngine::step_output(Active& active, WallTime now) {
  StoredBatch& batch = active.batch;
  if (!active.writer) active.writer = std::make_unique<OutputWriter>(store_);
  OutputWriter& writer = *active.writer;
  std::size_t bytes = 0;
  bool all = true;
  const bool is_apart = batch_api_of(*batch.api).has_files;
  try {
    store_.read_answers(batch.number, writer.next,
                        [&](std::uint32_t line, LineOutcome outcome, std::string_view text) {
                          all = give_up_to(active, line, bytes);
                          if (!all) return false;
                          const bool good = !is_apart || outcome == LineOutcome::succeeded;
                          writer.write(good ? writer.good : writer.bad, text);
                          writer.next = line + 1;
                          bytes += text.size();
                          all = bytes < kSliceBytes;
                          return all;
                        });
    if (!all || !give_up_to(active, static_cast<std::uint32_t>(batch.lines), bytes)) return;
    end(active,
        batch.cancelling_at != 0 ? BatchState::cancelled
        : writer.given_up > 0    ? BatchState::expired
                                 : BatchState::completed,
        now);
  } catch (...) {
    active.writer.reset();  // it starts again from the beginning
    throw;
  }
}

/// Writes the lines before `line` that have no answer; false: the turn's bound is reached.
bool BatchEngine::give_up_to(Active& active, std::uint32_t line, std::size_t& bytes) {
  OutputWriter& writer = *active.writer;
  const StoredBatch& batch = active.batch;
  const bool is_apart = batch_api_of(*batch.api).has_files;
  const GivenUp why = batch.cancelling_at != 0 ? GivenUp::cancelled : GivenUp::expired;
  for (; writer.next < line; ++writer.next) {
    if (bytes >= kSliceBytes) return false;
    const std::string_view text = read_line(active, writer.next);
    bytes += text.size();
    const auto request = read_batch_line(*batch.api, batch.endpoint, text);
    const LineName name{.api = batch.api,
                        .batch_id = batch.id,
                        .line = writer.next,
                        .custom_id = request ? std::string_view(request->custom_id) : std::string_view()};
    writer.write(is_apart ? writer.bad : writer.good, given_up_line(name, why));
    ++writer.given_up;
  }
  return true;
}

void BatchEngine::end(Active& active, BatchState state, WallTime now) {
  StoredBatch row = active.batch;
  const std::int64_t at = ms_of(now);
  row.state = state;
  row.ended_at = at;
  row.expires_at = at + settings_.keep.count();
  const std::int64_t lifetime = row.output_lifetime_ms != 0 ? row.output_lifetime_ms : settings_.keep.count();

  const bool is_hidden = !batch_api_of(*row.api).has_files;
  OutputWriter* const writer = active.writer.get();
  const auto finish = [&](OutputWriter::Output& output, std::string_view what) {
    if (!output.writing) return StoredFile{};
    output.writing->sync();
    return StoredFile{.id = output.id,
                      .owner = row.owner,
                      .purpose = "batch_output",
                      .filename = row.id + "_" + std::string(what) + ".jsonl",
                      .bytes = output.writing->bytes(),
                      .created_at = at,
                      .expires_at = at + lifetime,
                      .hidden = is_hidden};
  };
  StoredFile files[] = {writer ? finish(writer->good, "output") : StoredFile{},
                        writer ? finish(writer->bad, "error") : StoredFile{}};
  row.output_file = files[0].id;
  row.error_file = files[1].id;
  row.given_up = writer ? writer->given_up : 0;

  // The input that no caller can ask for is deleted with the batch's end.
  const bool drops_input = is_hidden;
  store_.transaction([&] {
    for (StoredFile& file : files)
      if (!file.id.empty()) store_.add_file(file);
    if (drops_input) store_.remove_file(row.input_file);
    store_.update_batch(row);
  });
  if (writer != nullptr) writer->keep();
  if (drops_input) store_.drop_bytes(row.input_file);
  answers_left_ = true;
  active_.erase(row.number);
}

void BatchEngine::sweep(WallTime now) {
  const bool due = now >= next_sweep_;
  if (!due && !answers_left_) return;
  std::vector<std::string> dropped;
  store_.transaction([&] {
    answers_left_ = answers_left_ && store_.remove_old_answers(kOldAnswersMax);
    if (!due) return;
    for (const StoredBatch& batch : store_.expired_batches(ms_of(now), kSweepMax))
      store_.remove_batch(batch.number);
    dropped = store_.expired_files(ms_of(now), kSweepMax);
    for (const std::string& id : dropped)
      store_.remove_file(id);
  });
  for (const std::string& id : dropped)
    store_.drop_bytes(id);
  if (due) next_sweep_ = now + kSweepEvery;
}

}  // namespace lanemq::gateway
