// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/sqlite/sqlite_store.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "broker/core/base/check.hpp"
#include "broker/io/base/failpoint.hpp"
#include "broker/io/base/time_slice.hpp"
#include "broker/io/store/sqlite/sqlite_schema.hpp"
#include "common/signals/signals_blocked.hpp"

namespace lanemq::io {
namespace {

using namespace std::chrono_literals;

/// Bodies that are read between two commits.
constexpr std::size_t kReadsPerCommit = 64;
constexpr std::size_t kReadBytesPerCommit = 8u << 20;
/// The pause between two attempts to commit on a full disk.
constexpr auto kRetryPause = 50ms;
/// How often the disk's free room is asked for, while there is work or the disk is full.
constexpr auto kLookPause = 250ms;
/// The room is also asked for each time that this part of the reserve was written.
constexpr std::size_t kLooksPerReserve = 16;
/// Free pages are given back to the disk in steps of kTidyPages, with a pause between steps.
constexpr int kTidyPages = 256;
constexpr auto kTidyPause = 100ms;
/// Lower bounds on the pages that stay free for the next jobs: a number, and a part of the file.
constexpr std::int64_t kFreePagesKept = 256;
constexpr std::int64_t kFreePartKept = 4;
/// After so long without a commit the log's room is given back, too.
constexpr auto kIdleAfter = 1s;

std::string mib(std::uint64_t bytes) {
  const std::uint64_t tenths = bytes * 10 >> 20;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

std::string text_of(int code) {
  return std::string(sqlite3_errstr(code)) + " (" + std::to_string(code) + ")";
}

}  // namespace

// ---- the loop's thread --------------------------------------------------------------------------------

Result<std::unique_ptr<Store>> SqliteStore::open(const std::string& path, const StoreOptions& options) {
  auto opened = open_store_file(path, OpenFor::serving, options.vfs);
  if (!opened) return tl::unexpected(std::move(opened.error()));
  auto database = std::make_unique<sqlite::Database>(std::move(*opened));
  auto rows = StoreRows::prepare(*database);
  if (!rows)
    return failure(ErrorCode::internal, "the store " + path + " cannot be used: " + rows.error().message +
                                            "; " + what_to_do_when_damaged(path));
  std::unique_ptr<SqliteStore> store(new SqliteStore(path, std::move(database), std::move(*rows), options));
  if (const int code = store->mark_.open(path, options.vfs); code != SQLITE_OK)
    return failure(ErrorCode::internal, "the store " + path + " cannot be used: " + path +
                                            "-mark: " + text_of(code) +
                                            "; the broker must be able to write to its folder");
  store->names_.emplace(path);
  return store;
}

SqliteStore::SqliteStore(std::string path, std::unique_ptr<sqlite::Database> database, StoreRows rows,
                         const StoreOptions& options)
    : path_(std::move(path)),
      checkpoint_pages_(options.checkpoint_pages),
      database_(std::move(database)),
      rows_(std::move(rows)),
      reserve_(options.disk != nullptr ? *options.disk : disk_of_system_, path_, options.reserve_bytes) {
  sqlite3_wal_hook(
      database_->handle(),
      [](void* store, sqlite3*, const char*, int pages) {
        static_cast<SqliteStore*>(store)->log_pages_ = pages;
        return SQLITE_OK;
      },
      this);
  look_at_disk();
}

SqliteStore::~SqliteStore() {
  if (thread_.joinable()) {
    exchange_.end();
    thread_.join();
  }
  // After an error of the disk the log must stay: the next start finds out from it what the file holds. Else
  // the log is now written to the file and removed, so the mark must not claim it.
  const bool log_stays = failed() || mark_.clear() != SQLITE_OK;
  const bool gone = names_ && names_->gone();
  // Closing would remove a log by its name, which may be another store's by now.
  if (gone && !log_stays)
    sqlite3_wal_checkpoint_v2(database_->handle(), "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  if (gone || log_stays) sqlite3_db_config(database_->handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

Result<void> SqliteStore::load(StoreReader& reader) {
  LANEMQ_CHECK(!thread_.joinable());
  return rows_.tell(reader, path_);
}

std::optional<StoreRoom> SqliteStore::disk_room() const {
  const std::uint64_t free = free_bytes_.load(std::memory_order_relaxed);
  return StoreRoom{.file_bytes = file_bytes_.load(std::memory_order_relaxed),
                   .reserve_bytes = reserve_.bytes(),
                   .free_bytes = free == kFreeUnknown ? std::nullopt : std::optional(free)};
}

void SqliteStore::start_thread() {
  if (thread_.joinable()) return;
  const SignalsBlocked meanwhile;  // signals are for the loop's thread
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "lanemq-store");
}

std::uint64_t SqliteStore::submit(core::Writes& writes) {
  if (!failed()) start_thread();
  return exchange_.submit(writes);
}

void SqliteStore::read(const std::vector<std::uint64_t>& numbers) {
  ask(numbers, false);
}

void SqliteStore::read_results(const std::vector<std::uint64_t>& numbers) {
  ask(numbers, true);
}

void SqliteStore::ask(const std::vector<std::uint64_t>& numbers, bool of_result) {
  if (numbers.empty()) return;
  start_thread();
  exchange_.ask(numbers, of_result);
}

Result<void> SqliteStore::begin_backup(const std::string& path) {
  if (path.empty()) return failure(ErrorCode::bad_request, "a backup needs the path of a new file");
  if (condition() == StoreCondition::failed) return failure(ErrorCode::internal, trouble());
  start_thread();
  {
    const Lock lock = exchange_.lock();
    if (backup_runs_)
      return failure(ErrorCode::conflict, "a backup is being written already; wait until it has ended");
    backup_runs_ = true;
    backup_asked_ = path;
  }
  exchange_.wake();
  return {};
}

std::optional<Result<void>> SqliteStore::take_backup() {
  const Lock lock = exchange_.lock();
  return std::exchange(backup_done_, std::nullopt);
}

// ---- the store's thread: what to do next --------------------------------------------------------------

void SqliteStore::run() {
  ask_for_time_slice(std::chrono::nanoseconds(0));  // bulk work: the loop gets its turn first
  Lock lock = exchange_.lock();
  while (true) {
    wait_for_work(lock);
    if (may_stop(lock)) break;
    take_work(lock);
    lock.unlock();
    work();
    lock.lock();
  }
  backup_.reset();
}

/// A round of work, each part of which is bounded.
void SqliteStore::work() {
  if (failed()) return;
  const auto next_part = [this] { pulse_.fetch_add(2, std::memory_order_relaxed); };
  pulse_.fetch_add(1, std::memory_order_relaxed);
  commit_next();
  next_part();
  read_bodies();
  next_part();
  begin_asked_backup();
  step_backup();
  next_part();
  if (log_pages_ >= checkpoint_pages_) checkpoint();
  next_part();
  tidy();
  look_at_disk();
  if (names_->look()) exchange_.signal();
  pulse_.fetch_add(1, std::memory_order_relaxed);
}

/// Returns when there is something to do, or the disk is to be asked for its room.
void SqliteStore::wait_for_work(Lock& lock) {
  if (failed() && std::exchange(backup_runs_, false)) {
    backup_.reset();
    backup_done_ = failure(ErrorCode::internal, "the backup was not written: the store has failed");
    exchange_.signal();
  }
  exchange_.set_idle(lock, is_done(lock));
  const auto incoming = [this, &lock] { return has_incoming(lock); };
  if (can_go_on() || incoming()) return;
  if (failed()) return exchange_.wait(lock, incoming);
  // Others may fill the disk while the store has nothing to do.
  auto until = stuck_ ? retry_at_ : full() ? look_at_ : names_->due();
  if (untidy_ && !stuck_) until = std::min(until, tidy_at_);
  exchange_.wait_until(lock, until, incoming);
}

bool SqliteStore::may_stop(const Lock& lock) const {
  return exchange_.ends(lock) && is_done(lock);
}

/// Whether everything submitted is committed, or cannot be.
bool SqliteStore::is_done(const Lock& lock) const {
  return (writes_.empty() && !exchange_.has_turns(lock)) || stuck_ || failed();
}

/// Whether the loop has submitted something that can be taken.
bool SqliteStore::has_incoming(const Lock& lock) const {
  if (exchange_.ends(lock)) return true;
  if (failed()) return false;
  return (exchange_.has_turns(lock) && writes_.empty()) || (exchange_.has_asks(lock) && asks_.empty()) ||
         backup_asked_;
}

/// Whether some of the taken work can be done now.
bool SqliteStore::can_go_on() const {
  if (failed()) return false;
  return (!writes_.empty() && !stuck_) || (!asks_.empty() && can_read(asks_.front())) || backup_;
}

void SqliteStore::take_work(const Lock& lock) {
  if (writes_.empty()) exchange_.take(lock, writes_);
  if (asks_.empty()) exchange_.take(lock, asks_);
  if (!backup_) backup_wanted_ = std::exchange(backup_asked_, std::nullopt);
}

// ---- the store's thread: commits ----------------------------------------------------------------------

void SqliteStore::commit_next() {
  if (writes_.empty() || (stuck_ && Clock::now() < retry_at_)) return;
  // On a full disk only one turn: a small one may still fit.
  const std::size_t count = full() ? 1 : turns_of_transaction(writes_);
  if (const auto done = commit(count); done)
    committed_now(count);
  else
    not_committed(done.error());
}

sqlite::Outcome<void> SqliteStore::commit(std::size_t count) {
  if (auto begun = rows_.begin(); !begun) return begun;
  reached(Failpoint::store_before_write);
  for (std::size_t at = writes_.next; at < writes_.next + count; ++at)
    for (const core::Write& write : writes_.items[at]) {
      if (auto done = rows_.apply(writes_.items[at], write); !done) return done;
      reached(Failpoint::store_mid_batch);
    }
  return rows_.commit();
}

void SqliteStore::committed_now(std::size_t count) {
  reached(Failpoint::store_after_commit);
  mark_log();
  if (failed()) return;
  stuck_ = false;
  written_ += exchange_.committed_now(writes_, count);
  commit_at_ = Clock::now();
  if (!untidy_) tidy_at_ = commit_at_ + kIdleAfter;
  untidy_ = true;
}

/// Marks the log before the loop hears of the commit: what clients were told must be missed if it is lost.
void SqliteStore::mark_log() {
  const auto refused = [this](int code) {
    fail("while marking its log", sqlite::Fault{.code = code, .message = text_of(code)});
  };
  if (log_pages_ == 0) return;  // nothing was changed
  if (!log_salts_) {
    sqlite3_file* log = nullptr;
    char salts[8];
    sqlite3_file_control(database_->handle(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    const int code = log->pMethods->xRead(log, salts, sizeof salts, LogExtent::kSaltsAt);
    if (code != SQLITE_OK) return refused(code);
    log_salts_ = LogExtent::salts_of(salts);
  }
  const int code = mark_.write({.salts = *log_salts_, .pages = static_cast<std::uint64_t>(log_pages_)});
  // On a full disk the older mark stays, which claims less.
  if (code != SQLITE_OK && code != SQLITE_FULL) refused(code);
}

void SqliteStore::not_committed(const sqlite::Fault& fault) {
  rows_.rollback();
  if (!fault.full()) return fail("while committing", fault);
  const bool has_reserve = reserve_.held();
  reserve_.release();
  stuck_ = true;
  retry_at_ = Clock::now() + (has_reserve ? 0ms : kRetryPause);
  set_full(fault.message);
  // After a checkpoint the log begins anew and needs less room than it had.
  if (log_pages_ > 0) checkpoint();
}

/// Writes the log to the file; the next commit begins the log anew.
void SqliteStore::checkpoint() {
  if (failed()) return;
  reached(Failpoint::store_in_checkpoint);
  const int code =
      sqlite3_wal_checkpoint_v2(database_->handle(), "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  log_pages_ = 0;
  log_salts_.reset();
  if (code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED) return;
  const sqlite::Fault fault = database_->fault();
  if (!fault.full()) return fail("while writing its log to the file", fault);
  reserve_.release();
  set_full(fault.message);
}

/// Gives room back to the disk, a little at a time.
void SqliteStore::tidy() {
  if (failed() || !untidy_ || !writes_.empty() || backup_ || Clock::now() < tidy_at_) return;
  tidy_at_ = Clock::now() + kTidyPause;
  const auto refused = [this](const sqlite::Fault& fault) {
    rows_.rollback();
    // On a full disk giving room back needs room, too. The pages of ended jobs serve new ones.
    if (!fault.full()) return fail("while giving room back", fault);
    tidy_at_ = Clock::now() + kIdleAfter;
  };
  const auto free_pages = database_->integer("PRAGMA freelist_count");
  const auto pages = database_->integer("PRAGMA page_count");
  if (!free_pages || !pages) return refused(!free_pages ? free_pages.error() : pages.error());
  // On a full disk every page is given back, and the log's room at once.
  const std::int64_t kept = full() ? kFreePagesKept : std::max(kFreePagesKept, *pages / kFreePartKept);
  if (*free_pages > kept) {
    const auto done = database_->execute("PRAGMA incremental_vacuum(" + std::to_string(kTidyPages) + ")");
    if (!done) refused(done.error());
    return;
  }
  if (!full() && Clock::now() < commit_at_ + kIdleAfter) return;
  reached(Failpoint::store_in_checkpoint);
  if (const int marked = mark_.clear(); marked != SQLITE_OK)
    return refused(sqlite::Fault{.code = marked, .message = text_of(marked)});
  const int code =
      sqlite3_wal_checkpoint_v2(database_->handle(), "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  log_pages_ = 0;
  log_salts_.reset();
  if (code != SQLITE_OK) return refused(database_->fault());
  untidy_ = false;
}

// ---- the store's thread: reading and copying ----------------------------------------------------------

/// A body is read as of what was submitted before the request.
bool SqliteStore::can_read(const Asked& asked) const {
  return asked.after <= exchange_.committed();
}

sqlite::Outcome<StoredBody> SqliteStore::read_one(const Asked& asked) {
  StoredBody found{.number = asked.number, .body = {}, .of_result = asked.of_result};
  if (!asked.of_result) {
    auto body = rows_.body(asked.number);
    if (!body) return tl::unexpected(std::move(body.error()));
    found.body = std::move(*body);
    return found;
  }
  auto row = rows_.result(asked.number);
  if (!row) return tl::unexpected(std::move(row.error()));
  if (!*row) return found;
  found.body = std::move((*row)->body);
  found.record = std::move((*row)->record);
  return found;
}

void SqliteStore::read_bodies() {
  std::size_t bytes = 0;
  while (found_.size() < kReadsPerCommit && bytes < kReadBytesPerCommit && !asks_.empty() && !failed()) {
    const Asked& asked = asks_.front();
    // A full disk may not commit for long. A job that is in the file can be read all the same.
    if (!can_read(asked) && !stuck_) break;
    auto found = read_one(asked);
    if (!found)
      return fail(asked.of_result ? "while reading a result" : "while reading a job", found.error());
    if (!found->body && !can_read(asked)) break;
    if (found->body) bytes += found->body->size();
    found_.push_back(std::move(*found));
    ++asks_.next;
  }
  exchange_.give(found_);
}

void SqliteStore::begin_asked_backup() {
  if (failed() || !backup_wanted_) return;
  auto begun = SqliteBackup::begin(*database_, *std::exchange(backup_wanted_, std::nullopt));
  if (!begun) return end_backup(tl::unexpected(std::move(begun.error())));
  backup_.emplace(std::move(*begun));
}

void SqliteStore::step_backup() {
  if (!backup_ || failed()) return;
  const auto done = backup_->step();
  if (!done)
    end_backup(tl::unexpected(done.error()));
  else if (*done)
    end_backup({});
}

void SqliteStore::end_backup(Result<void> how) {
  backup_.reset();
  {
    const Lock lock = exchange_.lock();
    backup_runs_ = false;
    backup_done_ = std::move(how);
  }
  exchange_.signal();
}

// ---- the store's thread: how it is --------------------------------------------------------------------

/// Bytes that jobs can still take: free on the disk, and free pages of the file.
std::uint64_t SqliteStore::room() const {
  const auto pages = database_->integer("PRAGMA freelist_count");
  const auto page_bytes = database_->integer("PRAGMA page_size");
  const std::uint64_t inside = pages && page_bytes ? static_cast<std::uint64_t>(*pages * *page_bytes) : 0;
  return reserve_.free_bytes().value_or(UINT64_MAX / 2) + inside;
}

void SqliteStore::look_at_disk() {
  const bool much_was_written = written_ > reserve_.bytes() / kLooksPerReserve;
  if (failed() || stuck_ || (Clock::now() < look_at_ && !much_was_written)) return;
  look_at_ = Clock::now() + kLookPause;
  written_ = 0;
  const auto free = reserve_.free_bytes();
  free_bytes_.store(free.value_or(kFreeUnknown), std::memory_order_relaxed);
  file_bytes_.store(reserve_.store_bytes(), std::memory_order_relaxed);
  if (!free) {
    if (full()) set_good();  // the free room is unknown: commits will tell
    return;
  }
  if (!full()) {
    if (!reserve_.is_low(*free)) return;
    if (const std::uint64_t left = room(); reserve_.is_low(left))
      set_full("the disk has " + mib(left) + " left, and " + mib(reserve_.bytes()) +
               " are kept for running jobs (store_reserve)");
  } else if (reserve_.hold() && reserve_.has_again(room())) {
    set_good();
  }
}

void SqliteStore::set_full(const std::string& why) {
  if (exchange_.set_condition(StoreCondition::full, "the store " + path_ + " is full: " + why +
                                                        "; running jobs may finish, new ones are taken "
                                                        "again when there is room: free some of the disk"))
    tidy_at_ = Clock::now();
}

void SqliteStore::set_good() {
  exchange_.set_condition(StoreCondition::good, {});
}

void SqliteStore::fail(const std::string& while_doing, const sqlite::Fault& fault) {
  const bool damaged = fault.kind() == SQLITE_CORRUPT || fault.kind() == SQLITE_NOTADB;
  exchange_.set_condition(
      StoreCondition::failed,
      "the store " + path_ + " has failed " + while_doing + ": " + fault.message +
          "; nothing is committed any more. " +
          (damaged ? "Stop the broker, then " + what_to_do_when_damaged(path_)
                   : "Look at the disk and the system's log, then start the broker again: it goes on with "
                     "what is on the disk"));
}

}  // namespace lanemq::io
