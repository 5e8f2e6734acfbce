// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_store.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/ids/ulid.hpp"
#include "common/settings/start_check.hpp"
#include "common/sqlite/database.hpp"
#include "common/sqlite/file_header.hpp"

namespace lanemq::gateway {
namespace {

namespace fs = std::filesystem;

/// A batch's lines are adjacent in the table: (batch number << kLineBits) + line.
constexpr int kLineBits = 20;
constexpr std::size_t kWriteBufferBytes = std::size_t{256} * 1024;
constexpr std::int64_t kSchemaVersion = 1;

constexpr const char* kSchema = R"(
CREATE TABLE files(
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, purpose TEXT NOT NULL,
  filename TEXT NOT NULL, bytes INTEGER NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL,
  hidden INTEGER NOT NULL);
CREATE TABLE batches(
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, api INTEGER NOT NULL,
  state INTEGER NOT NULL, endpoint TEXT NOT NULL, client TEXT NOT NULL, lane TEXT NOT NULL, models TEXT NOT NULL,
  headers TEXT NOT NULL, model TEXT NOT NULL, metadata TEXT NOT NULL, errors TEXT NOT NULL, input_file TEXT NOT NULL,
  output_file TEXT NOT NULL, error_file TEXT NOT NULL, output_lifetime_ms INTEGER NOT NULL, created_at INTEGER NOT NULL,
  in_progress_at INTEGER NOT NULL, finalizing_at INTEGER NOT NULL, cancelling_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL, deadline INTEGER NOT NULL, expires_at INTEGER NOT NULL, lines INTEGER NOT NULL,
  succeeded INTEGER NOT NULL, failed INTEGER NOT NULL, given_up INTEGER NOT NULL, started_to INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL);
CREATE INDEX batches_by_state ON batches(state);
CREATE TABLE answers(place INTEGER PRIMARY KEY, outcome INTEGER NOT NULL, text BLOB NOT NULL);
PRAGMA user_version = 1;
)";

/// Tables of later versions; older gateways ignore them.
constexpr const char* kLaterSchema = R"(
CREATE TABLE IF NOT EXISTS responses(
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS asked(
  name TEXT PRIMARY KEY, request TEXT NOT NULL, made TEXT NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS asked_until ON asked(until);
CREATE INDEX IF NOT EXISTS files_of_owner ON files(owner, id);
CREATE INDEX IF NOT EXISTS batches_of_owner ON batches(owner, api, id);
DROP INDEX IF EXISTS files_by_owner;
DROP INDEX IF EXISTS batches_by_owner;
)";

constexpr std::string_view kFileColumns =
    "number, id, owner, purpose, filename, bytes, created_at, expires_at, hidden";
constexpr std::string_view kBatchColumns =
    "number, id, owner, api, state, endpoint, client, lane, models, headers, model, metadata, errors, "
    "input_file, "
    "output_file, error_file, output_lifetime_ms, created_at, in_progress_at, finalizing_at, cancelling_at, "
    "ended_at, deadline, expires_at, lines, succeeded, failed, given_up, started_to, input_tokens, "
    "output_tokens, "
    "cached_tokens, reasoning_tokens";

[[noreturn]] void refuse(const sqlite::Fault& fault) {
  throw StoreFault("the store of files and batches: " + fault.message, fault.full());
}
[[noreturn]] void refuse_file(const std::string& path, int error) {
  throw StoreFault(path + ": " + std::system_category().message(error), error == ENOSPC || error == EDQUOT);
}

template <class T>
T checked(sqlite::Outcome<T> outcome) {
  if (!outcome) refuse(outcome.error());
  if constexpr (!std::is_void_v<T>) return *std::move(outcome);
}

std::int64_t place_of(std::int64_t batch, std::uint32_t line) {
  return (batch << kLineBits) + line;
}

/// Reads the columns of a row from left to right.
class Row {
 public:
  explicit Row(const sqlite::Statement& statement) : statement_(statement) {}
  Row& operator>>(std::int64_t& value) {
    value = statement_.integer(column_++);
    return *this;
  }
  Row& operator>>(std::string& value) {
    value = statement_.bytes(column_++);
    return *this;
  }
  template <class T>
  requires std::is_enum_v<T> || std::is_same_v<T, bool> Row& operator>>(T& value) {
    value = static_cast<T>(statement_.integer(column_++));
    return *this;
  }

 private:
  const sqlite::Statement& statement_;
  int column_ = 0;
};

/// Binds the parameters of a statement from left to right.
class Parameters {
 public:
  explicit Parameters(sqlite::Statement& statement) : statement_(statement) {}
  Parameters& operator<<(std::int64_t value) {
    statement_.bind(++index_, value);
    return *this;
  }
  Parameters& operator<<(std::string_view value) {
    statement_.bind_text(++index_, value);
    return *this;
  }
  template <class T>
  requires std::is_enum_v<T> || std::is_same_v<T, bool> Parameters& operator<<(T value) {
    return *this << static_cast<std::int64_t>(value);
  }

 private:
  sqlite::Statement& statement_;
  int index_ = 0;
};

StoredFile read_file(const sqlite::Statement& statement) {
  StoredFile file;
  Row(statement) >> file.number >> file.id >> file.owner >> file.purpose >> file.filename >> file.bytes >>
      file.created_at >> file.expires_at >> file.hidden;
  return file;
}

StoredBatch read_batch(const sqlite::Statement& statement) {
  StoredBatch b;
  std::int64_t api = 0;
  Row(statement) >> b.number >> b.id >> b.owner >> api >> b.state >> b.endpoint >> b.client >> b.lane >>
      b.models >> b.headers >> b.model >> b.metadata >> b.errors >> b.input_file >> b.output_file >>
      b.error_file >> b.output_lifetime_ms >> b.created_at >> b.in_progress_at >> b.finalizing_at >>
      b.cancelling_at >> b.ended_at >> b.deadline >> b.expires_at >> b.lines >> b.succeeded >> b.failed >>
      b.given_up >> b.started_to >> b.usage.input_tokens >> b.usage.output_tokens >> b.usage.cached_tokens >>
      b.usage.reasoning_tokens;
  b.api = api_numbered(api);
  if (b.api == nullptr)
    throw std::runtime_error("batch \"" + b.id + "\" is of an API that this version does not know");
  return b;
}

/// Binds all columns but the number.
void bind_batch(Parameters& parameters, const StoredBatch& b) {
  parameters << b.id << b.owner << std::int64_t{b.api->number} << b.state << b.endpoint << b.client << b.lane
             << b.models << b.headers << b.model << b.metadata << b.errors << b.input_file << b.output_file
             << b.error_file << b.output_lifetime_ms << b.created_at << b.in_progress_at << b.finalizing_at
             << b.cancelling_at << b.ended_at << b.deadline << b.expires_at << b.lines << b.succeeded
             << b.failed << b.given_up << b.started_to << b.usage.input_tokens << b.usage.output_tokens
             << b.usage.cached_tokens << b.usage.reasoning_tokens;
}

/// Creates the folder for its user alone, since it has callers' data. An existing one keeps its mode.
void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) refuse_file(path, errno);
}

