// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/groups.hpp"

#include <algorithm>
#include <array>

#include "broker/core/base/check.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

/// A tenant's part of all groups.
constexpr std::size_t kTenantPart = 4;
/// A group's share of the tables, beside the record and its name.
constexpr std::size_t kGroupTablesBytes = 64;
/// When a submit that found no room for its group may come again.
constexpr Duration kRetryGroupAfter = std::chrono::seconds(1);
/// The entry of a note that has the counts.
constexpr std::string_view kCountsEntry = "counts";
/// Its numbers, of which the last is a time.
constexpr std::size_t kCountsNumbers = 8;
/// Prefix of the entry that names a group's client.
constexpr std::string_view kClientEntry = "client ";

std::size_t bytes_of_group(std::string_view name) {
  return sizeof(Group) + kGroupTablesBytes + name.size();
}

/// The texts of a group's note, each with what its entry begins with.
std::array<std::pair<std::string_view, std::string*>, 3> texts_of(Group& group) {
  return {{{"notify ", &group.notify}, {kClientEntry, &group.client}, {"named ", &group.named_client}}};
}

/// The space that a name stands in, as Identity::space.
std::string_view space_of_name(std::string_view name) {
  return name.substr(0, name.size() - own_name(name).size());
}

std::string quoted(std::string_view name) {
  return "group \"" + std::string(own_name(name)) + '"';
}

}  // namespace

std::size_t Group::bytes() const {
  return bytes_of_group(name) + notify.size() + client.size() + named_client.size();
}

std::optional<Duration> Group::left(TimePoint now) const {
  const std::uint64_t ended = counts.ended(), since = ended - ended_before;
  if (since == 0) return std::nullopt;
  const double share = static_cast<double>(size - std::min(size, ended)) / static_cast<double>(since);
  return std::chrono::duration_cast<Duration>((now - begun_at) * share);
}

const Group* Groups::find(std::string_view name) const {
  const auto place = groups_.find(name);
  return place == groups_.end() ? nullptr : place->second.get();
}

// ---- may a job join -----------------------------------------------------------------------------------

std::optional<Refusal> Groups::why_not(const wire::Submit& fields, bool again) const {
  const std::string_view name = fields.group;
  const Group* const group = find(name);
  if (group == nullptr) return no_room(name);
  const auto stated = static_cast<std::uint64_t>(fields.group_size.value_or(0));
  if (again || begins_anew(*group, stated)) return std::nullopt;
  if (!fields.notify.empty() && !group->notify.empty() && fields.notify != group->notify)
    return bad_request(quoted(name) + " notifies another URL than this job says; say the same, or none");
  if (stated != 0 && group->size != 0 && stated != group->size)
    return bad_request(quoted(name) + " has group_size " + std::to_string(group->size) +
                       ", and this job says " + std::to_string(stated) +
                       "; say the same, or name another group");
  const std::uint64_t most = group->size != 0 ? group->size : stated;
  if (most != 0 && group->jobs() >= most)
    return bad_request(quoted(name) + " has " + std::to_string(group->jobs()) + " jobs, and " +
                       (group->size != 0 ? "its group_size is " : "this job says group_size ") +
                       std::to_string(most) +
                       "; submit this one when the group is over, or in another group");
  return std::nullopt;
}

std::size_t Groups::part_of_tenant() const {
  return std::max<std::size_t>(state_.options.groups_max / kTenantPart, 1);
}

/// Refuses a new group where each group that could make way for it has an open job.
std::optional<Refusal> Groups::no_room(std::string_view name) const {
  const auto refusal = [](ErrorCode code, const std::string& held) {
    return Refusal{code, held + "; submit without \"group\", or when a group is over", kRetryGroupAfter,
                   "groups_max"};
  };
  const std::string_view space = space_of_name(name);
  const auto place = spaces_.find(space);
  if (!space.empty() && place != spaces_.end() && place->second->groups >= part_of_tenant() &&
      place->second->idle.empty())
    return refusal(ErrorCode::client_full, "this tenant has jobs in " + std::to_string(part_of_tenant()) +
                                               " groups, a quarter of what there may be (groups_max)");
  if (groups_.size() >= state_.options.groups_max && idle_.empty())
    return refusal(ErrorCode::bytes_full,
                   "there are jobs in " + std::to_string(groups_.size()) + " groups already (groups_max)");
  return std::nullopt;
}

