// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace lanemq::worker {

/// How a worker's places are spread over its shards, and follow the jobs.
///
/// No shard tells another one what waits at it. But one whose places were all taken at some time may have
/// more jobs, and places that were never taken in a period are not missed. So each period half of those go to
/// who was full: half, so that bursts do not swing them to and fro. Where all are full, those that have less
/// than an equal part get more of it. Each shard keeps one place, so that a job is noticed wherever it comes.
///
/// A worker with fewer places than shards lends them in turn: a period each, or until the job there is over.
///
/// Never are there more places in use than the worker has: one that is taken from a shard is given to another
/// when the first shard's session holds it no more (Session::places()). Pure; not thread-safe.
class CapacitySplit {
 public:
  /// Between two moves.
  static constexpr std::chrono::milliseconds kPeriod{2'000};

  /// A shard, as its session tells, and what it is to get.
  struct Share {
    std::size_t places = 0;  ///< so many jobs may run there now
    std::size_t peak = 0;    ///< so many ran at once in the period, at the most
    bool serves = false;     ///< its broker is there
    bool leaves = false;     ///< it is drained, and gets no place
    bool joined = false;     ///< the split's own: it has had its part
    std::size_t target = 0;  ///< the split's own: what it is to have
    std::size_t offer = 0;   ///< what its session is to take from now on
  };
  using Shares = std::vector<Share>;

  /// Requires: capacity > 0.
  explicit CapacitySplit(std::size_t capacity) : capacity_(capacity) {}

  /// A period is over: moves places. Reads and sets the targets.
  void shift(Shares& shares);
  /// Shards came or went, or a broker has welcomed the worker: sees that each has what it must, and gives one
  /// that serves for the first time an equal part.
  void settle(Shares& shares);
  /// Sets the offers: what is taken away at once, and what is given as far as it is free.
  void offer(Shares& shares) const;
  /// Whether there are too few places for all that serve.
  bool takes_turns(const Shares& shares) const;

 private:
  std::size_t floor_of(const Shares& shares, const Share& share) const;
  bool give_one(Shares& shares, Share& to) const;
  void take_turns(Shares& shares) const;

  const std::size_t capacity_;
  std::size_t turn_ =
      0;  ///< where places are lent in turn: the first shard that has one, of those that serve
};

}  // namespace lanemq::worker
