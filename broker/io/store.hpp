// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/result.hpp>

#include "broker/core/base/writes.hpp"
#include "broker/io/options.hpp"

namespace lanemq::io {

/// How a store is.
enum class StoreCondition : std::uint8_t {
  good,
  full,    ///< the disk has no room for new jobs; what runs may finish. Good again when there is room.
  failed,  ///< what is on disk and what is in memory may differ: nothing is committed any more, for good
};

/// The body of a job that was read back, or a result.
struct StoredBody {
  std::uint64_t number = 0;
  std::optional<Blob> body;  ///< none: the store has no such job, or no such result
  bool of_result = false;
  std::string record{};  ///< of a result
};

/// Who hears what a store holds. Views live for the call; an error ends the reading and is load()'s.
class StoreReader {
 public:
  virtual ~StoreReader() = default;
  virtual Result<void> note(std::string_view name, std::string_view record) = 0;
  /// `body`: null where it was left in the store, since it is large.
  virtual Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                           std::optional<std::string_view> body, std::size_t body_bytes) = 0;
  /// Likewise.
  virtual Result<void> result(std::uint64_t number, std::string_view record,
                              std::optional<std::string_view> body, std::size_t body_bytes) = 0;
};

/// Where accepted jobs outlive the broker. A turn's writes are committed before anything that depends on them
/// is sent: durable before visible.
///
/// All calls come from one thread, the loop's. A store may work in a thread of its own.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::string_view name() const = 0;
  /// Whether what was committed outlives a crash; `accepted` says so to clients.
  virtual bool durable() const = 0;

  /// Tells everything that was committed: notes, then jobs by their numbers, then results by theirs. Before
  /// the first submit().
  virtual Result<void> load(StoreReader& reader) = 0;

  /// Takes a turn's writes, to be committed all or none, after those it was given before; leaves `writes`
  /// empty, with memory to be used again. Returns their ticket: 1, 2, 3, ... Requires: they are not empty.
  virtual std::uint64_t submit(core::Writes& writes) = 0;
  /// The last ticket that is on disk, and with it all before.
  virtual std::uint64_t committed() const = 0;
  /// What was given and is not committed, in bytes.
  virtual std::size_t backlog_bytes() const = 0;

  /// Asks for the bodies of jobs as they are after what was submitted before.
  virtual void read(const std::vector<std::uint64_t>& numbers) = 0;
  /// Asks for results likewise.
  virtual void read_results(const std::vector<std::uint64_t>& numbers) = 0;
  /// Appends what has been read since the last call.
  virtual void take_bodies(std::vector<StoredBody>& bodies) = 0;

  virtual StoreCondition condition() const = 0;
  /// Why it is not good, for people; with what to do.
  virtual std::string trouble() const = 0;

  /// A descriptor that becomes readable when committed(), the bodies, the condition or a backup have changed;
  /// -1: never. clear_signal() before looking at them.
  virtual int descriptor() const = 0;
  virtual void clear_signal() = 0;

  /// Begins to write a copy of everything committed to a new file, while the work goes on. One at a time.
  virtual Result<void> begin_backup(const std::string& path) = 0;
  /// How the backup ended, once; none: it goes on, or there was none.
  virtual std::optional<Result<void>> take_backup() = 0;

  /// Waits until everything submitted is committed, or the store is not good. For the end.
  virtual void flush() = 0;
};

/// The file of a store, with links followed as SQLite follows them to name the files beside it; none: it has
/// none.
std::optional<std::string> path_of_store(const StoreOptions& options);

/// The store that the specification names; an error says what is known (bad_request), or why it cannot be
/// opened and what to do.
Result<std::unique_ptr<Store>> open_store(const StoreOptions& options);

}  // namespace lanemq::io
