// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/watchers.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/text.hpp>

#include "broker/core/life/answers.hpp"
#include "broker/core/life/groups.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

/// A tenant's part of the clients' watches.
constexpr std::size_t kTenantShare = 4;
constexpr Duration kRetryWatchAfter = std::chrono::seconds(1);

bool is_in_space(std::string_view id, std::string_view space) {
  if (space.empty()) return id.empty() || id.front() != kSpaceMark;
  return id.starts_with(space);
}

bool follows(const Watcher& watcher, const Job& job, LaneIndex from_lane, std::string_view client) {
  if (!watcher.sees_all && !is_in_space(job.id(), watcher.space)) return false;
  // A watcher of a lane also sees jobs leave it.
  if (watcher.lane && *watcher.lane != job.lane && *watcher.lane != from_lane) return false;
  return (watcher.id.empty() || watcher.id == job.id()) &&
         (watcher.client.empty() || watcher.client == client) &&
         (watcher.service.empty() || watcher.service == job.flow().service().name) &&
         (watcher.group.empty() || watcher.group == job.text.get(JobText::group));
}

/// Whether the watcher follows the group, or everything.
bool follows(const Watcher& watcher, const Group& group) {
  if (!watcher.sees_all && !is_in_space(group.name, watcher.space)) return false;
  if (!watcher.group.empty()) return watcher.group == group.name;
  return watcher.id.empty() && watcher.client.empty() && watcher.service.empty() && !watcher.lane;
}

}  // namespace

// ---- who follows --------------------------------------------------------------------------------------

Watchers::Place Watchers::find(const Origin& from, std::string_view ref) {
  return std::find_if(all_.begin(), all_.end(), [&](const auto& watcher) {
    return watcher->peer == from.peer && watcher->address == from.address && watcher->ref == ref;
  });
}

std::optional<Refusal> Watchers::why_not(const WatchAsked& event) const {
  const wire::Watch& fields = *event.fields;
  if (event.from.one_answer)
    return bad_request("a REQ socket takes one answer, and a watch has many; use a DEALER");
  if (!fields.lane.empty() && state_.lane_named(fields.lane) == nullptr)
    return bad_request("unknown lane \"" + printable(fields.lane) + "\"; the lanes are " +
                       state_.lane_names());
  return std::nullopt;
}

std::optional<Refusal> Watchers::no_room(const Origin& from) const {
  const bool by_operator = from.peer == Peer::admin;
  const std::string_view space = from.identity != nullptr ? from.identity->space : std::string_view{};
  std::size_t others = 0, of_tenant = 0;
  for (const auto& watcher : all_) {
    if ((watcher->peer == Peer::admin) == by_operator) ++others;
    if (!space.empty() && watcher->space == space) ++of_tenant;
  }
  const std::size_t most = by_operator ? kOperatorsMax : state_.options.watchers_max;
  const auto refusal = [](ErrorCode code, const std::string& held) {
    return Refusal{code, held + "; end one (field \"stop\"), or watch again later", kRetryWatchAfter,
                   "watchers_max"};
  };
  if (others >= most)
    return refusal(ErrorCode::bytes_full,
                   by_operator ? "operators watch " + std::to_string(most) + " times already"
                               : std::to_string(most) + " watches are there already (watchers_max)");
  const std::size_t part = std::max<std::size_t>(state_.options.watchers_max / kTenantShare, 1);
  if (of_tenant >= part)
    return refusal(ErrorCode::client_full, "this tenant has " + std::to_string(part) +
                                               " watches, a quarter of what there may be (watchers_max)");
  return std::nullopt;
}

