// SPDX-License-Identifier: Apache-2.0
#include "broker/io/offline/store_move.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/core/base/check.hpp"
#include "broker/core/jobs/job_table.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/io/base/failpoint.hpp"
#include "broker/io/offline/store_alone.hpp"
#include "broker/io/store/move_note.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "broker/io/store/restore.hpp"
#include "broker/io/store/shard_note.hpp"

namespace lanemq::io {
namespace {

using core::MovePlan;
using core::Write;

/// Rows and names of notes in one part of the source's note. A part's rows are erased in one turn with it, so
/// it must fit into a turn.
constexpr std::size_t kPartRows = 4096, kPartNotes = 512;
static_assert(kPartRows * sizeof(Write) < StoreWriter::kTurnBytesMax / 2);
/// Entries of a part.
constexpr std::string_view kJobs = "jobs", kResults = "results", kNote = "note ";

using Records = std::map<std::string, std::string, std::less<>>;  ///< of notes, by name

tl::unexpected<Error> refused(std::string why) {
  return failure(ErrorCode::conflict, std::move(why) + ". Nothing was moved");
}

std::string fresh_id() {
  std::random_device random;
  const auto id = std::uint64_t{random()} << 32 | random();
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, id);
  return text;
}

/// `"acme"`, `"acme" or "audio"`.
std::string any_of_these(const std::vector<std::string>& shards) {
  std::string text;
  for (const std::string& shard : shards)
    text += (text.empty() ? "\"" : " or \"") + shard + '"';
  return text;
}

std::string place_of(const StoreOptions& options) {
  if (const auto path = path_of_store(options)) return "sqlite:" + *path;
  return options.specification + " (schema " + options.schema + ")";
}

/// The store's clock, as far as its note tells it.
class StoreClock {
 public:
  explicit StoreClock(ClockReading now) : now_(now), us_(now.unix_us) {}
  Result<void> take(std::string_view record) {
    const auto note = clock_note(record);
    if (!note) return tl::unexpected(note.error());
    us_ = stored_us(*note, now_);
    return {};
  }
  std::int64_t us() const { return us_; }

 private:
  ClockReading now_;
  std::int64_t us_;
};

/// Remembers the shard that a store notes; false: this is another note.
Result<bool> take_shard(std::string_view name, std::string_view record, std::string& shard) {
  if (name != kShardNote) return false;
  auto noted = shard_note(record);
  if (!noted) return tl::unexpected(std::move(noted.error()));
  shard = std::move(*noted);
  return true;
}

/// Reads the source for the plan.
class SourceReader final : public StoreReader {
 public:
  SourceReader(MovePlan& plan, ClockReading now) : clock(now), plan_(plan) {}

  Result<void> note(std::string_view name, std::string_view record) override {
    if (name == kClockNote) return clock.take(record);
    if (is_part(MoveSide::source, name)) {
      parts.emplace(name, record);
      return {};
    }
    auto own = move_note(MoveSide::source, name, record);
    if (!own) return tl::unexpected(std::move(own.error()));
    if (*own) {
      decided = std::move(*own);
      return {};
    }
    if (auto why = why_not_served(name, record)) return refused(std::move(*why));
    const auto taken = take_shard(name, record, shard);
    if (!taken) return tl::unexpected(taken.error());
    return *taken ? Result<void>() : plan_.source_note(name, record);
  }
  Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                   std::optional<std::string_view>, std::size_t) override {
    return decided ? Result<void>() : plan_.source_job(number, state, record);
  }
  Result<void> result(std::uint64_t number, std::string_view record, std::optional<std::string_view>,
                      std::size_t) override {
    return decided ? Result<void>() : plan_.source_result(number, record);
  }

  StoreClock clock;
  std::optional<MoveNote> decided;  ///< of a move that has to come to its end
  Records parts;
  std::string shard;  ///< that the store notes; empty: none

 private:
  MovePlan& plan_;
};