std::size_t Groups::bytes_of_new(const wire::Submit& fields) const {
  if (const Group* const known = find(fields.group); known != nullptr && !known->over) return 0;
  const std::size_t of_notify = fields.notify.empty() ? 0 : fields.notify.size() + 2 * fields.client.size();
  return bytes_of_group(fields.group) + of_notify;
}

std::optional<std::int64_t> Groups::size_of(const Job& job) const {
  const Group* const group = find(job.text.get(JobText::group));
  if (group == nullptr || group->size == 0) return std::nullopt;
  return static_cast<std::int64_t>(group->size);
}

// ---- what becomes of its jobs -------------------------------------------------------------------------

void Groups::join(const Job& job, std::optional<std::int64_t> size, bool again, TimePoint now) {
  const std::string_view name = job.text.get(JobText::group);
  Group* known = find(name);
  if (known == nullptr) make_way(name, now);
  Group& group = known != nullptr ? *known : make(name);
  const auto stated = static_cast<std::uint64_t>(size.value_or(0));
  if (group.open == 0) wake(group);
  if (begins_anew(group, stated)) {
    // The receiver of the life that stopped also hears of the one that follows. Another receiver would wait
    // for ever.
    const std::string_view url = job.text.get(JobText::notify);
    if (!group.over && !group.notify.empty() && group.notify != url) give_up(group, now);
    begin_anew(group);
  }
  const std::uint64_t before = group.size;
  const bool had_notify = !group.notify.empty();
  if (group.size == 0) group.size = stated;
  // Its first run is one of the jobs that have ended, so it is one more.
  else if (again)
    ++group.size;
  take_notify(group, job);
  group.durable = group.durable || job.durable;
  ++group.open;
  // A job that runs again keeps its old record, which tells of the group as it was then.
  const bool record_is_old = again && job.durable;
  if (group.size != 0 && !group.under_way) note_under_way(group, now);
  const bool changed = group.size != before || had_notify != !group.notify.empty();
  if (record_is_old || (group.note_is_new && changed)) note(group);
}

const Group* Groups::leave(const Job& job, JobState how, bool dead, TimePoint now) {
  Group* const known = find(job.text.get(JobText::group));
  LANEMQ_CHECK(known != nullptr && known->open > 0);
  Group& group = *known;
  --group.open;
  ++(how == JobState::succeeded   ? group.counts.succeeded
     : how == JobState::cancelled ? group.counts.cancelled
     : how == JobState::expired   ? group.counts.expired
                                  : group.counts.failed);
  if (dead) ++group.counts.died;
  group.changed_at = now;
  group.over = is_over(group);
  if (group.over) {
    ++state_.stats.groups_over;
    note_under_way(group, now);
  }
  if (group.open == 0) rest(group);
  if (job.durable || group.note_is_new) note(group);
  return group.over ? &group : nullptr;
}

/// Whether a job begins another life: the last one is over, or was left before it was, as one that stopped
/// and begins again with the jobs that remain says by another size.
bool Groups::begins_anew(const Group& group, std::uint64_t stated) {
  const bool left = group.open == 0 && group.size != 0 && stated != 0 && stated != group.size;
  return group.over || left;
}

/// A life is over when its jobs are: none is open, and as many as it is to have have ended.
bool Groups::is_over(const Group& group) {
  return group.open == 0 && group.counts.ended() > 0 && group.counts.ended() >= group.size;
}

/// Keeps the list of groups that are under way.
void Groups::note_under_way(Group& group, TimePoint now) {
  if (std::exchange(group.under_way, false)) under_way_.remove(group);
  if (group.size == 0 || group.over) return;
  group.under_way = true;
  group.begun_at = now;
  group.ended_before = group.counts.ended();
  under_way_.push_back(group);
}

/// The first URL of a life is the group's.
void Groups::take_notify(Group& group, const Job& job) {
  const std::string_view url = job.text.get(JobText::notify);
  if (url.empty() || !group.notify.empty()) return;
  state_.groups_bytes -= group.bytes();
  group.notify = url;
  group.client = job.queue->client().name;
  group.named_client = job.text.get(JobText::client);
  state_.groups_bytes += group.bytes();
}

