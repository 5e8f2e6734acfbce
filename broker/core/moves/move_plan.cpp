// SPDX-License-Identifier: Apache-2.0
#include "broker/core/moves/move_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <lanemq/text.hpp>

#include "broker/core/budgets/budgets.hpp"
#include "broker/core/jobs/job_table.hpp"
#include "broker/core/life/groups.hpp"
#include "broker/core/life/journal.hpp"

namespace lanemq::core {
namespace {

tl::unexpected<Error> unreadable_row(const char* what, std::uint64_t number, const Error& why) {
  return failure(ErrorCode::internal,
                 std::string(what) + ' ' + std::to_string(number) + " cannot be read: " + why.message);
}

tl::unexpected<Error> unreadable_note(std::string_view name, const std::string& why) {
  return failure(ErrorCode::internal, "note \"" + printable(name) + "\" cannot be read: " + why);
}

std::int64_t shifted(std::int64_t us, Duration by) {
  return us == 0 ? 0 : us + by.count();  // 0: it has no such time
}

std::string named(const char* what, std::string_view name) {
  return std::string(what) + " \"" + printable(name) + '"';
}

}  // namespace

// ---- what goes ----------------------------------------------------------------------------------------

Result<void> MovePlan::source_note(std::string_view name, std::string_view record) {
  const bool of_group = name.starts_with(Journal::kGroup);
  if (name.starts_with(Journal::kBudget) || name.starts_with(Journal::kBudgetAccount))
    budgets_.emplace(name, record);
  if (!of_group && name != Journal::kSeed) return {};
  auto entries = decoder_.entries(record);
  if (!entries) return unreadable_note(name, entries.error().message);
  if (of_group) {
    const std::string_view group = name.substr(Journal::kGroup.size());
    groups_.take_note(group, record,
                      filter_.has_name(group) || filter_.has_client(Groups::client_in(*entries)));
    return {};
  }
  if (entries->empty()) return unreadable_note(name, "it is empty");
  stores_.source = static_cast<std::uint64_t>(entries->front().numbers.next());
  return {};
}

Result<void> MovePlan::source_job(std::uint64_t number, std::string_view state_bytes,
                                  std::string_view record) {
  History history;
  const auto state = decoder_.state(state_bytes, 0, history);
  if (!state) return unreadable_row("job", number, state.error());
  const bool dead = state->kind == StoredState::Kind::dead;
  const bool runs = state->kind == StoredState::Kind::running;
  const std::uint64_t arrival = state->arrival & Job::kArrivalMax;
  const auto fields = decoder_.submit(record);
  if (!fields) return unreadable_row("job", number, fields.error());
  const bool goes = filter_.has(*fields);
  if (!fields->group.empty() && !dead) groups_.take_job(fields->group, goes);
  if (!goes) return {};
  place(filter_.shard_of(*fields), fields->id, fields->service);
  if (runs) ++counts_.running;
  ++(dead ? counts_.dead : counts_.jobs);
  jobs_.push_back({.number = number, .arrival = arrival});
  ids_.emplace(fields->id);
  return {};
}

Result<void> MovePlan::source_result(std::uint64_t number, std::string_view record) {
  std::unique_ptr<Ending> ending;
  const auto result = decoder_.result(record, ending);
  if (!result) return unreadable_row("result", number, result.error());
  // The result of a dead job goes where that goes.
  if (result->dead ? find(jobs_, number) == nullptr : !filter_.has(*result)) return {};
  if (!result->dead) place(filter_.shard_of(*result), result->id, result->service);
  if (!result->dead) ++counts_.results;
  results_.push_back({.number = number});
  ids_.emplace(result->id);
  return {};
}

void MovePlan::place(const Shard* shard, std::string_view id, std::string_view service) {
  if (shard == nullptr) return;
  Placed& placed = placed_[shard->name];
  if (placed.count++ > 0) return;
  placed.first = id;
  placed.service = service;
}

Result<void> MovePlan::source_ends() {
  if (counts_.running > 0)
    return failure(
        ErrorCode::conflict,
        std::to_string(counts_.running) + " jobs of " + filter_.text() +
            " run, and their workers would hand in where they came from. Pause its clients (lanemq "
            "pause client NAME) until none runs, or let the broker's end wait for them "
            "(drain_timeout), and say it again. Nothing was moved");
  if (const std::string_view torn = groups_.torn(); !torn.empty())
    return failure(ErrorCode::conflict,
                   named("group", torn) + " has jobs of " + filter_.text() +
                       " and others, and can be counted in one place alone; wait until it is over, or cancel "
                       "its jobs, and say it again. Nothing was moved");
  return {};
}

// ---- what is there already ----------------------------------------------------------------------------

void MovePlan::take_conflict(std::string conflict) {
  if (conflict_.empty()) conflict_ = std::move(conflict);
}

Result<void> MovePlan::target_note(std::string_view name, std::string_view record) {
  if (name.starts_with(Journal::kGroup)) {
    const std::string_view group = name.substr(Journal::kGroup.size());
    if (groups_.goes(group)) take_conflict(named("group", group));
  } else if (name.starts_with(Journal::kBudget) || name.starts_with(Journal::kBudgetAccount)) {
    if (const auto known = budgets_.find(name); known != budgets_.end()) budgets_.erase(known);
  } else if (name == Journal::kSeed || name == Journal::kNumbers) {
    auto entries = decoder_.entries(record);
    if (!entries || entries->empty())
      return unreadable_note(name, entries ? "it is empty" : entries.error().message);
    const auto number = static_cast<std::uint64_t>(entries->front().numbers.next());
    if (name == Journal::kNumbers)
      numbers_.take_generation(number);
    else
      stores_.target = number;
  }
  return {};
}

Result<void> MovePlan::target_job(std::uint64_t number, std::string_view state_bytes,
                                  std::string_view record) {
  History history;
  const auto state = decoder_.state(state_bytes, 0, history);
  if (!state) return unreadable_row("job", number, state.error());
  const bool dead = state->kind == StoredState::Kind::dead;
  numbers_.take_row(number);
  numbers_.take_arrival(state->arrival & Job::kArrivalMax);
  const auto fields = decoder_.submit(record);
  if (!fields) return unreadable_row("job", number, fields.error());
  if (!dead && groups_.goes(fields->group)) take_conflict(named("group", fields->group));
  if (filter_.has(*fields)) ++counts_.there;
  if (ids_.contains(fields->id)) take_conflict(named("id", fields->id));
  return {};
}

Result<void> MovePlan::target_result(std::uint64_t number, std::string_view record) {
  std::unique_ptr<Ending> ending;
  const auto result = decoder_.result(record, ending);
  if (!result) return unreadable_row("result", number, result.error());
  numbers_.take_row(number);
  if (!result->dead && filter_.has(*result)) ++counts_.there;
  if (ids_.contains(result->id)) take_conflict(named("id", result->id));
  return {};
}

Result<void> MovePlan::of_shard(std::string_view targets) const {
  for (const auto& [shard, placed] : placed_)
    if (shard != targets)
      return failure(ErrorCode::conflict,
                     std::to_string(placed.count) + " of the jobs and results of " + filter_.text() +
                         " belong to " + named("shard", shard) + " by the rules, such as " +
                         named("id", placed.first) + " of " + named("service", placed.service) +
                         ", and the store to move to has those of " + named("shard", targets) +
                         "; move them to their own first, or mend the rules. Nothing was moved");
  return {};
}

Result<void> MovePlan::settle(Duration shift, std::size_t rows_max) {
  if (!stores_.target)
    return failure(
        ErrorCode::conflict,
        "no broker has served the store to move to yet; start the one that is to, stop it, and say "
        "it again. Nothing was moved");
  if (!conflict_.empty())
    return failure(ErrorCode::conflict,
                   "the store to move to has " + conflict_ +
                       " already, which would come; let one of the two end and be forgotten, and say it "
                       "again. Nothing was moved");
  const std::size_t rows = numbers_.rows() + jobs_.size() + static_cast<std::size_t>(counts_.results);
  if (const std::size_t room = std::min(rows_max, JobTable::kPlacesMax); rows > room)
    return failure(ErrorCode::conflict,
                   "the store to move to would have " + std::to_string(rows) +
                       " jobs and results, and its broker may have " + std::to_string(room) +
                       " (jobs_max); raise it for that one and here (--set jobs_max=...). Nothing was moved");
  if (!numbers_.begin()) return failure(ErrorCode::internal, "the store to move to has no numbers left");
  stores_.shift = shift;
  number_rows();
  order_arrivals();
  counts_.budgets = budgets_.size();
  counts_.groups = groups_.notes().size();
  return {};
}

/// Later numbers stay later. The result of a dead job has the job's.
void MovePlan::number_rows() {
  auto job = jobs_.begin();
  auto result = results_.begin();
  while (job != jobs_.end() || result != results_.end()) {
    const bool is_job = job != jobs_.end() && (result == results_.end() || job->number <= result->number);
    const bool is_result = result != results_.end() && (job == jobs_.end() || result->number <= job->number);
    const std::uint64_t number = numbers_.next_number();
    if (is_job) (job++)->number_there = number;
    if (is_result) (result++)->number_there = number;
  }
}

void MovePlan::order_arrivals() {
  std::vector<std::size_t> order(jobs_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return jobs_[a].arrival < jobs_[b].arrival; });
  for (const std::size_t at : order)
    jobs_[at].arrival_there = numbers_.next_arrival();
}