/// Reads the target for the plan, and finds what an earlier try from the same source has left there.
class TargetReader final : public StoreReader {
 public:
  /// `plan`: null where nothing is to be planned any more.
  TargetReader(MovePlan* plan, std::uint64_t source, ClockReading now)
      : clock(now), plan_(plan), source_(source) {}

  Result<void> note(std::string_view name, std::string_view record) override {
    if (name == kClockNote) return clock.take(record);
    if (is_part(MoveSide::target, name)) {
      parts.emplace(name, record);
      return {};
    }
    auto coming = move_note(MoveSide::target, name, record);
    if (!coming) return tl::unexpected(std::move(coming.error()));
    if (*coming && (*coming)->source == source_) {
      moves.push_back(std::move(**coming));
      return {};
    }
    if (auto why = why_not_served(name, record)) return refused(std::move(*why));
    const auto taken = take_shard(name, record, shard);
    if (!taken) return tl::unexpected(taken.error());
    return plan_ != nullptr && !*taken ? plan_->target_note(name, record) : Result<void>();
  }
  Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                   std::optional<std::string_view>, std::size_t) override {
    if (is_left(number)) return left_jobs.push_back(number), Result<void>();
    return plan_ != nullptr ? plan_->target_job(number, state, record) : Result<void>();
  }
  Result<void> result(std::uint64_t number, std::string_view record, std::optional<std::string_view>,
                      std::size_t) override {
    if (is_left(number)) return left_results.push_back(number), Result<void>();
    return plan_ != nullptr ? plan_->target_result(number, record) : Result<void>();
  }

  StoreClock clock;
  std::vector<MoveNote> moves;                         ///< from the same source, arrived or not
  Records parts;                                       ///< of all moves
  std::string shard;                                   ///< that the store notes; empty: none
  std::vector<std::uint64_t> left_jobs, left_results;  ///< of those that have not arrived

 private:
  bool is_left(std::uint64_t number) const {
    const std::uint64_t generation = core::JobTable::generation_of(core::JobNumber{number});
    return std::any_of(moves.begin(), moves.end(),
                       [&](const MoveNote& move) { return !move.arrived && move.generation == generation; });
  }

  MovePlan* plan_;
  std::uint64_t source_;
};

/// Passes the rows that go on to the target.
class RowMover final : public StoreReader {
 public:
  RowMover(MovePlan& plan, StoreWriter& writer) : plan_(plan), writer_(writer) {}

  Result<void> note(std::string_view, std::string_view) override { return {}; }
  Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                   std::optional<std::string_view> body, std::size_t) override {
    if (!plan_.job_there(number)) return {};
    if (body) return write_job({number, std::string(state), std::string(record)}, Blob::borrow(*body));
    jobs_.push_back({number, std::string(state), std::string(record)});
    return {};
  }
  Result<void> result(std::uint64_t number, std::string_view record, std::optional<std::string_view> body,
                      std::size_t) override {
    if (!plan_.result_there(number)) return {};
    if (body) return write_result({number, {}, std::string(record)}, Blob::borrow(*body));
    results_.push_back({number, {}, std::string(record)});
    return {};
  }
  /// Reads the bodies that were left in the source, and passes their rows on.
  Result<void> move_large(Store& source) {
    return read_bodies_left(source, numbers_of(jobs_), false,
                            [&](std::size_t i, const Blob& body) { return write_job(jobs_[i], body); })
        .and_then([&] {
          return read_bodies_left(source, numbers_of(results_), true, [&](std::size_t i, const Blob& body) {
            return write_result(results_[i], body);
          });
        });
  }

 private:
  struct Row {
    std::uint64_t number = 0;
    std::string state, record;
  };

  static std::vector<std::uint64_t> numbers_of(const std::vector<Row>& rows) {
    std::vector<std::uint64_t> numbers;
    for (const Row& row : rows)
      numbers.push_back(row.number);
    return numbers;
  }
  Result<void> write_job(const Row& row, const Blob& body) {
    changed_.clear();
    if (auto written = plan_.write_state(row.number, row.state, body.bytes(), changed_); !written)
      return written;
    return writer_.add(Write::Kind::insert_job, *plan_.job_there(row.number), changed_.view(), row.record,
                       body);
  }
  Result<void> write_result(const Row& row, const Blob& body) {
    changed_.clear();
    if (auto written = plan_.write_result(row.record, changed_); !written) return written;
    return writer_.add(Write::Kind::insert_result, *plan_.result_there(row.number), {}, changed_.view(),
                       body);
  }

  MovePlan& plan_;
  StoreWriter& writer_;
  Buffer changed_;
  std::vector<Row> jobs_, results_;
};