std::string database_in(const std::string& folder) {
  return folder + "/gateway.db";
}

/// Refuses a folder with other content and no database.
void refuse_foreign(const std::string& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != "lost+found")
      throw std::runtime_error("it holds \"" + entry.path().filename().string() +
                               "\" and no gateway.db: it is not a gateway's, or its database is lost and "
                               "must be brought back; an empty folder would do");
}

void refuse_newer(std::int64_t version) {
  if (version > kSchemaVersion)
    throw std::runtime_error("it was written by a newer gateway (version " + std::to_string(version) + ")");
}

[[noreturn]] void refuse_folder(const std::string& folder, const std::string& why) {
  throw std::runtime_error("the folder of files and batches \"" + folder + "\" cannot be used: " + why +
                           "; name another with --state, and give each gateway its own");
}

/// Creates what the folder lacks; refuses a folder of another program.
void make_state_folder(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  make_folder(folder);
  const std::string database = database_in(folder);
  if (!fs::exists(database)) {
    refuse_foreign(folder);
    const int fd = ::open(database.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) refuse_file(database, errno);
    ::close(fd);
  }
  make_folder(folder + "/files");
}

std::string marks(std::size_t count) {
  std::string text = "?";
  for (std::size_t i = 1; i < count; ++i)
    text += ", ?";
  return text;
}

std::size_t columns(std::string_view names) {
  return 1 + static_cast<std::size_t>(std::count(names.begin(), names.end(), ','));
}

/// The condition and order of a page, for a statement's parameter `id`.
std::string page_clause(const ListPage& page) {
  // A page that ends before an item is read backwards from it, and then reversed.
  const bool descending = page.newest_first == page.before.empty();
  return " AND id > ? AND id < ? ORDER BY id " + std::string(descending ? "DESC" : "ASC") + " LIMIT ?";
}

