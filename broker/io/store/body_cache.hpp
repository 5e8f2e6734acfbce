// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include <absl/container/flat_hash_map.h>

#include <lanemq/blob.hpp>

namespace lanemq::io {

/// Bodies read from the store ahead of their jobs' hand-over: the last ones, up to a bound.
class BodyCache {
 public:
  explicit BodyCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Whether the body is here or on its way.
  bool expects(std::uint64_t number) const { return bodies_.contains(number); }
  /// Bodies that are here or on their way.
  std::size_t size() const { return bodies_.size(); }
  void expect(std::uint64_t number) {
    bodies_.emplace(number, std::nullopt);
    order_.push_back(number);
  }
  /// The body has come; the oldest ones make way. None: its job is over, and it is not expected any more.
  void put(std::uint64_t number, const std::optional<Blob>& body) {
    const auto place = bodies_.find(number);
    if (place == bodies_.end()) return;
    if (!body) {
      take(number);
      return;
    }
    bytes_ += body->size();
    place->second = body;
    while (bytes_ > bytes_max_ && order_.size() > 1)
      forget_oldest();
  }
  /// Takes the body out; none: it is not here, and then not expected any more.
  std::optional<Blob> take(std::uint64_t number) {
    const auto place = bodies_.find(number);
    if (place == bodies_.end()) return std::nullopt;
    std::optional<Blob> body = std::move(place->second);
    bodies_.erase(place);
    if (body) bytes_ -= body->size();
    // Bodies that were taken leave the order only at its front; there are never many more than bodies.
    while (!order_.empty() &&
           (order_.size() > 2 * bodies_.size() + kOrderMin || !bodies_.contains(order_.front())))
      forget_oldest();
    return body;
  }

 private:
  static constexpr std::size_t kOrderMin = 1024;

  void forget_oldest() {
    const auto place = bodies_.find(order_.front());
    order_.pop_front();
    if (place == bodies_.end()) return;
    if (place->second) bytes_ -= place->second->size();
    bodies_.erase(place);
  }

  std::size_t bytes_max_, bytes_ = 0;
  absl::flat_hash_map<std::uint64_t, std::optional<Blob>> bodies_;
  std::deque<std::uint64_t> order_;
};

}  // namespace lanemq::io