/// One move, step by step: each step is committed before the next one begins.
class Move {
 public:
  Move(const MoveOrder& order, Store& source, Store& target)
      : order_(order), source_(source), target_(target), out_(source), in_(target), plan_(order.scope) {}

  Result<MoveSummary> run() {
    const auto source_clock = clock_of(source_), target_clock = clock_of(target_);
    if (!source_clock) return tl::unexpected(source_clock.error());
    if (!target_clock) return tl::unexpected(target_clock.error());
    SourceReader from(plan_, *source_clock);
    if (auto read = source_.load(from); !read) return tl::unexpected(std::move(read.error()));
    if (from.decided) return go_on(from, *target_clock);
    return begin(from, *target_clock);
  }

 private:
  Result<MoveSummary> begin(const SourceReader& from, ClockReading target_clock);
  Result<MoveSummary> go_on(SourceReader& from, ClockReading target_clock);
  Result<void> check_shards(const SourceReader& from, const TargetReader& to) const;
  Result<MoveSummary> nothing(const TargetReader& to) const;
  Result<void> discard(const TargetReader& to);
  Result<void> erase_left(const TargetReader& to);
  Result<void> mark_target(const TargetReader& to);
  Result<void> bring_rows();
  Result<void> decide(const Records& old_parts);
  Result<void> add_parts(std::string_view kind, const std::vector<std::uint64_t>& numbers);
  Result<void> add_part(const std::vector<core::StoredEntry>& entries);
  Result<void> arrive();
  Result<void> leave();
  Result<void> leave(const std::string& name, const std::string& record);
  Result<void> forget();

  const MoveOrder& order_;
  Store& source_;
  Store& target_;
  StoreWriter out_, in_;
  MovePlan plan_;
  MoveNote note_;
  Records staged_;                    ///< notes that the target is to have, by their names there
  Records parts_;                     ///< of the source's note
  std::vector<std::string> arrived_;  ///< ids of moves of which the target still has a note
};

Result<MoveSummary> Move::begin(const SourceReader& from, ClockReading target_clock) {
  auto may = plan_.source_ends();
  TargetReader to(may ? &plan_ : nullptr, plan_.source_mark(), target_clock);
  if (auto read = target_.load(to); !read) return tl::unexpected(std::move(read.error()));
  for (const MoveNote& move : to.moves)
    if (move.arrived) arrived_.push_back(move.id);
  if (may) may = check_shards(from, to);
  if (may) may = plan_.settle(core::Duration(to.clock.us() - from.clock.us()), order_.rows_max);
  const MovePlan::Counts& counts = plan_.counts();
  const bool has_none = counts.jobs + counts.dead + counts.results + counts.groups == 0;
  if (!may || has_none) {
    if (auto done = discard(to).and_then([&] { return forget(); }); !done)
      return tl::unexpected(std::move(done.error()));
    if (!may) return tl::unexpected(std::move(may.error()));
    return nothing(to);
  }
  note_ = {.id = fresh_id(),
           .what = order_.what,
           .from = place_of(order_.from),
           .to = place_of(order_.to),
           .command = order_.command,
           .source = plan_.source_mark(),
           .generation = plan_.generation(),
           .counts = {}};
  for (const std::uint64_t count : {counts.jobs, counts.dead, counts.results, counts.groups, counts.budgets})
    note_.counts.push_back(static_cast<std::int64_t>(count));
  auto notes = plan_.notes();
  if (!notes) return tl::unexpected(std::move(notes.error()));
  for (MovePlan::Note& note : *notes)
    staged_.emplace(std::move(note.name), std::move(note.record));
  auto done = mark_target(to)
                  .and_then([&] { return bring_rows(); })
                  .and_then([&] { return decide(from.parts); })
                  .and_then([&] { return arrive(); })
                  .and_then([&] { return leave(); })
                  .and_then([&] { return forget(); });
  if (!done) return tl::unexpected(std::move(done.error()));
  return MoveSummary{.counts = counts};
}