void bind_page(Parameters& parameters, const ListPage& page) {
  constexpr std::string_view kEnd = "~";  // behind all ids of a prefix
  const std::string_view above = page.newest_first ? page.before : page.after;
  const std::string_view below = page.newest_first ? page.after : page.before;
  parameters << above << (below.empty() ? kEnd : below) << static_cast<std::int64_t>(page.limit);
}

template <class T>
void put_in_order(std::vector<T>& items, const ListPage& page) {
  if (!page.before.empty()) std::reverse(items.begin(), items.end());
}

}  // namespace

bool is_made_id(std::string_view text, std::string_view prefix) {
  return text.size() == prefix.size() + kUlidDigits && text.starts_with(prefix) &&
         std::all_of(text.begin() + prefix.size(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); });
}

bool is_over(BatchState state) {
  return state >= BatchState::completed;
}

class BatchStore::Core {
 public:
  sqlite::Database database;

  /// A statement, prepared once, ready to be bound.
  sqlite::Statement& use(const std::string& sql) {
    auto at = statements_.find(sql);
    if (at == statements_.end()) at = statements_.emplace(sql, checked(database.prepare(sql))).first;
    at->second.reset();
    return at->second;
  }
  template <class T, class Read>
  std::vector<T> rows(sqlite::Statement& statement, Read read) {
    std::vector<T> result;
    while (checked(statement.step()))
      result.push_back(read(statement));
    return result;
  }

 private:
  std::map<std::string, sqlite::Statement, std::less<>> statements_;
};

BatchStore::BatchStore(const std::string& folder, const std::string& vfs)
    : folder_(folder), core_(std::make_unique<Core>()) {
  try {
    make_state_folder(folder_);
    core_->database =
        checked(sqlite::Database::open(folder_ + "/gateway.db", sqlite::Database::Mode::create, vfs));
    // In this locking mode only one process has the file open.
    checked(core_->database.execute(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "BEGIN IMMEDIATE; COMMIT;"));
    const std::int64_t version = checked(core_->database.integer("PRAGMA user_version"));
    refuse_newer(version);
    if (version == 0 && !fs::is_empty(folder_ + "/files"))
      throw std::runtime_error(
          "its gateway.db is new and there are files already: the one that names them is "
          "lost and must be brought back");
    if (version == 0) checked(core_->database.execute("BEGIN; " + std::string(kSchema) + "; COMMIT;"));
    checked(core_->database.execute(kLaterSchema));

    // Files without a row are left from unfinished uploads and outputs.
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_ + "/files")) {
      const std::string id = entry.path().filename();
      if (is_made_id(id, kFileIdPrefix) && !file(id)) fs::remove(entry.path());
    }
  } catch (const std::exception& error) {
    refuse_folder(folder_, error.what());
  }
}

void check_state_folder(const std::string& folder) {
  try {
    if (const auto reason = settings::why_not_folder(folder)) throw std::runtime_error(*reason);
    if (!fs::exists(folder)) return;
    if (!fs::exists(database_in(folder))) return refuse_foreign(folder);
    const auto header = sqlite::read_header(database_in(folder));
    if (!header) return;  // empty
    if (!header->is_database) throw std::runtime_error("its gateway.db is no database");
    refuse_newer(header->user_version);
  } catch (const std::exception& error) {
    refuse_folder(folder, error.what());
  }
}

BatchStore::~BatchStore() = default;

void BatchStore::transaction(const std::function<void()>& work) {
  checked(core_->use("BEGIN IMMEDIATE").run());
  try {
    work();
    checked(core_->use("COMMIT").run());
  } catch (...) {
    // SQLite may have rolled back by itself.
    if (core_->database.in_transaction()) static_cast<void>(core_->database.execute("ROLLBACK"));
    throw;
  }
}

std::string BatchStore::make_id(std::string_view prefix) {
  return std::string(prefix) + new_ulid();
}

// ---- files ----------------------------------------------------------------------------------------------

BatchStore::Writing::Writing(BatchStore& store, const std::string& id)
    : path_(store.folder_ + "/files/" + id) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd_ < 0) refuse_file(path_, errno);
}

BatchStore::Writing::~Writing() {
  if (fd_ >= 0) ::close(fd_);
  if (!kept_) ::unlink(path_.c_str());
}

