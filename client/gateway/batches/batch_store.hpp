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

#include "client/gateway/apis/api.hpp"
#include "client/gateway/door/batch_figures.hpp"
#include "client/gateway/door/response_owners.hpp"

namespace lanemq::gateway {

/// The disk refused something; nothing of the transaction has happened.
struct StoreFault : std::runtime_error {
  StoreFault(const std::string& what, bool is_full) : std::runtime_error(what), full(is_full) {}
  bool full;  ///< the disk is full
};

/// Prefix of files' ids.
inline constexpr std::string_view kFileIdPrefix = "file-";

/// Whether `text` has the form of BatchStore::make_id(): the prefix and a ULID.
bool is_made_id(std::string_view text, std::string_view prefix);

// Times are in ms since 1970; 0: not yet, or never.

/// A file from a caller, or for one.
struct StoredFile {
  std::int64_t number = 0;  ///< rises with each file
  std::string id{};
  std::string owner{};  ///< other callers do not see the file
  std::string purpose{}, filename{};
  std::int64_t bytes = 0;
  std::int64_t created_at = 0, expires_at = 0;
  bool hidden = false;  ///< of a batch of messages; in no list of files
};

enum class BatchState : unsigned char {
  validating,   ///< its input is being read
  in_progress,  ///< its lines run
  finalizing,   ///< its output is being written
  completed,
  failed,  ///< its input was invalid
  expired,
  cancelled
};
bool is_over(BatchState state);

/// How a line ended.
enum class LineOutcome : unsigned char { succeeded = 1, failed = 2 };

struct BatchUsage {
  std::int64_t input_tokens = 0, output_tokens = 0, cached_tokens = 0, reasoning_tokens = 0;
};

struct StoredBatch {
  std::int64_t number = 0;  ///< rises with each batch
  std::string id{};
  std::string owner{};
  const Api* api = &kOpenai;
  BatchState state = BatchState::validating;
  // How its lines run:
  std::string endpoint{};  ///< as the caller named it: /v1/chat/completions
  std::string client{};    ///< in whose share of the broker its jobs count
  std::string lane{};
  std::string models{};    ///< that the caller may use, one per line; empty: all
  std::string headers{};   ///< for the upstream, one per line: name, space, value
  std::string model{};     ///< of the first line
  std::string metadata{};  ///< JSON; empty: none
  std::string errors{};    ///< JSON array of the input's faults; empty: none
  std::string input_file{}, output_file{}, error_file{};
  std::int64_t output_lifetime_ms = 0;  ///< of the files it writes; 0: the gateway's default
  std::int64_t created_at = 0, in_progress_at = 0, finalizing_at = 0, cancelling_at = 0, ended_at = 0;
  std::int64_t deadline = 0, expires_at = 0;
  std::int64_t lines = 0, succeeded = 0, failed = 0, given_up = 0;
  std::int64_t started_to = 0;  ///< as BatchRunner::Batch::started_to
  BatchUsage usage{};
};

/// A request that made a file or a batch, by which it is known when it is asked again.
struct AskedBefore {
  std::string name{};     ///< of its caller and its Idempotency-Key, or its body
  std::string request{};  ///< a hash of its path and body
  std::string made{};     ///< the id of what it made
  std::int64_t until = 0;
};

/// Which part of a list a caller wants.
struct ListPage {
  // By id, since ids are ordered: a deleted item still has its place.
  std::string after{};   ///< the page begins behind this id; empty: with the first
  std::string before{};  ///< the page ends in front of this id; empty: no bound
  std::size_t limit = 20;
  bool newest_first = true;
};

/// Refuses a folder that BatchStore would refuse, as far as that shows without opening or creating anything:
/// another gateway may have it open. Throws std::runtime_error with advice.
void check_state_folder(const std::string& folder);

/// Files, batches and answers of lines in a folder of the gateway: `gateway.db`, and a file in `files/` for
/// each file. One gateway at a time has it open.
///
/// Not thread-safe. Changes of rows must be inside transaction(). All functions may throw StoreFault.
class BatchStore {
 public:
  /// Creates a missing folder, for its user alone, and deletes what an earlier life left unfinished. Throws
  /// std::runtime_error with advice where the folder cannot be used, or is not empty and has no gateway.db.
  /// `vfs`: SQLite's file system layer for the rows; empty: the default.
  explicit BatchStore(const std::string& folder, const std::string& vfs = {});
  ~BatchStore();
  BatchStore(const BatchStore&) = delete;
  BatchStore& operator=(const BatchStore&) = delete;