/// A job that is at another shard than the rules say runs there, and where it is submitted again runs twice.
Result<void> Move::check_shards(const SourceReader& from, const TargetReader& to) const {
  if (!order_.shard.empty() && !from.shard.empty() && order_.shard != from.shard)
    return refused("the store to move from has the jobs of shard \"" + from.shard +
                   "\", and --shard says \"" + order_.shard + "\"; say --shard " + from.shard +
                   ", or name the other one's store with --store or --store-schema");
  if (to.shard.empty() || order_.shards.empty()) return {};
  if (std::find(order_.shards.begin(), order_.shards.end(), to.shard) == order_.shards.end())
    return refused("by the rules of the configuration the jobs of " + order_.what + " belong to shard " +
                   any_of_these(order_.shards) + ", and the store to move to has those of shard \"" +
                   to.shard +
                   "\"; write the new rules into the file of --config, or name the other store with --to");
  return plan_.of_shard(to.shard);
}

/// The result where no row moves: rows that moved before are no mistake, a name that nothing has is one.
Result<MoveSummary> Move::nothing(const TargetReader& to) const {
  const bool gone =
      plan_.counts().there > 0 || std::any_of(to.moves.begin(), to.moves.end(), [&](const MoveNote& move) {
        return move.arrived && move.what == order_.what;
      });
  if (gone) return MoveSummary{.counts = {.there = plan_.counts().there}};
  return failure(ErrorCode::bad_request,
                 "the store " + place_of(order_.from) + " has nothing of " + order_.what +
                     ", and neither has the store to move to; look at " + "the name. Nothing was moved");
}

/// The move was decided: what was to go is in the target, and the source knows what that is.
Result<MoveSummary> Move::go_on(SourceReader& from, ClockReading target_clock) {
  note_ = std::move(*from.decided);
  parts_ = std::move(from.parts);
  const auto other = [&](const std::string& why) {
    return failure(ErrorCode::conflict, "a move of " + note_.what + " to " + note_.to + " was decided, and " +
                                            why + "; say first: " + note_.command);
  };
  if (note_.what != order_.what) return other("has to come to its end before that of " + order_.what);
  TargetReader to(nullptr, note_.source, target_clock);
  if (auto read = target_.load(to); !read) return tl::unexpected(std::move(read.error()));
  const auto known = std::find_if(to.moves.begin(), to.moves.end(),
                                  [&](const MoveNote& move) { return move.id == note_.id; });
  if (known == to.moves.end()) return other(place_of(order_.to) + " knows nothing of it");
  note_ = std::move(*known);
  for (auto& [name, record] : to.parts)
    if (const std::string begins = part_name(MoveSide::target, note_.id, ""); name.starts_with(begins))
      staged_.emplace(name.substr(begins.size()), std::move(record));
  auto done = (note_.arrived ? Result<void>() : arrive()).and_then([&] { return leave(); }).and_then([&] {
    return forget();
  });
  if (!done) return tl::unexpected(std::move(done.error()));
  MoveSummary summary{.counts = {}, .went_on = true};
  core::StoredNumbers counts(note_.counts);
  for (std::uint64_t* const count : {&summary.counts.jobs, &summary.counts.dead, &summary.counts.results,
                                     &summary.counts.groups, &summary.counts.budgets})
    *count = static_cast<std::uint64_t>(counts.next());
  return summary;
}

