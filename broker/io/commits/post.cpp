// SPDX-License-Identifier: Apache-2.0
#include "broker/io/commits/post.hpp"

#include "broker/io/base/failpoint.hpp"

namespace lanemq::io {

void Post::send(const core::Outbox& outbox, Part part) {
  bool any_to_workers = false;
  for (const core::Send& send : outbox.sends) {
    if (send.waits != part.waiting) continue;
    if (!(send.peer == core::Peer::worker ? part.to_workers : part.to_others)) continue;
    if (!gate_.may_leave(send)) continue;
    any_to_workers = any_to_workers || send.peer == core::Peer::worker;
    switch (send.peer) {
      case core::Peer::client:
        send_to_client(outbox, send);
        break;
      case core::Peer::worker:
        send_to_worker(outbox, send);
        break;
      case core::Peer::admin:
        send_to_admin(outbox, send);
        break;
    }
  }
  if (any_to_workers) reached(Failpoint::loop_after_dispatch);
}

void Post::send_to_client(const core::Outbox& outbox, const core::Send& send) {
  const std::string_view address = outbox.address(send);
  if (!backlogs_.empty() && backlogs_.find(address) != backlogs_.end())
    return hold_back(address, outbox, send);
  switch (sockets_.clients.send(address, outbox.envelope(send), outbox.header(send), send.body)) {
    case SendStatus::sent:
      return;
    case SendStatus::gone:
      stats_.sends_undeliverable += outbox.items(send);
      if (gone_clients_.empty() || gone_clients_.back() != address) gone_clients_.emplace_back(address);
      return;  // a result stays fetchable
    case SendStatus::slow:
      return hold_back(address, outbox, send);
  }
}

/// Sends to an operator. One who does not read can ask again, so nothing is held back.
void Post::send_to_admin(const core::Outbox& outbox, const core::Send& send) {
  const SendStatus status =
      sockets_.admin->send(outbox.address(send), outbox.envelope(send), outbox.header(send), send.body);
  if (status == SendStatus::gone) ++stats_.sends_undeliverable;
  if (status == SendStatus::slow) ++stats_.sends_dropped_slow;
}

void Post::send_to_worker(const core::Outbox& outbox, const core::Send& send) {
  const std::string_view address = outbox.address(send);
  const SendStatus status =
      sockets_.workers.send(address, outbox.envelope(send), outbox.header(send), send.body);
  if (status == SendStatus::sent) return;
  if (status == SendStatus::gone) {
    stats_.sends_undeliverable += outbox.items(send);
    sockets_.worker_connections.gone().emplace_back(address);
    return;
  }
  // A worker within its capacity cannot be slow. This one has stopped reading, and its jobs go elsewhere.
  stats_.sends_dropped_slow += outbox.items(send);
  unreachable_workers_.emplace_back(address);
}

/// Keeps an answer for a client that reads slowly, up to its bound. What goes over it is dropped and counted;
/// the client gets it by `fetch`, or by submitting again.
void Post::hold_back(std::string_view address, const core::Outbox& outbox, const core::Send& send) {
  Held held{std::string(outbox.envelope(send)), std::string(outbox.header(send)), send.body};
  auto place = backlogs_.find(address);
  const std::size_t bytes = place == backlogs_.end() ? 0 : place->second.bytes;
  if (bytes + held.bytes() > options_.client_backlog_bytes_max ||
      stats_.backlog_bytes + held.bytes() > options_.backlog_bytes_max) {
    stats_.sends_dropped_slow += outbox.items(send);
    return;
  }
  if (place == backlogs_.end()) place = backlogs_.emplace(address, Backlog{}).first;
  place->second.bytes += held.bytes();
  stats_.backlog_bytes += held.bytes();
  place->second.messages.push_back(std::move(held));
}

void Post::flush_backlogs() {
  for (auto place = backlogs_.begin(); place != backlogs_.end();) {
    Backlog& backlog = place->second;
    while (!backlog.messages.empty()) {
      const Held& held = backlog.messages.front();
      const SendStatus status = sockets_.clients.send(place->first, held.envelope, held.header, held.body);
      if (status == SendStatus::slow) break;
      if (status == SendStatus::gone) ++stats_.sends_undeliverable;
      stats_.backlog_bytes -= held.bytes();
      backlog.bytes -= held.bytes();
      backlog.messages.pop_front();
    }
    place = backlog.messages.empty() ? backlogs_.erase(place) : std::next(place);
  }
}

}  // namespace lanemq::io