void Groups::begin_anew(Group& group) {
  state_.groups_bytes -= group.bytes();
  group.notify.clear();
  group.client.clear();
  group.named_client.clear();
  state_.groups_bytes += group.bytes();
  group.durable = false;
  group.counts = {};
  group.size = 0;
  group.over = group.note_is_new = false;
  note_under_way(group, {});
}

Group& Groups::make(std::string_view name) {
  auto made = std::make_unique<Group>();
  Group& group = *made;
  group.name = name;
  const std::string_view space = space_of_name(group.name);
  const auto place = spaces_.find(space);
  if (place != spaces_.end()) {
    group.space = place->second.get();
  } else {
    auto made_space = std::make_unique<GroupSpace>();
    group.space = made_space.get();
    made_space->name = space;
    spaces_.emplace(group.space->name, std::move(made_space));
  }
  ++group.space->groups;
  state_.groups_bytes += group.bytes();
  groups_.emplace(group.name, std::move(made));
  group.changed_at = {};
  rest(group);
  return group;
}

/// Makes room for a new group of that name. Requires: why_not() found that there can be.
void Groups::make_way(std::string_view name, TimePoint now) {
  const std::string_view space = space_of_name(name);
  const auto place = spaces_.find(space);
  if (!space.empty() && place != spaces_.end() && place->second->groups >= part_of_tenant()) {
    LANEMQ_CHECK(!place->second->idle.empty());
    ++state_.stats.groups_evicted;
    forget(*place->second->idle.front(), now);
  }
  while (groups_.size() >= state_.options.groups_max) {
    LANEMQ_CHECK(!idle_.empty());
    ++state_.stats.groups_evicted;
    forget(*idle_.front(), now);
  }
}

void Groups::forget_oldest_over(TimePoint now) {
  ++state_.stats.groups_evicted;
  forget(*idle_.lists.front().front(), now);
}

/// It has no open job: it is forgotten in its time.
void Groups::rest(Group& group) {
  group.rank = group.over ? 0 : group.notify.empty() ? 1 : 2;
  idle_.lists[group.rank].push_back(group);
  group.space->idle.lists[group.rank].push_back(group);
  if (group.rank == 0) over_bytes_ += group.bytes();
  state_.timers.set(group.timer, group.changed_at + state_.options.retain);
}

/// It is about to have an open job.
void Groups::wake(Group& group) {
  idle_.lists[group.rank].remove(group);
  group.space->idle.lists[group.rank].remove(group);
  if (group.rank == 0) over_bytes_ -= group.bytes();
  state_.timers.clear(group.timer);
}

const Group* Groups::come_due(Group& group, TimePoint now) {
  if (group.over || !is_over(group)) {
    forget(group, now);
    return nullptr;
  }
  wake(group);
  group.over = true;
  group.changed_at = now;
  note_under_way(group, now);
  ++state_.stats.groups_over;
  note(group);
  rest(group);
  return &group;
}

/// Ends the group's life before it is over: its state is kept until those that wait for it are told.
void Groups::give_up(const Group& group, TimePoint now) {
  ++state_.stats.groups_given_up;
  auto left = std::make_unique<Group>();
  left->name = group.name;
  left->counts = group.counts;
  left->notify = group.notify;
  left->client = group.client;
  left->named_client = group.named_client;
  left->durable = group.durable;
  left->size = group.size;
  left->changed_at = now;
  given_up_.push_back(std::move(left));
}

void Groups::forget(Group& group, TimePoint now) {
  LANEMQ_CHECK(group.open == 0);
  wake(group);
  if (!group.over && group.counts.ended() > 0) give_up(group, now);
  if (group.has_note) erase_note(std::string(Journal::kGroup) + group.name, state_.outbox.writes);
  state_.groups_bytes -= group.bytes();
  if (group.under_way) under_way_.remove(group);
  if (group.note_is_due) due_.erase(std::find(due_.begin(), due_.end(), &group));
  GroupSpace& space = *group.space;
  groups_.erase(groups_.find(std::string_view(group.name)));
  if (--space.groups == 0) spaces_.erase(spaces_.find(std::string_view(space.name)));
}

// ---- what outlives the broker -------------------------------------------------------------------------