/// Erases the rows and staged notes of tries that were not decided.
Result<void> Move::erase_left(const TargetReader& to) {
  for (const std::uint64_t number : to.left_jobs)
    if (auto done = in_.add(Write::Kind::erase_job, number, {}, {}, {}); !done) return done;
  for (const std::uint64_t number : to.left_results)
    if (auto done = in_.add(Write::Kind::erase_result, number, {}, {}, {}); !done) return done;
  for (const auto& [name, record] : to.parts)
    if (auto done = in_.erase_note(name); !done) return done;
  return {};
}

/// Lets brokers serve the target again.
Result<void> Move::discard(const TargetReader& to) {
  if (auto done = erase_left(to); !done) return done;
  for (const MoveNote& move : to.moves)
    if (!move.arrived)
      if (auto done = in_.erase_note(name_of(MoveSide::target, move.id)); !done) return done;
  return in_.end();
}

/// Keeps brokers from the target, and reserves the numbers of what comes.
Result<void> Move::mark_target(const TargetReader& to) {
  if (auto done = erase_left(to); !done) return done;
  if (auto done = in_.put_note(name_of(MoveSide::target, note_.id), record_of(note_)); !done) return done;
  for (const MoveNote& move : to.moves)
    if (!move.arrived)
      if (auto done = in_.erase_note(name_of(MoveSide::target, move.id)); !done) return done;
  core::Writes numbers;
  core::Journal::write_numbers(note_.generation, numbers);
  if (auto done = in_.put_note(core::Journal::kNumbers, numbers.record(numbers[0])); !done) return done;
  for (const auto& [name, record] : staged_)
    if (auto done = in_.put_note(part_name(MoveSide::target, note_.id, name), record); !done) return done;
  if (auto done = in_.end(); !done) return done;
  reached(Failpoint::move_begun);
  return {};
}

Result<void> Move::bring_rows() {
  RowMover rows(plan_, in_);
  auto done = source_.load(rows).and_then([&] { return rows.move_large(source_); }).and_then([&] {
    return in_.end();
  });
  if (!done) return done;
  reached(Failpoint::move_rows_in);
  return {};
}

/// From here on the move comes to its end: the source's rows do not count any more. The note itself comes
/// last, so that its parts are there.
Result<void> Move::decide(const Records& old_parts) {
  for (const auto& [name, record] : old_parts)
    if (auto done = out_.erase_note(name); !done) return done;
  std::vector<core::StoredEntry> names;
  const auto add_names = [&] { return names.empty() ? Result<void>() : add_part(std::exchange(names, {})); };
  auto done = add_parts(kJobs, plan_.jobs()).and_then([&] { return add_parts(kResults, plan_.results()); });
  if (!done) return done;
  for (const std::string& name : plan_.notes_leaving()) {
    names.push_back({.name = std::string(kNote) + name, .numbers = core::StoredNumbers()});
    if (names.size() < kPartNotes) continue;
    if (done = add_names(); !done) return done;
  }
  done = add_names()
             .and_then([&] { return out_.put_note(name_of(MoveSide::source, note_.id), record_of(note_)); })
             .and_then([&] { return out_.end(); });
  if (!done) return done;
  reached(Failpoint::move_decided);
  return {};
}

Result<void> Move::add_parts(std::string_view kind, const std::vector<std::uint64_t>& numbers) {
  for (std::size_t at = 0; at < numbers.size(); at += kPartRows) {
    core::StoredNumbers part;
    for (std::size_t i = at; i < std::min(at + kPartRows, numbers.size()); ++i)
      part.put(static_cast<std::int64_t>(numbers[i]));
    if (auto done = add_part({{.name = std::string(kind), .numbers = std::move(part)}}); !done) return done;
  }
  return {};
}