  /// Does all of `work` or nothing; returns when it is on disk. Throws StoreFault, and what `work` throws.
  void transaction(const std::function<void()>& work);

  /// A new id; see is_made_id(). Ids of one prefix are ordered by time, to the millisecond.
  std::string make_id(std::string_view prefix);

  // ---- files ----
  /// Writes a file's bytes, under an id that no row names yet.
  class Writing {
   public:
    Writing(BatchStore& store, const std::string& id);
    ~Writing();  ///< deletes the bytes unless keep() was called
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;
    void write(std::string_view bytes);
    /// Returns when all bytes are on disk.
    void sync();
    /// To be called after a row that names the file was committed.
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
  /// Adds the row of a file whose bytes are written; sets its number.
  void add_file(StoredFile& file);
  std::optional<StoredFile> file(std::string_view id);
  std::vector<StoredFile> files(const std::string& owner, const std::string& purpose, const ListPage& page);
  /// Removes the row; after the commit drop_bytes() removes the bytes.
  void remove_file(const std::string& id);
  void drop_bytes(const std::string& id) noexcept;
  /// Opens a file's bytes; the caller closes the descriptor. Throws StoreFault.
  int open_bytes(const std::string& id) const;
  std::int64_t files_bytes();                          ///< of all files
  std::int64_t files_bytes(const std::string& owner);  ///< of the owner's
  std::int64_t files_count(const std::string& owner);

  // ---- batches ----
  void add_batch(StoredBatch& batch);  ///< sets its number
  /// The request of that name, if it is not too long ago.
  std::optional<AskedBefore> asked_before(const std::string& name, std::int64_t now);
  /// Adds one, or replaces it; those whose time is over go.
  void add_asked(const AskedBefore& asked, std::int64_t now);
  void update_batch(const StoredBatch& batch);
  std::optional<StoredBatch> batch(std::string_view id);
  std::vector<StoredBatch> batches(const std::string& owner, const Api& api, const ListPage& page);
  std::vector<StoredBatch> unfinished_batches();
  void remove_batch(std::int64_t number);

  // ---- answers of lines of batches that are not over ----
  void add_answer(std::int64_t batch, std::uint32_t line, LineOutcome outcome, std::string_view text);
  /// Passes answers in the order of lines, from `from` on, until `take` returns false. The text is valid
  /// during the call.
  using TakeAnswer = std::function<bool(std::uint32_t line, LineOutcome outcome, std::string_view text)>;
  void read_answers(std::int64_t batch, std::uint32_t from, const TakeAnswer& take);
  struct Answered {
    std::vector<bool> lines{};
    std::int64_t succeeded = 0, failed = 0;
  };
  Answered answered(std::int64_t batch, std::uint32_t lines);
  /// Removes up to `count` answers of batches that are over; false: none are left.
  bool remove_old_answers(std::size_t count);

  // ---- owners of responses that an upstream stores ----
  /// Stores owners; an id that has an owner keeps it. Keeps the latest `most`.
  void add_responses(std::span<const OwnedResponse> made, std::size_t most);
  std::vector<OwnedResponse> responses();  ///< the oldest first

  /// Sets the counts of what is kept: `batches`, `files`, `file_bytes` and `database_bytes`.
  void count(BatchFigures& figures);

  /// Up to `count` that have expired at `now`.
  std::vector<std::string> expired_files(std::int64_t now, std::size_t count);
  std::vector<StoredBatch> expired_batches(std::int64_t now, std::size_t count);

 private:
  class Core;

  std::int64_t of_owner(const std::string& query, const std::string& owner);

  std::string folder_;
  std::unique_ptr<Core> core_;
};

}  // namespace lanemq::gateway
