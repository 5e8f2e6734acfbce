// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "broker/core/jobs/job.hpp"
#include "broker/core/jobs/job_table.hpp"

namespace lanemq::core {

/// Numbers and arrivals for rows that come to a store, after all that it has used: of one generation, on
/// places that are free. Holds a bit for each place.
class FreeNumbers {
 public:
  /// The store has reserved the numbers up to this generation.
  void take_generation(std::uint64_t generation) { generation_ = std::max(generation_, generation); }
  /// A row of the store; a dead job and its result may both be told.
  void take_row(std::uint64_t number) {
    const std::size_t place = JobTable::index_of(JobNumber{number});
    if (taken_.size() <= place) taken_.resize(place + 1);
    if (!taken_[place]) ++rows_;
    taken_[place] = true;
    take_generation(JobTable::generation_of(JobNumber{number}));
  }
  void take_arrival(std::uint64_t arrival) { arrival_ = std::max(arrival_, arrival + 1); }
  /// Rows of the store.
  std::size_t rows() const { return rows_; }

  /// To be called once, when all is taken. False: the store has used all numbers that there are.
  bool begin() { return ++generation_ <= JobTable::kGenerationMax; }
  /// The generation of all numbers to come.
  std::uint64_t generation() const { return generation_; }
  /// Later ones are higher. Requires: the table of a broker has room for one more.
  std::uint64_t next_number() {
    while (place_ < taken_.size() && taken_[place_])
      ++place_;
    return static_cast<std::uint64_t>(JobTable::number_of(generation_, place_++));
  }
  std::uint64_t next_arrival() { return arrival_++ & Job::kArrivalMax; }

 private:
  std::vector<bool> taken_;
  std::size_t rows_ = 0, place_ = 0;
  std::uint64_t generation_ = 0, arrival_ = 0;
};

}  // namespace lanemq::core
