// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "client/gateway/api.hpp"
#include "client/gateway/batches/batch_figures.hpp"
#include "client/gateway/response_owners.hpp"

namespace lanemq::gateway {

/// What the disk refused. After it nothing of the transaction has happened.
struct StoreFault : std::runtime_error {
  StoreFault(const std::string& what, bool is_full) : std::runtime_error(what), full(is_full) {}
  bool full;  ///< the disk has no room
};

/// What ids of files begin with.
inline constexpr std::string_view kFileIdPrefix = "file-";

/// Whether `text` may have come from BatchStore::make_id(): the prefix and a ULID.
bool is_made_id(std::string_view text, std::string_view prefix);

// Times are in milliseconds since 1970; 0: not yet, or never.

/// A file that a caller sent or may fetch.
struct StoredFile {
  std::int64_t number = 0;  ///< rises with each file
  std::string id{};
  std::string owner{};  ///< the caller's name; others do not see it
  std::string purpose{}, filename{};
  std::int64_t bytes = 0;
  std::int64_t created_at = 0, expires_at = 0;
  bool hidden = false;  ///< belongs to a batch of messages, and is in no list of files
};

enum class BatchState : unsigned char {
  validating,   ///< its input is being read
  in_progress,  ///< its lines run
  finalizing,   ///< its output is being written
  completed,
  failed,  ///< its input was no batch
  expired,
  cancelled
};
bool is_over(BatchState state);

/// What became of a line.
enum class LineOutcome : unsigned char { succeeded = 1, failed = 2 };

struct BatchUsage {
  std::int64_t input_tokens = 0, output_tokens = 0, cached_tokens = 0, reasoning_tokens = 0;
};

struct StoredBatch {
  std::int64_t number = 0;  ///< rises with each batch
  std::string id{};
  std::string owner{};
  Api api = Api::openai;
  BatchState state = BatchState::validating;
  // How its lines run.
  std::string endpoint{};  ///< as the caller says it: /v1/chat/completions
  std::string client{};    ///< whose share its jobs take
  std::string lane{};
  std::string models{};    ///< that the caller may use, each on a line of its own; empty: all
  std::string headers{};   ///< of the call upstream, each on a line of its own: name, space, value
  std::string model{};     ///< of its first line
  std::string metadata{};  ///< JSON; empty: none
  std::string errors{};    ///< JSON array of what was wrong with the input; empty: nothing
  std::string input_file{}, output_file{}, error_file{};
  std::int64_t output_lifetime_ms = 0;  ///< of the files that it writes; 0: as the gateway says
  std::int64_t created_at = 0, in_progress_at = 0, finalizing_at = 0, cancelling_at = 0, ended_at = 0;
  std::int64_t deadline = 0, expires_at = 0;
  std::int64_t lines = 0, succeeded = 0, failed = 0, given_up = 0;
  std::int64_t started_to = 0;  ///< as BatchRunner::Batch
  BatchUsage usage{};
};

/// Which part of a list is asked for.
struct ListPage {
  // By ids, as these are in order: an item that was deleted still has its place.
  std::string after{};   ///< the id that the page begins behind; empty: from the first on
  std::string before{};  ///< the id that the page ends in front of; empty: no such
  std::size_t limit = 20;
  bool newest_first = true;
};

/// Refuses a folder that BatchStore would refuse, as far as that can be seen without opening or making
/// anything: another gateway may have it. Throws std::runtime_error, which says what to do.
void check_state_folder(const std::string& folder);

/// Files, batches and answers of lines, in a folder of the gateway's own: `gateway.db`, and a file for each
/// file in `files/`. One gateway at a time has it.
///
/// Everything is for one thread. What changes rows stands in a transaction(). All may throw StoreFault.
class BatchStore {
 public:
  /// Makes the folder where there is none, for its user alone; throws std::runtime_error, which says what to
  /// do, when it cannot be used, or is not empty and has no gateway.db. What an earlier life left half
  /// written is taken away. `vfs`: SQLite's file system layer for the rows; empty: its own.
  explicit BatchStore(const std::string& folder, const std::string& vfs = {});
  ~BatchStore();
  BatchStore(const BatchStore&) = delete;
  BatchStore& operator=(const BatchStore&) = delete;

