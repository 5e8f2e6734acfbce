// SPDX-License-Identifier: Apache-2.0
#include "worker/links/shard_links.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <lanemq/text.hpp>

#include "common/zmq/endpoints.hpp"
#include "worker/base/log_line.hpp"

namespace lanemq::worker {
namespace {

bool stays(const BrokerLink& link) {
  return !link.session().is_leaving() && !link.session().has_left();
}

}  // namespace

ShardLinks::ShardLinks(zmq::context_t& context, const WorkerOptions& options, SessionOptions session)
    : context_(context), options_(options), session_(std::move(session)), split_(options.capacity) {
  links_.push_back(std::make_unique<BrokerLink>(context_, options_, session_, options_.broker, places_.last));
  places_.links[places_.last] = links_.front().get();
  shares_.push_back({.target = options_.capacity});
}

void ShardLinks::told(BrokerLink& link, const ShardsTold& told) {
  has_news_ = link.take_shards(told) || has_news_;
}

bool ShardLinks::advance(TimePoint now, BrokerLink::Owner& owner) {
  if (stopping_ || (!has_news_ && !several())) return false;
  bool changed = std::exchange(has_news_, false) && follow(now, owner);
  changed = remove_left() || changed;
  if (changed) split_.settle(shares_);
  share_places(now);
  return changed;
}

TimePoint ShardLinks::next_wakeup() const {
  TimePoint due = TimePoint::max();
  if (!stopping_ && has_news_) due = TimePoint{};
  if (!stopping_ && several()) due = std::min(due, shift_at_);
  for (const auto& link : links_)
    due = std::min(due, link->session().next_wakeup());
  return due;
}

// ---- which shards there are ---------------------------------------------------------------------------

/// Closes links whose session has left, but for the last one: its end is the worker's.
bool ShardLinks::remove_left() {
  bool changed = false;
  for (std::size_t i = 0; i < links_.size() && several();) {
    BrokerLink& link = *links_[i];
    if (!link.session().has_left()) {
      ++i;
      continue;
    }
    LogLine line(options_.log, LogLevel::info, "worker.shard_left");
    link.about(line).field("unfinished", link.session().running());
    of_left_ += link.session().counters();
    link.close();
    places_.links[link.place()] = nullptr;
    links_.erase(links_.begin() + static_cast<std::ptrdiff_t>(i));
    shares_.erase(shares_.begin() + static_cast<std::ptrdiff_t>(i));
    changed = has_news_ = true;
  }
  return changed;
}

bool ShardLinks::follow(TimePoint now, BrokerLink::Owner& owner) {
  for (const auto& link : links_)
    if (stays(*link) && !is_named(*link)) drain(*link, now, owner);
  bool changed = false;
  const std::size_t before = links_.size();
  for (std::size_t i = 0; i < before; ++i)
    if (stays(*links_[i]))
      for (const Shard& shard : links_[i]->shards().all())
        if (named(shard.name) == nullptr) changed = add(shard, now) || changed;
  return changed;
}

/// Whether a shard is still one: its own broker may be gone, so that only what those of others say counts. Of
/// two links to one shard the first is not needed: it came there by endpoints of several shards.
bool ShardLinks::is_named(const BrokerLink& link) const {
  const std::string& name = link.session().shard();
  if (name.empty()) return true;
  bool any_says = false;
  for (const auto& other : links_) {
    if (other.get() == &link || !stays(*other)) continue;
    if (other->session().shard() == name && &link == links_.front().get()) return false;
    if (other->shards().empty()) continue;
    if (other->shards().find(name) != nullptr) return true;
    any_says = true;
  }
  return !any_says;
}

void ShardLinks::drain(BrokerLink& link, TimePoint now, BrokerLink::Owner& owner) {
  {
    LogLine line(options_.log, LogLevel::info, "worker.shard_leaving");
    link.about(line)
        .field("running", link.session().running())
        .field("drain_timeout_ms", options_.drain_timeout.count());
  }
  link.session().drain(now + options_.drain_timeout, now, link.effects());
  owner.carry_out(link, now, nullptr);
}

BrokerLink* ShardLinks::named(std::string_view shard) const {
  const auto at = std::find_if(links_.begin(), links_.end(),
                               [&](const auto& link) { return link->session().shard() == shard; });
  return at == links_.end() ? nullptr : at->get();
}

/// Makes the link to a shard. False: it has no endpoint that can be connected to, or the system has no socket
/// left; the other shards go on.
bool ShardLinks::add(const Shard& shard, TimePoint now) {
  const auto refuse = [&](std::string_view why) {
    LogLine(options_.log, LogLevel::error, "worker.shard_unreachable")
        .field("shard", printable(shard.name, 64))
        .field("reason", why);
    return false;
  };
  std::string endpoints;
  for (const std::string& endpoint : shard.endpoints)
    if (!socket::bad_endpoint(context_, {endpoint})) endpoints += (endpoints.empty() ? "" : ",") + endpoint;
  if (endpoints.empty()) return refuse("its brokers name no endpoint for workers that can be connected to");
  if (links_.size() >= ShardMap::kShardsMax) return refuse("there are links to 64 shards already");
  do
    places_.last = (places_.last + 1) % kShardPlacesMax;
  while (places_.links[places_.last] != nullptr);
  SessionOptions session = session_;
  session.shard = shard.name;
  auto link = std::make_unique<BrokerLink>(context_, options_, std::move(session), endpoints, places_.last);
  link->session().set_capacity(0);  // until others have given up what it gets
  try {
    link->open(now);
  } catch (const zmq::error_t& error) {
    return refuse(error.what());
  }
  LogLine line(options_.log, LogLevel::info, "worker.shard_found");
  link->about(line);
  places_.links[places_.last] = link.get();
  links_.push_back(std::move(link));
  shares_.emplace_back();
  return true;
}

// ---- their places -------------------------------------------------------------------------------------

void ShardLinks::share_places(TimePoint now) {
  bool changed = false;
  const bool over = now >= shift_at_;
  if (over) shift_at_ = now + CapacitySplit::kPeriod;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Session& session = links_[i]->session();
    CapacitySplit::Share& share = shares_[i];
    changed = changed || share.serves != session.serves() || share.leaves != session.is_leaving();
    share.serves = session.serves();
    share.leaves = session.is_leaving();
    share.places = session.places();
    if (over) share.peak = session.take_peak();
  }
  if (changed) split_.settle(shares_);
  if (over) split_.shift(shares_);
  split_.offer(shares_);
  for (std::size_t i = 0; i < links_.size(); ++i)
    links_[i]->session().set_capacity(shares_[i].offer);
  if (!split_.takes_turns(shares_) || std::exchange(said_turns_, true)) return;
  LogLine(options_.log, LogLevel::warning, "worker.fewer_places_than_shards")
      .field("capacity", options_.capacity)
      .field("shards", links_.size())
      .field("do",
             "its places go from shard to shard, and jobs wait for them; give it a capacity of one for "
             "each shard at least");
}

// ---- all of them --------------------------------------------------------------------------------------

void ShardLinks::drain(TimePoint deadline, TimePoint now, BrokerLink::Owner& owner) {
  stopping_ = true;
  for (const auto& link : links_) {
    link->session().drain(deadline, now, link->effects());
    owner.carry_out(*link, now, nullptr);
  }
}

void ShardLinks::leave(TimePoint now, BrokerLink::Owner& owner) {
  stopping_ = true;
  for (const auto& link : links_) {
    link->session().leave(now, link->effects());
    owner.carry_out(*link, now, nullptr);
  }
}

bool ShardLinks::all_left() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link->session().has_left(); });
}

std::size_t ShardLinks::running() const {
  std::size_t sum = 0;
  for (const auto& link : links_)
    sum += link->session().running();
  return sum;
}

std::size_t ShardLinks::outcomes() const {
  std::size_t sum = 0;
  for (const auto& link : links_)
    sum += link->session().outcomes();
  return sum;
}

bool ShardLinks::any_serves() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->session().serves(); });
}

SessionCounters ShardLinks::counters() const {
  SessionCounters sum = of_left_;
  for (const auto& link : links_)
    sum += link->session().counters();
  return sum;
}

}  // namespace lanemq::worker