void Watchers::on(const WatchAsked& event, TimePoint now) {
  const wire::Watch& fields = *event.fields;
  if (const auto why = why_not(event)) return answers_.refuse(event.from, fields.ref, fields.id, *why);
  const Place place = find(event.from, fields.ref.bytes);
  if (fields.stop) {
    Watcher none;
    none.peer = event.from.peer;
    none.address = event.from.address;
    none.envelope = event.from.envelope;
    none.ref = fields.ref.bytes;
    if (place != all_.end()) none.next = (*place)->next;
    say_watching(none, true);
    if (place != all_.end()) remove(place);
    return;
  }
  const Lane* const lane = fields.lane.empty() ? nullptr : state_.lane_named(fields.lane);
  const auto lane_index = lane != nullptr ? std::optional(lane->index()) : std::nullopt;
  if (place != all_.end()) {
    Watcher& known = **place;
    if (known.id == fields.id && known.client == fields.client && known.service == fields.service &&
        known.group == fields.group && known.lane == lane_index) {
      known.heard_at = now;
      return say_watching(known, false);
    }
    remove(place);  // its place is free for the new one
  }
  if (const auto why = no_room(event.from)) {
    ++state_.stats.watchers_refused;
    return answers_.refuse(event.from, fields.ref, fields.id, *why);
  }
  Watcher& watcher = *all_.emplace_back(std::make_unique<Watcher>());
  watcher.peer = event.from.peer;
  if (watcher.peer == Peer::client) {
    watcher.connection = &state_.connections.at(event.from.address);
    state_.connections.take_reference(*watcher.connection);
    if (fields.batch > 0) watcher.connection->grouping.agree(fields.batch);
  }
  watcher.address = event.from.address;
  watcher.envelope = event.from.envelope;
  watcher.ref = fields.ref.bytes;
  watcher.id = fields.id;
  watcher.client = fields.client;
  watcher.service = fields.service;
  watcher.group = fields.group;
  watcher.lane = lane_index;
  watcher.sees_all = watcher.peer == Peer::admin;
  if (event.from.identity != nullptr) watcher.space = event.from.identity->space;
  watcher.heard_at = now;
  state_.timers.set(watcher.timer, now + kSilenceMax);
  say_watching(watcher, false);
  // A watcher that comes after the group's end would wait for that event in vain.
  tell_if_over(watcher);
}

/// Tells the watcher if the group that it follows by name is over.
void Watchers::tell_if_over(Watcher& watcher) {
  const bool late = std::exchange(watcher.over_left_out, false);
  const Group* const group = watcher.group.empty() ? nullptr : groups_.find(watcher.group);
  if (group != nullptr && group->over) return tell(watcher, *group);
  // Its next life has begun meanwhile.
  if (late) ++watcher.left_out;
}

bool Watchers::on(const SeenSaid& event, TimePoint now) {
  const wire::Seen& fields = *event.fields;
  if (all_.empty() || !fields.id.empty() || !fields.ref.present()) return false;
  const Place place = find(event.from, fields.ref.bytes);
  if (place == all_.end()) return false;
  Watcher& watcher = **place;
  watcher.heard_at = now;
  watcher.taken = std::clamp(fields.seq, watcher.taken, watcher.next - 1);
  // Nothing may follow the end of a group that would say that it was left out.
  if (watcher.over_left_out && watcher.has_room()) tell_if_over(watcher);
  return true;
}

void Watchers::on(const ClientUnreachable& event) {
  remove_all([&](const Watcher& watcher) {
    return watcher.peer == Peer::client && watcher.address == event.address;
  });
}

void Watchers::on(const KeyRevoked& event) {
  remove_all([&](const Watcher& watcher) {
    return watcher.connection != nullptr && watcher.connection->key == event.name;
  });
}

/// The followers could not be heard.
void Watchers::on(const StoodStill& event) {
  for (const auto& watcher : all_)
    watcher->heard_at += event.how_long;
}

void Watchers::look(Watcher& watcher, TimePoint now) {
  // While the disk stands still no event leaves, so none can be confirmed.
  if (state_.store_stalled) watcher.heard_at = now;
  const TimePoint due = state_.silent_from(watcher.heard_at, now) + kSilenceMax;
  if (now < due) return state_.timers.set(watcher.timer, due);
  ++state_.stats.watchers_let_go;
  {
    const Outbox::Waiting waiting(state_.outbox, state_.options.store_durable);
    answers_.refuse(origin_of(watcher), {watcher.ref}, {},
                    {ErrorCode::slow_reader,
                     "this watch was neither confirmed (op seen) nor renewed (op watch) for " +
                         std::to_string(to_ms(kSilenceMax) / 1000) + " s and is over; watch again",
                     {}});
  }
  remove_all([&](const Watcher& other) { return &other == &watcher; });
}

Origin Watchers::origin_of(const Watcher& watcher) const {
  return {.address = watcher.address,
          .envelope = watcher.envelope,
          .grouping = watcher.connection != nullptr ? &watcher.connection->grouping : nullptr,
          .peer = watcher.peer};
}