  /// All that `work` does, or nothing of it; returns when it is on the disk. Throws StoreFault, and whatever
  /// `work` throws.
  void transaction(const std::function<void()>& work);

  /// A new id, as is_made_id() has it. Those of one prefix are in the order in which they were made, to the
  /// millisecond.
  std::string make_id(std::string_view prefix);

  // ---- files ----
  /// Writes a file's bytes to the disk, under an id that no row names yet.
  class Writing {
   public:
    Writing(BatchStore& store, const std::string& id);
    ~Writing();  ///< takes the bytes away unless keep() was called
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;
    void write(std::string_view bytes);
    /// Returns when all is on the disk.
    void sync();
    /// A row that was committed names the file.
    void keep() { kept_ = true; }
    std::int64_t bytes() const { return bytes_; }

   private:
    void put(std::string_view rest);
    void flush();
    std::string path_;
    std::string buffer_{};
    int fd_ = -1;
    std::int64_t bytes_ = 0;
    bool kept_ = false;
  };
  /// The row of a file whose bytes were written; sets its number.
  void add_file(StoredFile& file);
  std::optional<StoredFile> file(std::string_view id);
  std::vector<StoredFile> files(const std::string& owner, const std::string& purpose, const ListPage& page);
  /// Removes the row; the bytes go with drop_bytes(), after the commit.
  void remove_file(const std::string& id);
  void drop_bytes(const std::string& id) noexcept;
  /// Opens the bytes; the descriptor is the caller's. Throws StoreFault.
  int open_bytes(const std::string& id) const;
  std::int64_t files_bytes();  ///< of all files
  std::int64_t files_count(const std::string& owner);

  // ---- batches ----
  void add_batch(StoredBatch& batch);  ///< sets its number
  void update_batch(const StoredBatch& batch);
  std::optional<StoredBatch> batch(std::string_view id);
  std::vector<StoredBatch> batches(const std::string& owner, Api api, const ListPage& page);
  std::vector<StoredBatch> unfinished_batches();
  void remove_batch(std::int64_t number);

  // ---- answers of lines of batches that are not over ----
  void add_answer(std::int64_t batch, std::uint32_t line, LineOutcome outcome, std::string_view text);
  /// In the order of the lines, from `from` on, until `take` returns false. The text lives during the call.
  using TakeAnswer = std::function<bool(std::uint32_t line, LineOutcome outcome, std::string_view text)>;
  void read_answers(std::int64_t batch, std::uint32_t from, const TakeAnswer& take);
  struct Answered {
    std::vector<bool> lines{};
    std::int64_t succeeded = 0, failed = 0;
  };
  Answered answered(std::int64_t batch, std::uint32_t lines);
  /// Removes up to so many answers of batches that are over; false: there are none left.
  bool remove_old_answers(std::size_t count);

  // ---- whose the responses are that an upstream stores ----
  /// Keeps who made them; an id that is another's stays that. Of all it keeps the latest `most`.
  void add_responses(std::span<const OwnedResponse> made, std::size_t most);
  std::vector<OwnedResponse> responses();  ///< the oldest first

  /// Counts what is kept: `batches`, `files`, `file_bytes` and `database_bytes`.
  void count(BatchFigures& figures);

  /// What has expired at `now`.
  std::vector<std::string> expired_files(std::int64_t now, std::size_t count);
  std::vector<StoredBatch> expired_batches(std::int64_t now, std::size_t count);

 private:
  class Core;

  std::string folder_;
  std::unique_ptr<Core> core_;
};

}  // namespace lanemq::gateway
