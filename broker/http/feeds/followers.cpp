// SPDX-License-Identifier: Apache-2.0
#include "broker/http/feeds/followers.hpp"

#include <string>
#include <utility>
#include <vector>

namespace lanemq::admin {
namespace {

/// After its connection is lost a reader comes back so soon.
constexpr const char kComeBack[] = "retry: 1000\n\n";

Blob event_of(const Sample& sample) {
  const Json data{{"number", sample.number}, {"at_ms", sample.at_ms}, {"stats", sample.stats}};
  return http::blob_of("id: " + std::to_string(sample.number) + "\nevent: sample\ndata: " +
                       data.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n");
}

}  // namespace

void Followers::add(http::ResponderPtr responder, const std::shared_ptr<const Sample>& last) {
  const auto follower = std::make_shared<Follower>(Follower{std::move(responder)});
  const auto place = followers_.insert(followers_.end(), follower);
  follower->responder->begin(200, {{"content-type", "text/event-stream"},
                                   {"cache-control", "no-store"},
                                   {"x-accel-buffering", "no"},
                                   {"x-content-type-options", "nosniff"}});
  follower->responder->write(http::blob_of(kComeBack));
  if (last) send_to(follower, event_of(*last));
  // Last of all: a reader that has gone already is called for at once.
  follower->responder->on_gone([this, place] { followers_.erase(place); });
}

void Followers::send(const Sample& sample) {
  if (followers_.empty()) return;
  const Blob event = event_of(sample);
  // A write may find that a reader is gone, which takes it out of the list.
  const std::vector<std::shared_ptr<Follower>> all(followers_.begin(), followers_.end());
  for (const std::shared_ptr<Follower>& follower : all)
    if (!follower->behind) send_to(follower, event);
}

void Followers::send_to(const std::shared_ptr<Follower>& follower, const Blob& event) {
  follower->behind = true;
  follower->responder->write(event, [weak = std::weak_ptr<Follower>(follower)] {
    if (const std::shared_ptr<Follower> self = weak.lock()) self->behind = false;
  });
}

}  // namespace lanemq::admin