Result<void> Move::add_part(const std::vector<core::StoredEntry>& entries) {
  Buffer record;
  core::write(entries, record);
  const std::string name = part_name(MoveSide::source, note_.id, std::to_string(parts_.size()));
  parts_.emplace(name, record.view());
  return out_.put_note(name, record.view());
}

/// Lets brokers serve the target, with what has come.
Result<void> Move::arrive() {
  for (const auto& [name, record] : staged_) {
    if (auto done = in_.put_note(name, record); !done) return done;
    if (auto done = in_.erase_note(part_name(MoveSide::target, note_.id, name)); !done) return done;
  }
  note_.arrived = true;
  auto done =
      in_.put_note(name_of(MoveSide::target, note_.id), record_of(note_)).and_then([&] { return in_.end(); });
  if (!done) return done;
  reached(Failpoint::move_arrived);
  return {};
}

/// Erases what has gone, and lets brokers serve the source. A part goes in the turn of its rows: so each row
/// is erased once, however often this is begun.
Result<void> Move::leave() {
  for (const auto& [name, record] : parts_)
    if (auto done = leave(name, record); !done) return done;
  auto done = out_.erase_note(name_of(MoveSide::source, note_.id)).and_then([&] { return out_.end(); });
  if (!done) return done;
  reached(Failpoint::move_left);
  arrived_.push_back(note_.id);
  return {};
}

Result<void> Move::leave(const std::string& name, const std::string& record) {
  core::StoredDecoder decoder;
  const auto entries = decoder.entries(record);
  if (!entries)
    return failure(ErrorCode::internal, "note \"" + name + "\" cannot be read: " + entries.error().message);
  std::size_t writes = 0;
  const auto erase = [&](Write::Kind kind, std::uint64_t number, std::string_view note) {
    ++writes;
    return out_.add(kind, number, note, {}, {});
  };
  for (const core::StoredEntry& entry : *entries) {
    const Write::Kind kind = entry.name == kJobs ? Write::Kind::erase_job : Write::Kind::erase_result;
    for (const std::int64_t number : entry.numbers.all())
      if (auto done = erase(kind, static_cast<std::uint64_t>(number), {}); !done) return done;
    if (!entry.name.starts_with(kNote)) continue;
    if (auto done = erase(Write::Kind::erase_note, 0, std::string_view(entry.name).substr(kNote.size()));
        !done)
      return done;
  }
  if (auto done = erase(Write::Kind::erase_note, 0, name); !done) return done;
  LANEMQ_CHECK(out_.turn_size() == writes);
  return out_.end_turn();
}

/// The source knows nothing of the move any more, so that nobody asks for it.
Result<void> Move::forget() {
  for (const std::string& id : arrived_)
    if (auto done = in_.erase_note(name_of(MoveSide::target, id)); !done) return done;
  return in_.end();
}

}  // namespace

Result<MoveSummary> move_rows(const MoveOrder& order) {
  const auto from_path = path_of_store(order.from);
  if (from_path ? from_path == path_of_store(order.to)
                : order.from.specification == order.to.specification && order.from.schema == order.to.schema)
    return failure(ErrorCode::bad_request, "jobs cannot be moved to the store that they are in");
  if (auto there = must_be_there(order.from, "move from"); !there) return tl::unexpected(there.error());
  if (auto there = must_be_there(order.to, "move to"); !there)
    return failure(there.error().code,
                   there.error().message + (there.error().code == ErrorCode::bad_request
                                                ? " (--to, --to-schema); where it is to be a new one, start "
                                                  "the broker that is to serve it, stop it, and say it again"
                                                : ""));
  auto source = open_alone(order.from);
  if (!source) return tl::unexpected(std::move(source.error()));
  auto target = open_alone(order.to);
  if (!target) return tl::unexpected(std::move(target.error()));
  if (!(*source)->durable() || !(*target)->durable())
    return failure(ErrorCode::bad_request, "a memory store holds nothing that could be moved");
  return Move(order, **source, **target).run();
}

}  // namespace lanemq::io