void BatchStore::Writing::write(std::string_view bytes) {
  bytes_ += static_cast<std::int64_t>(bytes.size());
  if (buffer_.size() + bytes.size() >= kWriteBufferBytes) flush();
  if (bytes.size() >= kWriteBufferBytes) return put(bytes);  // so that an upload is not copied once more
  buffer_ += bytes;
}

void BatchStore::Writing::put(std::string_view rest) {
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse_file(path_, errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  // The disk begins at once, so that sync() has little left to wait for.
  static_cast<void>(::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE));
}

void BatchStore::Writing::flush() {
  put(buffer_);
  buffer_.clear();
}

void BatchStore::Writing::sync() {
  flush();
  if (::fsync(fd_) != 0) refuse_file(path_, errno);
  // Syncs the folder: the name must be on disk before a row mentions the file.
  const std::string parent = fs::path(path_).parent_path();
  const int directory = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) refuse_file(parent, errno);
  const int synced = ::fsync(directory);
  const int error = errno;
  ::close(directory);
  if (synced != 0) refuse_file(parent, error);
}

void BatchStore::add_file(StoredFile& file) {
  sqlite::Statement& statement =
      core_->use("INSERT INTO files(" + std::string(kFileColumns.substr(kFileColumns.find("id"))) +
                 ") VALUES(" + marks(columns(kFileColumns) - 1) + ")");
  Parameters(statement) << file.id << file.owner << file.purpose << file.filename << file.bytes
                        << file.created_at << file.expires_at << file.hidden;
  checked(statement.run());
  file.number = sqlite3_last_insert_rowid(core_->database.handle());
}

std::optional<StoredFile> BatchStore::file(std::string_view id) {
  sqlite::Statement& statement =
      core_->use("SELECT " + std::string(kFileColumns) + " FROM files WHERE id = ?");
  Parameters(statement) << id;
  auto rows = core_->rows<StoredFile>(statement, read_file);
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

std::vector<StoredFile> BatchStore::files(const std::string& owner, const std::string& purpose,
                                          const ListPage& page) {
  sqlite::Statement& statement = core_->use(
      "SELECT " + std::string(kFileColumns) +
      " FROM files WHERE owner = ? AND hidden = 0 AND (? = '' OR purpose = ?)" + page_clause(page));
  Parameters parameters(statement);
  parameters << owner << purpose << purpose;
  bind_page(parameters, page);
  auto rows = core_->rows<StoredFile>(statement, read_file);
  put_in_order(rows, page);
  return rows;
}

void BatchStore::remove_file(const std::string& id) {
  sqlite::Statement& statement = core_->use("DELETE FROM files WHERE id = ?");
  Parameters(statement) << id;
  checked(statement.run());
}

void BatchStore::drop_bytes(const std::string& id) noexcept {
  // If that fails the next start removes the bytes, since no row names them.
  ::unlink((folder_ + "/files/" + id).c_str());
}

int BatchStore::open_bytes(const std::string& id) const {
  const std::string path = folder_ + "/files/" + id;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) refuse_file(path, errno);
  return fd;
}

std::int64_t BatchStore::files_bytes() {
  return checked(core_->database.integer("SELECT coalesce(sum(bytes), 0) FROM files"));
}

std::int64_t BatchStore::of_owner(const std::string& query, const std::string& owner) {
  sqlite::Statement& statement = core_->use(query);
  Parameters(statement) << owner;
  checked(statement.step());
  const std::int64_t number = statement.integer(0);
  statement.reset();
  return number;
}

std::int64_t BatchStore::files_bytes(const std::string& owner) {
  return of_owner("SELECT coalesce(sum(bytes), 0) FROM files WHERE owner = ?", owner);
}

std::int64_t BatchStore::files_count(const std::string& owner) {
  return of_owner("SELECT count(*) FROM files WHERE owner = ?", owner);
}

// ---- batches --------------------------------------------------------------------------------------------

void BatchStore::add_batch(StoredBatch& batch) {
  sqlite::Statement& statement =
      core_->use("INSERT INTO batches(" + std::string(kBatchColumns.substr(kBatchColumns.find("id"))) +
                 ") VALUES(" + marks(columns(kBatchColumns) - 1) + ")");
  Parameters parameters(statement);
  bind_batch(parameters, batch);
  checked(statement.run());
  batch.number = sqlite3_last_insert_rowid(core_->database.handle());
}

