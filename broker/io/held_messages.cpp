// SPDX-License-Identifier: Apache-2.0
#include "broker/io/held_messages.hpp"

#include <algorithm>
#include <utility>

namespace lanemq::io {

bool HeldMessages::holds(std::string_view id) const {
  return !id.empty() &&
         std::any_of(held_.begin(), held_.end(), [id](const Held& held) { return held.id == id; });
}

bool HeldMessages::wants(const Blob& body) const {
  return store_.wants_ahead(body.size()) && body.owns() && has_room(body.size());
}

void HeldMessages::put(Incoming& message, const Blob& body, std::string_view id) {
  hold(message, body, id, true);
  store_.put_ahead(body);
}

void HeldMessages::put_outcome(Incoming& message, const Blob& body) {
  put(message, body, {});
  held_.back().of_worker = true;
}

bool HeldMessages::wait(Incoming& message, const Blob& body, std::string_view id) {
  if (!has_room(message.header().size() + body.size())) return false;
  hold(message, body, id, false);
  return true;
}

void HeldMessages::hold(Incoming& message, const Blob& body, std::string_view id, bool puts) {
  Held& held = held_.emplace_back();
  held.id = id;  // may be a view of the message
  held.body = puts ? body.bytes().data() : nullptr;
  held.bytes = message.header().size() + body.size();
  bytes_ += held.bytes;
  held.message = std::exchange(message, Incoming());
  if (!body.empty() && body.owner() != nullptr) held.message.put_back(body);
}

std::vector<HeldMessages::Released> HeldMessages::release() {
  std::vector<Blob> bodies;
  store_.take_put(bodies);
  std::vector<Released> all;
  for (Blob& body : bodies) {
    const auto first = std::find_if(held_.begin(), held_.end(),
                                    [&](const Held& held) { return held.body == body.bytes().data(); });
    if (first == held_.end()) {  // it was let go
      store_.drop_put(body);
      continue;
    }
    const std::string id = first->id;
    Released released{.body = std::move(body), .messages = {}, .of_worker = first->of_worker};
    take(static_cast<std::size_t>(first - held_.begin()), released.messages);
    for (std::size_t i = 0; !id.empty() && i < held_.size();)
      if (held_[i].id == id)
        take(i, released.messages);
      else
        ++i;
    all.push_back(std::move(released));
  }
  return all;
}

bool HeldMessages::has_outcome_of(std::string_view address) const {
  return std::any_of(held_.begin(), held_.end(),
                     [&](const Held& held) { return held.of_worker && held.message.address() == address; });
}

std::vector<Incoming> HeldMessages::let_go(std::string_view address) {
  std::vector<Incoming> messages;
  for (std::size_t i = 0; i < held_.size();)
    if (held_[i].of_worker && held_[i].message.address() == address) {
      take(i, messages);
      // Bytes of its own: those that are put are not this turn's.
      messages.back().put_back(Blob::copy(messages.back().take_body({}, 0).bytes()));
    } else {
      ++i;
    }
  return messages;
}

void HeldMessages::take(std::size_t at, std::vector<Incoming>& messages) {
  bytes_ -= held_[at].bytes;
  messages.push_back(std::move(held_[at].message));
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(at));
}

void HeldMessages::heard(const Blob& body, const core::Writes& writes, std::size_t first) {
  for (std::size_t i = first; i < writes.size(); ++i)
    if (writes[i].body.bytes().data() == body.bytes().data()) return;
  store_.drop_put(body);
}

}  // namespace lanemq::io
