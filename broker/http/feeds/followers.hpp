// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "broker/http/feeds/sampler.hpp"
#include "common/http/server/base/responder.hpp"

namespace lanemq::admin {

/// The readers of `/v1/events`: server-sent events, one for each sample. A reader that has not taken the last
/// one is left out of the next ones, so that it costs nothing but itself. Belongs to the HTTP thread.
class Followers {
 public:
  static constexpr std::size_t kFollowersMax = 64;

  bool full() const { return followers_.size() >= kFollowersMax; }
  std::size_t size() const { return followers_.size(); }
  /// Requires: !full(), and the responder was not answered. `last`: what it gets at once; may be null.
  void add(http::ResponderPtr responder, const std::shared_ptr<const Sample>& last);
  void send(const Sample& sample);

 private:
  struct Follower {
    http::ResponderPtr responder;
    bool behind = false;  ///< it has not taken the last event
  };
  void send_to(const std::shared_ptr<Follower>& follower, const Blob& event);

  std::list<std::shared_ptr<Follower>> followers_;
};

}  // namespace lanemq::admin