std::optional<AskedBefore> BatchStore::asked_before(const std::string& name, std::int64_t now) {
  sqlite::Statement& statement =
      core_->use("SELECT name, request, made, until FROM asked WHERE name = ? AND until > ?");
  Parameters(statement) << name << now;
  const std::vector<AskedBefore> rows = core_->rows<AskedBefore>(statement, [](const sqlite::Statement& row) {
    return AskedBefore{.name = std::string(row.bytes(0)),
                       .request = std::string(row.bytes(1)),
                       .made = std::string(row.bytes(2)),
                       .until = row.integer(3)};
  });
  return rows.empty() ? std::nullopt : std::optional(rows.front());
}

void BatchStore::add_asked(const AskedBefore& asked, std::int64_t now) {
  sqlite::Statement& removal = core_->use("DELETE FROM asked WHERE until <= ?");
  Parameters(removal) << now;
  checked(removal.run());
  sqlite::Statement& statement =
      core_->use("INSERT OR REPLACE INTO asked(name, request, made, until) VALUES(?, ?, ?, ?)");
  Parameters(statement) << asked.name << asked.request << asked.made << asked.until;
  checked(statement.run());
}

void BatchStore::update_batch(const StoredBatch& batch) {
  sqlite::Statement& statement =
      core_->use("UPDATE batches SET (" + std::string(kBatchColumns.substr(kBatchColumns.find("id"))) +
                 ") = (" + marks(columns(kBatchColumns) - 1) + ") WHERE number = ?");
  Parameters parameters(statement);
  bind_batch(parameters, batch);
  parameters << batch.number;
  checked(statement.run());
}

