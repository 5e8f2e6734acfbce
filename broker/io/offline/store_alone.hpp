// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/result.hpp>

#include "broker/core/base/writes.hpp"
#include "broker/io/base/options.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

// Commands' work on stores that no broker serves meanwhile.

/// Opens a store as a broker would, so that no other process has it. Waits for an owner that may be dead, and
/// says which one to stop where one is alive.
Result<std::unique_ptr<Store>> open_alone(StoreOptions options);

/// An error (bad_request) where there is no such store: opening would make it, and a slip in its name would
/// be taken for one that is empty. `purpose`: "copy from".
Result<void> must_be_there(const StoreOptions& options, std::string_view purpose);

/// An error where the store's condition is not good.
Result<void> still_good(const Store& store);

/// Takes the body of one row.
using TakeBody = std::function<Result<void>(std::size_t i, const Blob& body)>;
/// Reads bodies that load() has left in the store, some at once, and passes them on in the order of
/// `numbers`. An error names a row whose body is not there, or is that of `take`.
Result<void> read_bodies_left(Store& store, const std::vector<std::uint64_t>& numbers, bool of_results,
                              const TakeBody& take);

/// Writes many rows to a store: some thousand in a turn, and bounded what is on its way (kBacklogBytesMax).
/// Turns are committed in their order.
class StoreWriter {
 public:
  static constexpr std::size_t kTurnBytesMax = std::size_t{1} << 20;
  static constexpr std::size_t kBacklogBytesMax = std::size_t{32} << 20;

  /// The store has to outlive it.
  explicit StoreWriter(Store& store) : store_(store) {}

  /// `state`: a job's state, or a note's name. Ends the turn once it is large enough.
  Result<void> add(core::Write::Kind kind, std::uint64_t number, std::string_view state,
                   std::string_view record, const Blob& body);
  Result<void> put_note(std::string_view name, std::string_view record) {
    return add(core::Write::Kind::put_note, 0, name, record, {});
  }
  Result<void> erase_note(std::string_view name) {
    return add(core::Write::Kind::erase_note, 0, name, {}, {});
  }
  /// Ends the turn: what was added so far is committed before what follows.
  Result<void> end_turn();
  /// Waits until all rows are committed.
  Result<void> end();
  /// Writes in the turn so far.
  std::size_t turn_size() const { return writes_.size(); }

 private:
  Store& store_;
  core::Writes writes_;
  std::uint64_t ticket_ = 0;  ///< of the last turn; 0: none
};

}  // namespace lanemq::io
