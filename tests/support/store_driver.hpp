// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/io/store/store.hpp"

namespace lanemq::test {

/// What a store holds, as a test believes it.
struct StoredJob {
  std::string state, record, body;
  bool operator==(const StoredJob&) const = default;
};
struct StoredResult {
  std::string record, body;
  bool operator==(const StoredResult&) const = default;
};
struct StoreContent {
  std::map<std::uint64_t, StoredJob> jobs;
  std::map<std::uint64_t, StoredResult> results;
  std::map<std::string, std::string> notes;
  bool operator==(const StoreContent&) const = default;
};

/// A turn's writes, told in a line each, and what they make of a content.
class Turn {
 public:
  Turn& insert_job(std::uint64_t number, StoredJob job);
  Turn& update_job(std::uint64_t number, std::string state);
  Turn& rename_job(std::uint64_t number, std::uint64_t renamed, std::string state);
  Turn& erase_job(std::uint64_t number);
  Turn& insert_result(std::uint64_t number, StoredResult result);
  Turn& erase_result(std::uint64_t number);
  Turn& put_note(std::string name, std::string record);
  Turn& erase_note(std::string name);

  /// All that `other` does, behind what this one does.
  Turn& append(const Turn& other);
  core::Writes& writes() { return writes_; }
  /// Does to `content` what the store does with the writes.
  void apply(StoreContent& content) const;

 private:
  core::Writes writes_;
  std::vector<std::function<void(StoreContent&)>> effects_;
};

/// Gives a turn to a store and returns its ticket.
std::uint64_t submit(io::Store& store, Turn turn);

/// Waits for the store's signal, and clears it. False: nothing came in time.
bool wait_for_signal(io::Store& store);
/// Waits until a ticket is committed, by the store's signals alone. False: it was not in time.
bool wait_for(io::Store& store, std::uint64_t ticket);
/// Waits until the store is in that condition.
bool wait_for(io::Store& store, io::StoreCondition condition);
/// The bodies of jobs in the order in which they were asked for.
std::vector<io::StoredBody> read_bodies(io::Store& store, const std::vector<std::uint64_t>& numbers);
/// Results, in the same way.
std::vector<io::StoredBody> read_results(io::Store& store, const std::vector<std::uint64_t>& numbers);

/// Everything that the file holds, read by a store of its own; bodies that were left there are read back.
/// An error is load()'s, or says that a body could not be read.
Result<StoreContent> content_of(io::Store& store);

}  // namespace lanemq::test