// ---- what becomes of it -------------------------------------------------------------------------------

const MovePlan::Row* MovePlan::find(const std::vector<Row>& rows, std::uint64_t number) {
  const auto row = std::lower_bound(rows.begin(), rows.end(), number,
                                    [](const Row& one, std::uint64_t than) { return one.number < than; });
  return row == rows.end() || row->number != number ? nullptr : &*row;
}

std::optional<std::uint64_t> MovePlan::there(const std::vector<Row>& rows, std::uint64_t number) {
  const Row* const row = find(rows, number);
  return row == nullptr ? std::nullopt : std::optional(row->number_there);
}

std::vector<std::uint64_t> MovePlan::numbers_of(const std::vector<Row>& rows) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(rows.size());
  for (const Row& row : rows)
    numbers.push_back(row.number);
  return numbers;
}

/// Each store hashes bodies with a seed of its own. A hash that is of another body than the stored one, or of
/// one that is not kept, cannot be made anew.
std::uint64_t MovePlan::hash_there(std::uint64_t hash, std::string_view body) const {
  if (hash == 0 || stores_.source == stores_.target) return hash;
  if (!stores_.source || Journal::hash_of(body, *stores_.source) != hash) return kHashNotKnown;
  return Journal::hash_of(body, *stores_.target);
}