/// The group is written with the next commit.
void Groups::note(Group& group) {
  if (!state_.options.store_durable) return;
  group.has_note = group.note_is_new = true;
  if (!std::exchange(group.note_is_due, true)) due_.push_back(&group);
}

void Groups::write_notes() {
  for (Group* const group : due_)
    write(*group);
  due_.clear();
}

void Groups::write(Group& group) {
  group.note_is_due = false;
  StoredNumbers numbers;
  numbers.put(group.over ? 1 : 0);
  for (const std::uint64_t count : {group.size, group.counts.succeeded, group.counts.failed,
                                    group.counts.cancelled, group.counts.expired, group.counts.died})
    numbers.put(static_cast<std::int64_t>(count));
  numbers.put(group.changed_at.time_since_epoch().count() + journal_.epoch_us());
  std::vector<StoredEntry> entries{{.name = std::string(kCountsEntry), .numbers = std::move(numbers)}};
  for (const auto& [begins, text] : texts_of(group))
    if (!text->empty()) entries.push_back({.name = std::string(begins) + *text, .numbers = StoredNumbers()});
  write_note(std::string(Journal::kGroup) + group.name, entries, state_.outbox.writes);
}

void Groups::restore(std::string_view name, std::vector<StoredEntry>& entries, TimePoint now) {
  Group& group = make(name);
  group.has_note = true;
  group.durable = true;
  for (StoredEntry& entry : entries) {
    for (const auto& [begins, text] : texts_of(group))
      if (entry.name.starts_with(begins)) *text = entry.name.substr(begins.size());
    if (entry.name != kCountsEntry) continue;
    StoredNumbers& numbers = entry.numbers;
    group.over = numbers.next() != 0;
    for (std::uint64_t* const count : {&group.size, &group.counts.succeeded, &group.counts.failed,
                                       &group.counts.cancelled, &group.counts.expired, &group.counts.died})
      *count = static_cast<std::uint64_t>(numbers.next());
    group.changed_at = std::min(journal_.time_of(numbers.next()), now);
  }
  group.note_is_new = !group.over;
  state_.groups_bytes += group.bytes() - bytes_of_group(group.name);
}

void Groups::restore_job(const Job& job, std::optional<std::int64_t> size) {
  const std::string_view name = job.text.get(JobText::group);
  Group* const known = find(name);
  Group& group = known != nullptr ? *known : make(name);
  if (group.open == 0) wake(group);
  // The note is of an earlier life: no job of this one had ended.
  if (group.over) begin_anew(group);
  take_notify(group, job);
  group.durable = true;
  ++group.open;
  if (!group.note_is_new) group.size = std::max(group.size, static_cast<std::uint64_t>(size.value_or(0)));
  note_under_way(group, {});
}

void Groups::restored(TimePoint now) {
  std::vector<Group*> resting;
  while (Group* const group = idle_.front()) {
    wake(*group);
    resting.push_back(group);
  }
  std::sort(resting.begin(), resting.end(), [](const Group* a, const Group* b) {
    return a->changed_at != b->changed_at ? a->changed_at < b->changed_at : a->name < b->name;
  });
  for (Group* const group : resting) {
    rest(*group);
    // Its other jobs were not durable and went with the broker: it is over from the first turn on.
    if (!group->over && is_over(*group)) state_.timers.set(group->timer, now);
    note_under_way(*group, now);
  }
  for (Group* group = under_way_.front(); group != nullptr; group = under_way_.next(*group))
    group->begun_at = now;
  while (groups_.size() > state_.options.groups_max && !idle_.empty())
    forget(*idle_.front(), now);
}

void Groups::shift(std::vector<StoredEntry>& entries, Duration by) {
  for (StoredEntry& entry : entries) {
    if (entry.name != kCountsEntry || entry.numbers.all().size() < kCountsNumbers) continue;
    std::vector<std::int64_t> numbers = entry.numbers.all();
    numbers[kCountsNumbers - 1] += by.count();
    entry.numbers = StoredNumbers(std::move(numbers));
  }
}

std::string_view Groups::client_in(const std::vector<StoredEntry>& entries) {
  for (const StoredEntry& entry : entries)
    if (entry.name.starts_with(kClientEntry)) return std::string_view(entry.name).substr(kClientEntry.size());
  return {};
}

}  // namespace lanemq::core
