// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "broker/core/head_costs.hpp"
#include "broker/core/placed_heap.hpp"
#include "broker/core/stream.hpp"
#include "broker/core/time.hpp"

namespace lanemq::core {

class Lane;
class Service;

/// The streams of one lane for one service: they want the same places, and take turns for them in the lane's
/// virtual time. Whose turn it is, is found without looking at the others. Whatever keeps all jobs of a lane
/// and service from starting is asked once for the group.
class StreamGroup {
 public:
  StreamGroup(Lane& lane, Service& service) : lane_(lane), service_(service) {}
  StreamGroup(const StreamGroup&) = delete;
  StreamGroup& operator=(const StreamGroup&) = delete;

  Lane& lane() const { return lane_; }
  Service& service() const { return service_; }
  /// The stream for jobs under a set of budgets; made when it is first asked for.
  Stream& stream(BudgetSet budgets);
  const std::vector<std::unique_ptr<Stream>>& streams() const { return streams_; }

  /// Whether no stream is to be asked.
  bool empty() const { return due_.empty() && later_.empty(); }
  /// Of those that are to be asked, the one whose turn it is; null when there is none.
  Stream* first();
  /// Likewise the one whose head came first; null where the lane has no boost_after.
  Stream* oldest() const { return by_arrival_.front(); }

  /// Of all streams with a head, asked or in line, that may have what they want if it is owed to the lane:
  /// the first one whose head costs at most so much. Null when there is none.
  Stream* first_able(std::int64_t cost_max) { return able_.first_within(cost_max, usual_cost()); }
  /// Likewise of those that are short even of that.
  Stream* first_short(std::int64_t cost_max) { return short_.first_within(cost_max, usual_cost()); }
  /// The cost of the most expensive head; 0 when there is none that may be owed.
  std::int64_t most() { return std::max(able_.most(usual_cost()), short_.most(usual_cost())); }
  /// What a stream's head counts for where lanes share. Requires: it is not empty.
  std::int64_t head_cost(const Stream& stream) const;
  /// The stream's head can never be had as owed.
  void set_never_owed(Stream& stream);
  /// Calls `tell` with each stream that has a head until it returns true; whether it did.
  template <class Tell>
  bool any_of(Tell tell) const {
    return able_.any_of(tell) || short_.any_of(tell);
  }

  /// The stream's head, its tag, or whether it is to be asked has changed.
  void update(Stream& stream);
  /// What the stream's head counts for may have changed, or whether it can be owed.
  void update_cost(Stream& stream);
  /// The lane's options have changed.
  void reconfigure();
  /// What jobs are expected to take may be another now.
  void reappraise();

  /// Place among its lane's ready groups; kept by Lane.
  std::size_t ready_at = kNotReady;
  static constexpr std::size_t kNotReady = static_cast<std::size_t>(-1);
  /// The one that waited last for what is owed to the lane; null: none did. Kept by Broker.
  Stream* saver = nullptr;
  /// How long it waits at most, when it gives up, and from when on another one may save. Kept by Broker.
  Duration saves_for{};
  TimePoint saves_until{}, rests_until{};

 private:
  friend class Parking;

  std::int64_t usual_cost() const;
  std::int64_t cost_of_head(const Stream& stream) const;
  HeadCosts<&Stream::cost_at_>& costs_of(const Stream& stream);
  void list(Stream& stream);
  void unlist(Stream& stream);
  void forget_costs(Stream& stream);
  void set_short(Stream& stream, bool is_short);

  Lane& lane_;
  Service& service_;
  std::vector<std::unique_ptr<Stream>> streams_;
  absl::flat_hash_map<BudgetSet, Stream*> by_budgets_;
  // Those whose turn has come, by the arrival of their heads, and those that are later than the lane's
  // virtual time, by their tags. The lane's time only moves on, and moves streams from one to the other.
  PlacedHeap<Stream, std::uint64_t, &Stream::turn_at_> due_;
  PlacedHeap<Stream, std::pair<std::int64_t, std::uint64_t>, &Stream::turn_at_> later_;
  // All of these, where the lane has a boost.
  PlacedHeap<Stream, std::uint64_t, &Stream::line_at_> by_arrival_;
  HeadCosts<&Stream::cost_at_> able_, short_;

  // Kept by Parking: streams in line, its place among groups that have some, and whether it could start when
  // it was looked at last.
  std::size_t parked_ = 0, parked_at_ = kNotReady;
  bool was_open_ = false;
};

}  // namespace lanemq::core