Result<void> MovePlan::write_state(std::uint64_t number, std::string_view state_bytes, std::string_view body,
                                   Buffer& out) {
  History history;
  auto state = decoder_.state(state_bytes, 0, history);
  if (!state) return unreadable_row("job", number, state.error());
  state->arrival = find(jobs_, number)->arrival_there;
  for (std::int64_t* const time : {&state->accepted_us, &state->deadline_us, &state->due_us})
    *time = shifted(*time, stores_.shift);
  state->body_hash = hash_there(state->body_hash, body);
  write(*state, history, stores_.shift.count(), out);
  return {};
}

Result<void> MovePlan::write_result(std::string_view record, Buffer& out) {
  std::unique_ptr<Ending> ending;
  auto result = decoder_.result(record, ending);
  if (!result) return tl::unexpected(std::move(result.error()));
  result->due_us = shifted(result->due_us, stores_.shift);
  result->ended_us = shifted(result->ended_us, stores_.shift);
  // Its submit's body is gone.
  if (stores_.source != stores_.target && result->body_hash != 0) result->body_hash = kHashNotKnown;
  write(*result, ending.get(), out);
  return {};
}

Result<std::vector<MovePlan::Note>> MovePlan::notes() {
  std::vector<Note> notes;
  const auto add = [&](const std::string& name, const std::string& record,
                       const auto& shift) -> Result<void> {
    auto entries = decoder_.entries(record);
    if (!entries) return unreadable_note(name, entries.error().message);
    shift(*entries, stores_.shift);
    Buffer bytes;
    write(*entries, bytes);
    notes.push_back({.name = name, .record = std::string(bytes.view())});
    return {};
  };
  for (const auto& [group, record] : groups_.notes())
    if (auto added = add(std::string(Journal::kGroup) + group, record, Groups::shift); !added)
      return tl::unexpected(std::move(added.error()));
  for (const auto& [name, record] : budgets_)
    if (auto added = add(name, record, shift_history); !added)
      return tl::unexpected(std::move(added.error()));
  return notes;
}

std::vector<std::string> MovePlan::notes_leaving() const {
  std::vector<std::string> names;
  for (const auto& [group, record] : groups_.notes())
    names.push_back(std::string(Journal::kGroup) + group);
  return names;
}

}  // namespace lanemq::core
