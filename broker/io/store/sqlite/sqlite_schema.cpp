// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/sqlite/sqlite_schema.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/io/store/sqlite/log_mark.hpp"
#include "common/sqlite/file_header.hpp"

namespace lanemq::io {
namespace {

constexpr const char* kSteps[] = {
    R"(CREATE TABLE job (number INTEGER PRIMARY KEY, state BLOB NOT NULL, state_checksum INTEGER NOT NULL,
                         record BLOB NOT NULL, body BLOB, body_bytes INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;
       CREATE TABLE body (number INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
       CREATE TABLE result (number INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, record BLOB NOT NULL,
                            body BLOB NOT NULL) STRICT;
       CREATE TABLE note (name TEXT PRIMARY KEY, checksum INTEGER NOT NULL, record BLOB NOT NULL) STRICT, WITHOUT ROWID;)",
    // Results are kept for long, so their bodies are read on demand. body_bytes: of a body in result_body.
    R"(ALTER TABLE result ADD COLUMN body_bytes INTEGER NOT NULL DEFAULT 0;
       CREATE TABLE result_body (number INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;)",
    // A result's record now has its client in the middle, which an older version would read wrongly. Older
    // records stay as they are.
    "",
    // Notes now count the jobs of groups. An older version would run these jobs, count none of them, and
    // leave the notes as they are; this one would then never see the group's end.
    "",
};

/// Files up to this size are checked page by page at the start. Of larger ones only the pages that are read
/// are checked, then and later.
constexpr std::uint64_t kCheckedAtStartBytes = 64u << 20;

/// SQLite's page cache, in KiB.
constexpr const char* kCacheSize = "PRAGMA cache_size=-16384";

tl::unexpected<Error> unusable(const std::string& path, const std::string& why,
                               const std::string& what_to_do) {
  return failure(ErrorCode::internal, "the store " + path + " cannot be used: " + why + "; " + what_to_do);
}

tl::unexpected<Error> unusable(const std::string& path, const sqlite::Fault& fault) {
  switch (fault.kind()) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return unusable(path, "another process has it open",
                      "stop the other broker (or sqlite3 shell), or name another file with --store");
    case SQLITE_NOTADB:
      return unusable(path, "it is not a database, or its header is damaged", what_to_do_when_damaged(path));
    case SQLITE_CORRUPT:
    case SQLITE_ERROR:  // the tables are not those of the version
      return unusable(path, fault.message, what_to_do_when_damaged(path));
    case SQLITE_FULL:
      return failure(ErrorCode::store_full, "the store " + path + " cannot be opened: " + fault.message +
                                                "; free some of the disk, or name another file with --store");
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return unusable(
          path, fault.message,
          "the broker must be able to read and write the file and its folder; mend their owner or "
          "mode, or name another file with --store");
    default:
      return unusable(path, fault.message, "look at the disk and the system's log, then start again");
  }
}

/// Checks by the system's means that a path can be a store's file.
Result<void> check_kind(const std::string& path, OpenFor purpose) {
  struct stat file {};
  const bool exists = stat(path.c_str(), &file) == 0;
  if (!exists && errno != ENOENT)
    return unusable(path, std::strerror(errno), "name another file with --store, or mend the path");
  if (exists && !S_ISREG(file.st_mode))
    return unusable(path, "it is not a regular file", "name a file with --store sqlite:PATH");
  if (!exists && purpose == OpenFor::checking)
    return unusable(path, "there is no such file", "name the broker's file with --store sqlite:PATH");
  return {};
}

/// Checks that an empty file is a new store. A mark beside it tells of a lost one: marks are written only
/// after the tables are on disk.
Result<void> check_is_new(const std::string& path, const std::string& vfs) {
  const auto said = LogMark::read(path, vfs);
  if (!said) return {};
  const std::string what =
      said->pages == 0 ? "a store was here"
                       : std::to_string(said->pages) + " pages were committed to its log " + path + "-wal";
  return unusable(path, "it holds no store, but " + path + "-mark says that " + what,
                  "put back the file and the log that belong to the mark, " + what_to_do_when_damaged(path));
}

/// Checks that the file exists: SQLite would replace a missing or empty one, and drop the log beside it.
Result<void> check_file_is_there(const std::string& path, const std::string& vfs) {
  const std::string log = path + "-wal";
  const bool has_file = sqlite::has_content(path, vfs), has_log = sqlite::has_content(log, vfs);
  if (has_log && !has_file)
    return unusable(path, "it is missing or empty, but its log " + log + " is there",
                    "put both back, " + what_to_do_when_damaged(path));
  if (!has_file) return check_is_new(path, vfs);
  return {};
}

/// Checks that the log is whole: SQLite would not notice what it has lost. Requires: no other process has the
/// file open.
Result<void> check_log_is_whole(const std::string& path, const std::string& vfs) {
  const auto whole = check_log(path, vfs);
  if (whole) return {};
  return unusable(path, whole.error().message,
                  "put back the log that belongs to the file, or restore a backup; to go on without what is "
                  "missing, remove " +
                      path + "-mark");
}

/// Creates the file for its user alone, since it has bodies of jobs; SQLite would use the umask. Before
/// SQLite opens it, since closing a descriptor drops all locks on the file.
Result<void> make_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) {
    ::close(file);
    return {};
  }
  if (errno == EEXIST) return {};
  const std::string why = std::strerror(errno);
  return unusable(path, "it cannot be made (" + why + ")",
                  "the folder must exist and be writable for the broker; make it, or name another file with "
                  "--store sqlite:PATH");
}