std::optional<StoredBatch> BatchStore::batch(std::string_view id) {
  sqlite::Statement& statement =
      core_->use("SELECT " + std::string(kBatchColumns) + " FROM batches WHERE id = ?");
  Parameters(statement) << id;
  auto rows = core_->rows<StoredBatch>(statement, read_batch);
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

std::vector<StoredBatch> BatchStore::batches(const std::string& owner, const Api& api, const ListPage& page) {
  sqlite::Statement& statement = core_->use("SELECT " + std::string(kBatchColumns) +
                                            " FROM batches WHERE owner = ? AND api = ?" + page_clause(page));
  Parameters parameters(statement);
  parameters << owner << std::int64_t{api.number};
  bind_page(parameters, page);
  auto rows = core_->rows<StoredBatch>(statement, read_batch);
  put_in_order(rows, page);
  return rows;
}

std::vector<StoredBatch> BatchStore::unfinished_batches() {
  sqlite::Statement& statement =
      core_->use("SELECT " + std::string(kBatchColumns) + " FROM batches WHERE state < ? ORDER BY number");
  Parameters(statement) << BatchState::completed;
  return core_->rows<StoredBatch>(statement, read_batch);
}

void BatchStore::remove_batch(std::int64_t number) {
  sqlite::Statement& statement = core_->use("DELETE FROM batches WHERE number = ?");
  Parameters(statement) << number;
  checked(statement.run());
}

// ---- answers --------------------------------------------------------------------------------------------

void BatchStore::add_answer(std::int64_t batch, std::uint32_t line, LineOutcome outcome,
                            std::string_view text) {
  sqlite::Statement& statement = core_->use("INSERT INTO answers(place, outcome, text) VALUES(?, ?, ?)");
  statement.bind(1, place_of(batch, line));
  statement.bind(2, static_cast<std::int64_t>(outcome));
  statement.bind(3, text);
  checked(statement.run());
}

void BatchStore::read_answers(std::int64_t batch, std::uint32_t from, const TakeAnswer& take) {
  sqlite::Statement& statement =
      core_->use("SELECT place, outcome, text FROM answers WHERE place >= ? AND place < ? ORDER BY place");
  Parameters(statement) << place_of(batch, from) << place_of(batch + 1, 0);
  while (checked(statement.step())) {
    const auto line = static_cast<std::uint32_t>(statement.integer(0) - place_of(batch, 0));
    if (!take(line, static_cast<LineOutcome>(statement.integer(1)), statement.bytes(2))) break;
  }
  statement.reset();
}

BatchStore::Answered BatchStore::answered(std::int64_t batch, std::uint32_t lines) {
  sqlite::Statement& statement =
      core_->use("SELECT place, outcome FROM answers WHERE place >= ? AND place < ?");
  Parameters(statement) << place_of(batch, 0) << place_of(batch, lines);
  Answered result{.lines = std::vector<bool>(lines)};
  while (checked(statement.step())) {
    result.lines[static_cast<std::size_t>(statement.integer(0) - place_of(batch, 0))] = true;
    const auto outcome = static_cast<LineOutcome>(statement.integer(1));
    ++(outcome == LineOutcome::succeeded ? result.succeeded : result.failed);
  }
  return result;
}

bool BatchStore::remove_old_answers(std::size_t count) {
  // Answers of batches that are over or deleted are in their files.
  sqlite::Statement& first = core_->use("SELECT place FROM answers WHERE place >= ? ORDER BY place LIMIT 1");
  std::int64_t from = 0;
  while (true) {
    Parameters(first) << from;
    if (!checked(first.step())) return false;
    const std::int64_t batch = first.integer(0) >> kLineBits;
    first.reset();
    sqlite::Statement& state = core_->use("SELECT state FROM batches WHERE number = ?");
    Parameters(state) << batch;
    const bool needed = checked(state.step()) && !is_over(static_cast<BatchState>(state.integer(0)));
    state.reset();
    from = place_of(batch + 1, 0);
    if (needed) continue;
    sqlite::Statement& removal = core_->use(
        "DELETE FROM answers WHERE place IN (SELECT place FROM answers WHERE place >= ? AND place < ? LIMIT "
        "?)");
    Parameters(removal) << place_of(batch, 0) << from << static_cast<std::int64_t>(count);
    checked(removal.run());
    return true;
  }
}

// ---- whose the responses are ------------------------------------------------------------------------------

void BatchStore::add_responses(std::span<const OwnedResponse> made, std::size_t most) {
  for (const OwnedResponse& response : made) {
    sqlite::Statement& statement = core_->use("INSERT OR IGNORE INTO responses(id, owner) VALUES(?, ?)");
    Parameters(statement) << response.id << response.owner;
    checked(statement.run());
  }
  sqlite::Statement& removal =
      core_->use("DELETE FROM responses WHERE number <= (SELECT max(number) FROM responses) - ?");
  Parameters(removal) << static_cast<std::int64_t>(most);
  checked(removal.run());
}

std::vector<OwnedResponse> BatchStore::responses() {
  sqlite::Statement& statement = core_->use("SELECT id, owner FROM responses ORDER BY number");
  return core_->rows<OwnedResponse>(statement, [](const sqlite::Statement& row) {
    return OwnedResponse{.id = std::string(row.bytes(0)), .owner = std::string(row.bytes(1))};
  });
}

// ---- for who watches ------------------------------------------------------------------------------------

void BatchStore::count(BatchFigures& figures) {
  figures.batches = {};
  sqlite::Statement& states = core_->use("SELECT state, count(*) FROM batches GROUP BY state");
  while (checked(states.step()))
    figures.batches.at(static_cast<std::size_t>(states.integer(0))) = states.integer(1);
  sqlite::Statement& files = core_->use("SELECT count(*), coalesce(sum(bytes), 0) FROM files");
  checked(files.step());
  figures.files = files.integer(0);
  figures.file_bytes = files.integer(1);
  files.reset();
  figures.database_bytes = 0;
  for (const char* name : {"/gateway.db", "/gateway.db-wal"}) {
    std::error_code missing;
    const std::uintmax_t bytes = fs::file_size(folder_ + name, missing);
    if (!missing) figures.database_bytes += static_cast<std::int64_t>(bytes);
  }
}

// ---- what has expired -----------------------------------------------------------------------------------

std::vector<std::string> BatchStore::expired_files(std::int64_t now, std::size_t count) {
  // A running batch needs its input, however old.
  sqlite::Statement& statement = core_->use(
      "SELECT id FROM files WHERE expires_at > 0 AND expires_at <= ? AND NOT EXISTS "
      "(SELECT 1 FROM batches WHERE state < ? AND input_file = files.id) LIMIT ?");
  Parameters(statement) << now << BatchState::completed << static_cast<std::int64_t>(count);
  return core_->rows<std::string>(statement,
                                  [](const sqlite::Statement& row) { return std::string(row.bytes(0)); });
}

std::vector<StoredBatch> BatchStore::expired_batches(std::int64_t now, std::size_t count) {
  sqlite::Statement& statement =
      core_->use("SELECT " + std::string(kBatchColumns) +
                 " FROM batches WHERE state >= ? AND expires_at > 0 AND expires_at <= ? LIMIT ?");
  Parameters(statement) << BatchState::completed << now << static_cast<std::int64_t>(count);
  return core_->rows<StoredBatch>(statement, read_batch);
}

}  // namespace lanemq::gateway
