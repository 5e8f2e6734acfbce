// SPDX-License-Identifier: Apache-2.0
#include "broker/io/loop/held_messages.hpp"

#include <algorithm>
#include <utility>

#include <absl/container/flat_hash_set.h>

#include "broker/core/base/check.hpp"

namespace lanemq::io {

bool HeldMessages::names_any_of(const std::vector<std::string>& ids) const {
  return std::any_of(ids.begin(), ids.end(), [this](const std::string& id) { return names_.contains(id); });
}

std::int64_t HeldMessages::batch_of(std::string_view address) const {
  std::int64_t most = 0;
  for (const Held& held : held_)
    if (!held.lease && held.is.message.address() == address) most = std::max(most, held.about.batch);
  return most;
}

bool HeldMessages::wants(const Blob& body) const {
  return store_.wants_ahead(body.size()) && body.owns() && has_room(body.size());
}

void HeldMessages::hold_and_put(Incoming& message, const Blob& body, About about, core::TimePoint now) {
  put(hold(message, body, std::move(about), now), body);
}

void HeldMessages::hold_and_put(Incoming& message, const Blob& body, wire::Lease lease, core::TimePoint now) {
  Held& held = hold(message, body, {}, now);
  held.lease = lease;
  put(held, body);
}

bool HeldMessages::hold_behind(Incoming& message, const Blob& body, About about, core::TimePoint now) {
  const std::size_t bytes = message.header().size() + message.body_frame().value_or("").size() + body.size();
  if (!has_room(bytes)) return false;
  hold(message, body, std::move(about), now).bytes = bytes;
  bytes_ += bytes;
  return true;
}

HeldMessages::Held& HeldMessages::hold(Incoming& message, const Blob& body, About about,
                                       core::TimePoint now) {
  Held& held = held_.emplace_back();
  held.about = std::move(about);
  held.since = now;
  for (const std::string& id : held.about.ids)
    ++names_[id];
  held.is.message = std::exchange(message, Incoming());
  held.is.message.note_held();
  if (!body.empty() && body.owner() != nullptr) held.is.message.put_back(body);
  return held;
}

void HeldMessages::put(Held& held, const Blob& body) {
  held.body = body;
  held.bytes = body.size();
  bytes_ += held.bytes;
  store_.put_ahead(body);
}

void HeldMessages::add_leases(std::string_view address, std::vector<wire::Lease>& leases) const {
  for (const Held& held : held_)
    if (held.lease && held.is.message.address() == address) leases.push_back(*held.lease);
}

void HeldMessages::sender_gone(std::string_view address) {
  for (Held& held : held_)
    if (!held.lease && held.is.message.address() == address) held.is.sender_gone = true;
}

std::vector<HeldMessages::Ready> HeldMessages::take_ready(core::TimePoint now) {
  std::vector<Ready> all;
  if (held_.empty() && let_go_.empty()) return all;
  const auto take = [&](Place place, const Blob& in) {
    Ready& ready = all.emplace_back(Ready{.body = in, .messages = {}, .of_worker = place->lease.has_value()});
    ready.messages.push_back(in.empty() ? let_go(place) : remove(place));
    if (!ready.of_worker) take_behind(ready.messages);
  };
  std::vector<Blob> bodies;
  store_.take_put(bodies);
  for (const Blob& body : bodies) {
    last_in_ = now;
    if (const auto gone = let_go_.find(body.bytes().data()); gone != let_go_.end()) {
      bytes_ -= gone->second;
      let_go_.erase(gone);
      store_.drop_put(body);
      continue;
    }
    const auto place = std::find_if(held_.begin(), held_.end(), [&](const Held& held) {
      return !held.body.empty() && held.body.bytes().data() == body.bytes().data();
    });
    LANEMQ_CHECK(place != held_.end());
    take(place, body);
  }
  for (Place late = first_put(); late != held_.end() && due(*late) <= now; late = first_put())
    take(late, {});
  return all;
}

std::optional<core::TimePoint> HeldMessages::next_wakeup() {
  const Place first = first_put();
  if (first == held_.end()) return std::nullopt;
  return due(*first);
}

/// The message that has waited longest for its own body.
HeldMessages::Place HeldMessages::first_put() {
  return std::find_if(held_.begin(), held_.end(), [](const Held& held) { return !held.body.empty(); });
}

bool HeldMessages::has_outcome_of(std::string_view address) const {
  return std::any_of(held_.begin(), held_.end(),
                     [&](const Held& held) { return held.lease && held.is.message.address() == address; });
}

HeldMessages::Message HeldMessages::remove(Place place) {
  bytes_ -= place->bytes;
  for (const std::string& id : place->about.ids)
    if (const auto name = names_.find(id); --name->second == 0) names_.erase(name);
  Message message = std::move(place->is);
  held_.erase(place);
  return message;
}

/// Removes a message whose body the store has still to put in. It gets bytes of its own: those that are put
/// are not its turn's.
HeldMessages::Message HeldMessages::let_go(Place place) {
  const Blob body = place->body;
  Message message = remove(place);
  message.message.put_back(Blob::copy(body.bytes()));
  let_go_[body.bytes().data()] = body.size();
  bytes_ += body.size();
  return message;
}

/// Takes those that have waited for what is gone by now: no message before them has one of their ids.
void HeldMessages::take_behind(std::vector<Message>& messages) {
  absl::flat_hash_set<std::string_view> before;
  for (Place at = held_.begin(); at != held_.end();) {
    const Place place = at++;
    const std::vector<std::string>& ids = place->about.ids;
    if (place->body.empty() &&
        std::none_of(ids.begin(), ids.end(), [&](const std::string& id) { return before.contains(id); }))
      messages.push_back(remove(place));
    else
      before.insert(ids.begin(), ids.end());
  }
}

void HeldMessages::heard(const Blob& body, const core::Writes& writes, std::size_t first) {
  if (body.empty()) return;
  for (std::size_t i = first; i < writes.size(); ++i)
    if (writes[i].body.bytes().data() == body.bytes().data()) return;
  store_.drop_put(body);
}

}  // namespace lanemq::io
