// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/sqlite/sqlite_backup.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace lanemq::io {
namespace {

/// Pages that are copied between two commits: about a millisecond.
constexpr int kPagesPerStep = 256;

std::string part_of(const std::string& path) {
  return path + ".part";
}

/// Syncs a folder, so that its names survive a power cut.
bool sync_folder(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = fsync(file) == 0;
  const int why = errno;
  ::close(file);
  errno = why;
  return done;
}

/// Renames a file, unless the new name is taken.
bool move_to(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // The file system cannot check that atomically.
  if (access(to.c_str(), F_OK) == 0) {
    errno = EEXIST;
    return false;
  }
  return std::rename(from.c_str(), to.c_str()) == 0;
}

tl::unexpected<Error> not_written(const std::string& path, const std::string& why) {
  return failure(ErrorCode::internal, "the backup " + path + " was not written: " + why);
}

}  // namespace

Result<SqliteBackup> SqliteBackup::begin(sqlite::Database& source, const std::string& path) {
  if (access(path.c_str(), F_OK) == 0)
    return failure(ErrorCode::conflict, "the backup " + path +
                                            " was not written: there is such a file; name "
                                            "a new one");
  const std::string part = part_of(path);
  ::unlink(part.c_str());  // a part that an earlier backup left
  const int file = ::open(part.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0)
    return failure(ErrorCode::bad_request, "the backup " + path + " was not written: " + part + ": " +
                                               std::strerror(errno) +
                                               "; name a file in a folder that the broker may write to");
  Descriptor descriptor(file);
  auto target = sqlite::Database::open(part, sqlite::Database::Mode::existing);
  if (!target) return not_written(path, target.error().message);
  // A part is worth nothing, so it needs no journal, and one fsync at its end.
  if (const auto done = target->execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF"); !done)
    return not_written(path, done.error().message);
  sqlite3_backup* const copy = sqlite3_backup_init(target->handle(), "main", source.handle(), "main");
  if (copy == nullptr) return not_written(path, target->fault().message);
  return SqliteBackup(path, std::move(descriptor), std::move(*target), copy);
}

SqliteBackup::Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

SqliteBackup::~SqliteBackup() {
  if (path_.empty() || copy_ == nullptr) return;
  copy_.reset();
  ::unlink(part_of(path_).c_str());
}

Result<bool> SqliteBackup::step() {
  const int code = sqlite3_backup_step(copy_.get(), kPagesPerStep);
  if (code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    // Starts writing to the disk now: else the fsync at the end would hold up commits for long.
    sync_file_range(part_.number(), 0, 0, SYNC_FILE_RANGE_WRITE);
    return false;
  }
  if (code == SQLITE_DONE) return finish();
  return not_written(path_, std::string(sqlite3_errstr(code)) + " (" + std::to_string(code) +
                                (code == SQLITE_FULL ? "); name a file on a disk with more room" : ")"));
}

Result<bool> SqliteBackup::finish() {
  const std::string part = part_of(path_);
  const int code = sqlite3_backup_finish(copy_.release());
  target_ = sqlite::Database();
  std::string why;
  if (code != SQLITE_OK)
    why = sqlite3_errstr(code);
  else if (fsync(part_.number()) != 0 || !move_to(part, path_))
    why = std::strerror(errno);
  if (!why.empty()) {
    ::unlink(part.c_str());
    return not_written(path_, why);
  }
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  if (!sync_folder(folder.empty() ? "." : folder)) return not_written(path_, std::strerror(errno));
  return true;
}

}  // namespace lanemq::io