/// The checks to be made before SQLite opens the file.
Result<void> check_files(const std::string& path, OpenFor purpose, const std::string& vfs) {
  const bool of_system = vfs.empty();
  if (of_system)
    if (auto usable = check_kind(path, purpose); !usable) return usable;
  if (auto there = check_file_is_there(path, vfs); !there) return there;
  if (of_system && purpose == OpenFor::serving) return make_file(path);
  return {};
}

sqlite::Outcome<void> set_up(sqlite::Database& database) {
  // Exclusive first: the log's index is then in this process and no other can open the file. So SQLite's bug
  // that loses commits when two connections write and checkpoint at once (3.7.0 to 3.51.2) cannot happen.
  return database.execute("PRAGMA locking_mode=EXCLUSIVE")
      .and_then([&] { return database.execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON"); })
      .and_then([&] { return database.execute(kCacheSize); })
      .and_then([&] { return database.execute("PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0"); });
}

/// Requires: the file is known to be a store's, or empty. Writes to it.
sqlite::Outcome<void> set_journal(sqlite::Database& database) {
  {
    auto statement = database.prepare("PRAGMA journal_mode=WAL");
    if (!statement) return tl::unexpected(statement.error());
    const auto row = statement->step();
    if (!row) return tl::unexpected(row.error());
    if (!*row || statement->bytes(0) != "wal")
      return tl::unexpected(sqlite::Fault{.code = SQLITE_CANTOPEN,
                                          .message = "its file system does not take a write-ahead log"});
    // The change is committed together with the row that records it.
    if (auto done = statement->run(); !done) return done;
  }
  // The store makes checkpoints itself: after it has told the loop of the commit, not before.
  return database.execute(
      "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit=67108864");
}

/// Whether the file's header states a write-ahead log. A damaged header may not, and SQLite would then drop
/// the log.
sqlite::Outcome<bool> journal_is_log(sqlite::Database& database) {
  auto statement = database.prepare("PRAGMA journal_mode");
  if (!statement) return tl::unexpected(statement.error());
  const auto row = statement->step();
  if (!row) return tl::unexpected(row.error());
  return *row && statement->bytes(0) == "wal";
}

sqlite::Outcome<void> migrate(sqlite::Database& database, std::int64_t version,
                              std::span<const char* const> steps) {
  auto done = database.execute("BEGIN IMMEDIATE");
  for (auto at = static_cast<std::size_t>(version); done && at < steps.size(); ++at)
    done = database.execute(steps[at]);
  if (done)
    done = database.execute("PRAGMA application_id=" + std::to_string(kApplicationId) +
                            "; PRAGMA user_version=" + std::to_string(steps.size()));
  if (done) done = database.execute("COMMIT");
  return done;
}

/// Checks each page of a file that is small enough.
Result<void> check_pages(sqlite::Database& database, const std::string& path) {
  const auto pages = database.integer("PRAGMA page_count");
  const auto page_bytes = database.integer("PRAGMA page_size");
  if (!pages) return unusable(path, pages.error());
  if (!page_bytes) return unusable(path, page_bytes.error());
  if (static_cast<std::uint64_t>(*pages) * static_cast<std::uint64_t>(*page_bytes) > kCheckedAtStartBytes)
    return {};
  auto check = database.prepare("PRAGMA quick_check(1)");
  if (!check) return unusable(path, check.error());
  const auto row = check->step();
  if (!row) return unusable(path, row.error());
  if (const std::string_view said = check->bytes(0); *row && said != "ok")
    return unusable(path, std::string(said), what_to_do_when_damaged(path));
  return {};
}

constexpr const char* kOtherFile = "name another file with --store sqlite:PATH; this one was left as it is";

Result<void> refuse_newer(const std::string& path, std::int64_t version, std::int64_t newest) {
  if (version <= newest) return {};
  return unusable(path,
                  "a newer version of the broker has written it (schema " + std::to_string(version) +
                      ", this one knows " + std::to_string(newest) + ")",
                  "start the newer version, or restore a backup that this one has written");
}

/// The kind of a file's contents.
struct FileKind {
  bool is_new;  ///< empty: a crash at its creation may have left it so
  std::int64_t version;
};

/// Reads the header; from here on no other process has the file open.
Result<FileKind> identify(sqlite::Database& database, const std::string& path, std::int64_t newest) {
  const auto application = database.integer("PRAGMA application_id");
  if (!application) return unusable(path, application.error());
  const auto version = database.integer("PRAGMA user_version");
  if (!version) return unusable(path, version.error());
  const auto tables = database.integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return unusable(path, tables.error());
  if (*application == 0 && *version == 0 && *tables == 0) return FileKind{.is_new = true, .version = 0};
  if (*application != kApplicationId)
    return unusable(path, "it is a database of another program", kOtherFile);
  const auto has_log = journal_is_log(database);
  if (!has_log || !*has_log) return unusable(path, "its header is damaged", what_to_do_when_damaged(path));
  if (const auto known = refuse_newer(path, *version, newest); !known) return tl::unexpected(known.error());
  return FileKind{.is_new = false, .version = *version};
}

/// Creates the tables, or upgrades older ones to this version.
Result<void> make_ready(sqlite::Database& database, const std::string& path, const FileKind& kind,
                        std::span<const char* const> steps) {
  if (kind.is_new)
    if (const auto done = database.execute("PRAGMA auto_vacuum=INCREMENTAL"); !done)
      return unusable(path, done.error());
  if (const auto done = set_journal(database); !done) return unusable(path, done.error());
  if (!kind.is_new)
    if (auto whole = check_pages(database, path); !whole) return whole;
  if (kind.version < static_cast<std::int64_t>(steps.size()))
    if (const auto done = migrate(database, kind.version, steps); !done) return unusable(path, done.error());
  return {};
}

/// Refuses other versions where the file is only checked, since that upgrades nothing.
Result<void> refuse_other_versions(const std::string& path, const FileKind& kind, std::size_t newest) {
  if (kind.is_new) return unusable(path, "it is empty", "name the broker's file with --store sqlite:PATH");
  if (kind.version == static_cast<std::int64_t>(newest)) return {};
  return unusable(
      path, "an older version of the broker has written it (schema " + std::to_string(kind.version) + ")",
      "check it with that version, or start this one, which brings it to schema " + std::to_string(newest));
}

}  // namespace

std::span<const char* const> schema_steps() {
  return kSteps;
}

std::string what_to_do_when_damaged(const std::string& path) {
  return "restore a backup, or move " + path + ", " + path + "-wal and " + path +
         "-mark away to begin with an empty store; keep them, sqlite3's .recover may get jobs out of them";
}

Result<sqlite::Database> open_store_file(const std::string& path, OpenFor purpose, const std::string& vfs,
                                         std::span<const char* const> steps) {
  using sqlite::Database;
  if (const auto usable = check_files(path, purpose, vfs); !usable) return tl::unexpected(usable.error());
  auto database = Database::open(
      path, purpose == OpenFor::serving ? Database::Mode::create : Database::Mode::existing, vfs);
  if (!database) return unusable(path, database.error());
  // A refused file is left as it is, with its log.
  sqlite3_db_config(database->handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  if (const auto done = set_up(*database); !done) return unusable(path, done.error());
  const auto kind = identify(*database, path, static_cast<std::int64_t>(steps.size()));
  if (!kind) return tl::unexpected(kind.error());
  const auto whole = kind->is_new ? check_is_new(path, vfs) : check_log_is_whole(path, vfs);
  if (!whole) return tl::unexpected(whole.error());
  const auto ready = purpose == OpenFor::serving ? make_ready(*database, path, *kind, steps)
                                                 : refuse_other_versions(path, *kind, steps.size());
  if (!ready) return tl::unexpected(ready.error());
  if (purpose == OpenFor::serving)
    sqlite3_db_config(database->handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return std::move(*database);
}

Result<void> check_place(const std::string& path) {
  if (auto usable = check_kind(path, OpenFor::serving); !usable) return usable;
  if (auto there = check_file_is_there(path, ""); !there) return there;
  const auto header = sqlite::read_header(path);
  if (!header) return {};  // empty
  if (!header->is_database) return unusable(path, "it is no database", kOtherFile);
  // While all of a new store is in its log, its header has no application id.
  if (header->application_id != kApplicationId && header->application_id != 0)
    return unusable(path, "it is a database of another program", kOtherFile);
  return refuse_newer(path, header->user_version, static_cast<std::int64_t>(schema_steps().size()));
}

}  // namespace lanemq::io