/// Behind all events so far, so that a follower sees by the number whether it has them all.
void Watchers::say_watching(const Watcher& watcher, bool stop) {
  const Outbox::Waiting waiting(state_.outbox, state_.options.store_durable && watcher.next > 0);
  wire::Watching reply;
  reply.seq = watcher.next;
  reply.stop = stop;
  reply.ref = {watcher.ref};
  state_.answer(origin_of(watcher), reply);
}

void Watchers::remove(Place place) {
  const std::unique_ptr<Watcher> watcher = std::move(*place);
  all_.erase(place);
  state_.timers.clear(watcher->timer);
  if (watcher->connection != nullptr) state_.connections.drop_reference(*watcher->connection);
}

template <class Which>
void Watchers::remove_all(Which which) {
  for (std::size_t i = 0; i < all_.size();)
    if (which(*all_[i]))
      remove(all_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
}

// ---- what they are told -------------------------------------------------------------------------------

void Watchers::tell_all(const Job& job, const Change& change, TimePoint now) {
  const std::string& client = job.queue->client().name;
  const Lane* const from = change.from_lane.empty() ? nullptr : state_.lane_named(change.from_lane);
  const LaneIndex from_lane = from != nullptr ? from->index() : job.lane;
  const std::string_view group = job.text.get(JobText::group);
  wire::JobEvent event;
  event.what = change.what;
  event.state = name_of(change.state);
  event.lane = state_.lanes[job.lane]->options().name;
  event.service = job.flow().service().name;
  if (const std::string_view model = job.text.get(JobText::model); !model.empty()) event.model = model;
  if (!change.from_lane.empty()) event.from_lane = change.from_lane;
  if (!change.worker.empty()) event.worker = change.worker;
  if (!change.code.empty()) event.code = change.code;
  event.attempts = job.attempts;
  if (change.state == JobState::delayed)
    event.delay_ms = std::max<std::int64_t>(to_ms(job.at_away().due - now), 0);
  event.queued_ms = change.queued_ms;
  event.ran_ms = change.ran_ms;
  event.dead = change.dead;
  event.pct = change.pct;
  if (!change.note.empty()) event.note = change.note;
  event.at_ms = state_.options.unix_ms(now);
  const Outbox::Waiting waiting(state_.outbox, state_.options.store_durable);
  for (const auto& watcher : all_) {
    if (!follows(*watcher, job, from_lane, client)) continue;
    event.id = job.id();
    event.client = watcher->peer == Peer::client ? own_name(client) : std::string_view(client);
    if (!group.empty()) event.group = watcher->peer == Peer::client ? own_name(group) : group;
    send(*watcher, event);
  }
}

void Watchers::tell(const Group& group) {
  for (const auto& watcher : all_)
    if (follows(*watcher, group)) tell(*watcher, group);
}

void Watchers::tell(Watcher& watcher, const Group& group) {
  // It is not counted as left out, since it is told when there is room; if it is known then.
  if (!watcher.group.empty() && group.over && !watcher.has_room()) {
    watcher.over_left_out = true;
    return;
  }
  wire::JobEvent event;
  event.what = "group_over";
  event.group = watcher.peer == Peer::client ? own_name(group.name) : std::string_view(group.name);
  event.succeeded = static_cast<std::int64_t>(group.counts.succeeded);
  event.failed = static_cast<std::int64_t>(group.counts.failed);
  event.cancelled = static_cast<std::int64_t>(group.counts.cancelled);
  event.expired = static_cast<std::int64_t>(group.counts.expired);
  event.died = static_cast<std::int64_t>(group.counts.died);
  event.incomplete = !group.over;
  event.at_ms = state_.options.unix_ms(group.changed_at);
  const Outbox::Waiting waiting(state_.outbox, state_.options.store_durable);
  send(watcher, event);
}

void Watchers::send(Watcher& watcher, wire::JobEvent& event) {
  if (!watcher.has_room()) {
    ++watcher.left_out;
    ++state_.stats.events_left_out;
    return;
  }
  event.seq = watcher.next++;
  event.left_out = std::exchange(watcher.left_out, 0);
  event.gap = event.left_out > 0;
  event.ref = {watcher.ref};
  ++state_.stats.events_out;
  state_.answer(origin_of(watcher), event);
}

}  // namespace lanemq::core
