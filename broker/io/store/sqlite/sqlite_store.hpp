// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "broker/io/store/sqlite/disk_reserve.hpp"
#include "broker/io/store/sqlite/log_mark.hpp"
#include "broker/io/store/sqlite/sqlite_backup.hpp"
#include "broker/io/store/sqlite/sqlite_rows.hpp"
#include "broker/io/store/sqlite/store_names.hpp"
#include "broker/io/store/store.hpp"
#include "broker/io/store/store_exchange.hpp"
#include "common/sqlite/database.hpp"

namespace lanemq::io {

/// Keeps jobs in an SQLite file. A thread of its own commits in one transaction what was submitted during the
/// last fsync; the loop takes its next turns meanwhile.
///
/// A full disk is `full`: the reserve is released, and the store repeats what it could not commit until there
/// is room; nothing is lost or reordered. Any other error of disk or file is `failed`, for good: after a
/// failed fsync nobody knows what is on disk, and the next fsync would report success. The next start reads
/// what is there.
///
/// A store whose files were removed or replaced cannot keep its promise: it commits on into the files that it
/// has open, from which a backup can be made.
///
/// Threads: the constructor and all of Store belong to the loop's thread. The private part below `the store's
/// thread` belongs to the other one, from the first submit(), read() or begin_backup() on.
class SqliteStore final : public Store {
 public:
  static Result<std::unique_ptr<Store>> open(const std::string& path, const StoreOptions& options);
  /// Commits what was submitted, unless the store has failed or the disk is full.
  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  std::string_view name() const override { return "sqlite"; }
  StorePromise promise() const override { return names_->gone() ? StorePromise::broken : StorePromise::kept; }
  std::string promise_trouble() const override { return names_->trouble(); }
  std::optional<StoreRoom> disk_room() const override;
  bool durable() const override { return true; }
  Result<void> load(StoreReader& reader) override;
  std::uint64_t submit(core::Writes& writes) override;
  std::uint64_t committed() const override { return exchange_.committed(); }
  std::size_t backlog_bytes() const override { return exchange_.backlog_bytes(); }
  void read(const std::vector<std::uint64_t>& numbers) override;
  void read_results(const std::vector<std::uint64_t>& numbers) override;
  void take_bodies(std::vector<StoredBody>& bodies) override { exchange_.take_bodies(bodies); }
  std::uint64_t pulse() const override { return pulse_.load(std::memory_order_relaxed); }
  StoreCondition condition() const override { return exchange_.condition(); }
  std::string trouble() const override { return exchange_.trouble(); }
  int descriptor() const override { return exchange_.descriptor(); }
  void clear_signal() override { exchange_.clear_signal(); }
  Result<void> begin_backup(const std::string& path) override;
  std::optional<Result<void>> take_backup() override;
  void flush() override { exchange_.flush(); }

 private:
  using Clock = StoreExchange::Clock;
  using Lock = StoreExchange::Lock;
  using Asked = StoreExchange::Asked;
  static constexpr std::uint64_t kFreeUnknown = UINT64_MAX;

  SqliteStore(std::string path, std::unique_ptr<sqlite::Database> database, StoreRows rows,
              const StoreOptions& options);
  void start_thread();
  void ask(const std::vector<std::uint64_t>& numbers, bool of_result);

  // ---- the store's thread ----
  void run();
  void wait_for_work(Lock& lock);
  bool may_stop(const Lock& lock) const;
  bool is_done(const Lock& lock) const;
  bool has_incoming(const Lock& lock) const;
  bool can_go_on() const;
  void take_work(const Lock& lock);
  void work();
  void commit_next();
  sqlite::Outcome<void> commit(std::size_t count);
  void committed_now(std::size_t count);
  void not_committed(const sqlite::Fault& fault);
  sqlite::Outcome<StoredBody> read_one(const Asked& asked);
  void read_bodies();
  bool can_read(const Asked& asked) const;
  void begin_asked_backup();
  void step_backup();
  void end_backup(Result<void> how);
  void checkpoint();
  void mark_log();
  void tidy();
  void look_at_disk();
  std::uint64_t room() const;
  void set_full(const std::string& why);
  void set_good();
  void fail(const std::string& while_doing, const sqlite::Fault& fault);
  bool failed() const { return exchange_.is(StoreCondition::failed); }
  bool full() const { return exchange_.is(StoreCondition::full); }

  const std::string path_;
  const int checkpoint_pages_;
  Disk disk_of_system_;
  const std::unique_ptr<sqlite::Database> database_;
  StoreRows rows_;
  DiskReserve reserve_;
  LogMark mark_;
  std::optional<StoreNames> names_;  ///< there once all its files are open
  StoreExchange exchange_;
  std::thread thread_;

  // Written by the store's thread, read by the loop's.
  std::atomic<std::uint64_t> pulse_{0};
  std::atomic<std::uint64_t> file_bytes_{0};
  std::atomic<std::uint64_t> free_bytes_{kFreeUnknown};

  // Under the exchange's lock.
  std::optional<std::string> backup_asked_;
  std::optional<Result<void>> backup_done_;
  bool backup_runs_ = false;

  // For the store's thread alone.
  StoreExchange::Queue<core::Writes> writes_;
  StoreExchange::Queue<Asked> asks_;
  std::vector<StoredBody> found_;
  std::optional<std::string> backup_wanted_;
  std::optional<SqliteBackup> backup_;
  int log_pages_ = 0;                       ///< in the log, not in the file yet
  std::optional<std::uint64_t> log_salts_;  ///< of the present log; none: it may have begun anew
  bool stuck_ = false;                      ///< the next transaction did not fit on the disk
  Clock::time_point retry_at_{};            ///< when it is tried again
  bool untidy_ = false;                     ///< there may be room to give back
  Clock::time_point tidy_at_{};             ///< when tidy() may run next
  Clock::time_point commit_at_{};           ///< of the last commit
  Clock::time_point look_at_{};             ///< when the disk may be asked next
  std::size_t written_ = 0;                 ///< bytes since the last look
};

}  // namespace lanemq::io
