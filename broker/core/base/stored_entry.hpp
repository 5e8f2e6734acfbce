// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/codec.hpp>

#include "broker/core/base/writes.hpp"

namespace lanemq::core {

// Notes: what outlives the core besides jobs and results. A note is a list of entries.

/// Integers in order, as a budget saves and restores its state.
class StoredNumbers {
 public:
  explicit StoredNumbers(std::vector<std::int64_t> numbers = {}) : numbers_(std::move(numbers)) {}
  void put(std::int64_t number) { numbers_.push_back(number); }
  /// The next one; 0 where there is none.
  std::int64_t next() { return at_ < numbers_.size() ? numbers_[at_++] : 0; }
  bool at_end() const { return at_ >= numbers_.size(); }
  const std::vector<std::int64_t>& all() const { return numbers_; }

 private:
  std::vector<std::int64_t> numbers_;
  std::size_t at_ = 0;
};

/// A list under a name: of texts, each with its numbers.
struct StoredEntry {
  std::string name;
  StoredNumbers numbers;
};
void write(const std::vector<StoredEntry>& entries, Buffer& out);
/// Adds the note of that name to the writes.
void write_note(std::string_view name, const std::vector<StoredEntry>& entries, Writes& writes);
/// Has the note of that name erased.
void erase_note(std::string_view name, Writes& writes);

}  // namespace lanemq::core
