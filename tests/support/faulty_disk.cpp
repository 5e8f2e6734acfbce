// SPDX-License-Identifier: Apache-2.0
#include "tests/support/faulty_disk.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

namespace lanemq::test {
namespace {

/// What a disk writes as a whole.
constexpr std::size_t kSectorBytes = 512;

void write_at(std::string& content, std::size_t at, const std::string& bytes) {
  if (content.size() < at + bytes.size()) content.resize(at + bytes.size());
  std::copy(bytes.begin(), bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

/// What SQLite holds of an open file, in memory that it gives.
struct FaultyDisk::Handle {
  sqlite3_file base;
  FaultyDisk* disk;
  std::shared_ptr<File> file;

  static Handle& of(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }
};

/// The functions that SQLite calls.
struct FaultyDisk::Layer {
  static FaultyDisk& disk_of(sqlite3_vfs* vfs) { return *static_cast<FaultyDisk*>(vfs->pAppData); }
  static sqlite3_vfs* system() { return sqlite3_vfs_find(nullptr); }

  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* memory, int flags, int* flags_out) {
    FaultyDisk& disk = disk_of(vfs);
    memory->pMethods = nullptr;
    std::shared_ptr<File> file;
    {
      const std::lock_guard lock(disk.mutex_);
      if (name == nullptr) {
        file = std::make_shared<File>();  // for this handle alone
      } else if (const auto found = disk.files_.find(name); found != disk.files_.end()) {
        file = found->second;
      } else if ((flags & SQLITE_OPEN_CREATE) != 0) {
        file = disk.files_[name] = std::make_shared<File>();
      } else {
        return SQLITE_CANTOPEN;
      }
    }
    new (memory) Handle{{&kMethods}, &disk, std::move(file)};
    if (flags_out != nullptr) *flags_out = flags;
    return SQLITE_OK;
  }
  static int close(sqlite3_file* file) {
    Handle::of(file).~Handle();
    return SQLITE_OK;
  }

  static int read(sqlite3_file* from, void* to, int count, sqlite3_int64 at) {
    const auto& [base, disk, file] = Handle::of(from);
    const std::lock_guard lock(disk->mutex_);
    if (const int code = disk->next(Call::read); code != SQLITE_OK) return code;
    const auto begin = std::min(static_cast<std::size_t>(at), file->content.size());
    const std::size_t there = std::min(static_cast<std::size_t>(count), file->content.size() - begin);
    std::memcpy(to, file->content.data() + begin, there);
    if (there == static_cast<std::size_t>(count)) return SQLITE_OK;
    std::memset(static_cast<char*>(to) + there, 0, static_cast<std::size_t>(count) - there);
    return SQLITE_IOERR_SHORT_READ;
  }
  static int write(sqlite3_file* to, const void* bytes, int count, sqlite3_int64 at) {
    const auto& [base, disk, file] = Handle::of(to);
    const std::lock_guard lock(disk->mutex_);
    if (const int code = disk->next(Call::write); code != SQLITE_OK) return code;
    Change change{.at = static_cast<std::size_t>(at),
                  .bytes = std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(count))};
    const std::size_t end = change.at + change.bytes.size();
    if (end > file->content.size() && !disk->has_room(end - file->content.size())) return SQLITE_FULL;
    write_at(file->content, change.at, change.bytes);
    file->unsynced.push_back(std::move(change));
    return SQLITE_OK;
  }
  static int truncate(sqlite3_file* what, sqlite3_int64 size) {
    const auto& [base, disk, file] = Handle::of(what);
    const std::lock_guard lock(disk->mutex_);
    if (const int code = disk->next(Call::truncate); code != SQLITE_OK) return code;
    file->content.resize(static_cast<std::size_t>(size));
    file->unsynced.push_back({.at = static_cast<std::size_t>(size), .bytes = {}, .truncates = true});
    return SQLITE_OK;
  }
  static int sync(sqlite3_file* what, int) {
    const auto& [base, disk, file] = Handle::of(what);
    std::function<void()> hook;
    {
      const std::lock_guard lock(disk->mutex_);
      hook = disk->before_sync_;
    }
    if (hook) hook();
    const std::lock_guard lock(disk->mutex_);
    if (const int code = disk->next(Call::sync); code != SQLITE_OK) return code;
    file->synced = file->content;
    file->unsynced.clear();
    return SQLITE_OK;
  }
  static int size(sqlite3_file* what, sqlite3_int64* bytes) {
    const auto& [base, disk, file] = Handle::of(what);
    const std::lock_guard lock(disk->mutex_);
    *bytes = static_cast<sqlite3_int64>(file->content.size());
    return SQLITE_OK;
  }

  // One connection at a time: nobody to be locked out.
  static int lock(sqlite3_file*, int) { return SQLITE_OK; }
  static int unlock(sqlite3_file*, int) { return SQLITE_OK; }
  static int is_locked(sqlite3_file*, int* is) {
    *is = 0;
    return SQLITE_OK;
  }
  static int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int sector_size(sqlite3_file*) { return 4096; }
  static int characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

  static int remove(sqlite3_vfs* vfs, const char* name, int) {
    FaultyDisk& disk = disk_of(vfs);
    const std::lock_guard lock(disk.mutex_);
    return disk.files_.erase(name) > 0 ? SQLITE_OK : SQLITE_IOERR_DELETE_NOENT;
  }
  static int access(sqlite3_vfs* vfs, const char* name, int, int* is) {
    FaultyDisk& disk = disk_of(vfs);
    const std::lock_guard lock(disk.mutex_);
    const auto found = disk.files_.find(name);
    // As the system's layer does: an empty file is as good as none.
    *is = found != disk.files_.end() && !found->second->content.empty() ? 1 : 0;
    return SQLITE_OK;
  }
  static int full_path(sqlite3_vfs*, const char* name, int size, char* out) {
    sqlite3_snprintf(size, out, "%s", name);
    return SQLITE_OK;
  }
  static int randomness(sqlite3_vfs*, int size, char* out) {
    return system()->xRandomness(system(), size, out);
  }
  static int sleep(sqlite3_vfs*, int) { return 0; }
  static int current_time(sqlite3_vfs*, double* days) { return system()->xCurrentTime(system(), days); }
  static int last_error(sqlite3_vfs*, int, char*) { return 0; }

  static constexpr sqlite3_io_methods kMethods = {.iVersion = 1,
                                                  .xClose = close,
                                                  .xRead = read,
                                                  .xWrite = write,
                                                  .xTruncate = truncate,
                                                  .xSync = sync,
                                                  .xFileSize = size,
                                                  .xLock = lock,
                                                  .xUnlock = unlock,
                                                  .xCheckReservedLock = is_locked,
                                                  .xFileControl = control,
                                                  .xSectorSize = sector_size,
                                                  .xDeviceCharacteristics = characteristics,
                                                  .xShmMap = nullptr,
                                                  .xShmLock = nullptr,
                                                  .xShmBarrier = nullptr,
                                                  .xShmUnmap = nullptr,
                                                  .xFetch = nullptr,
                                                  .xUnfetch = nullptr};
};

FaultyDisk::FaultyDisk(const Files& files) : vfs_(std::make_unique<sqlite3_vfs>()) {
  static std::atomic<int> disks{0};
  name_ = "faulty-disk-" + std::to_string(++disks);
  for (const auto& [name, content] : files) {
    auto file = std::make_shared<File>();
    file->content = file->synced = content;
    files_[name] = std::move(file);
  }
  *vfs_ = {};
  vfs_->iVersion = 1;
  vfs_->szOsFile = sizeof(Handle);
  vfs_->mxPathname = 512;
  vfs_->zName = name_.c_str();
  vfs_->pAppData = this;
  vfs_->xOpen = Layer::open;
  vfs_->xDelete = Layer::remove;
  vfs_->xAccess = Layer::access;
  vfs_->xFullPathname = Layer::full_path;
  vfs_->xRandomness = Layer::randomness;
  vfs_->xSleep = Layer::sleep;
  vfs_->xCurrentTime = Layer::current_time;
  vfs_->xGetLastError = Layer::last_error;
  sqlite3_vfs_register(vfs_.get(), 0);
}

FaultyDisk::~FaultyDisk() {
  sqlite3_vfs_unregister(vfs_.get());
}

void FaultyDisk::fail(Call call, std::int64_t nth, int code, std::int64_t times) {
  const std::lock_guard lock(mutex_);
  failing_[static_cast<int>(call)] = {.first = nth, .times = times, .code = code};
}

std::int64_t FaultyDisk::calls(Call call) const {
  const std::lock_guard lock(mutex_);
  return calls_[static_cast<int>(call)];
}

void FaultyDisk::set_capacity(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

void FaultyDisk::before_sync(std::function<void()> hook) {
  const std::lock_guard lock(mutex_);
  before_sync_ = std::move(hook);
}

int FaultyDisk::next(Call call) {
  const std::int64_t number = ++calls_[static_cast<int>(call)];
  const Failing& failing = failing_[static_cast<int>(call)];
  return number >= failing.first && number - failing.first < failing.times ? failing.code : SQLITE_OK;
}

FaultyDisk::Files FaultyDisk::files() const {
  const std::lock_guard lock(mutex_);
  Files files;
  for (const auto& [name, file] : files_)
    files[name] = file->content;
  return files;
}

FaultyDisk::Files FaultyDisk::files_after_power_loss(Random& random) const {
  const std::lock_guard lock(mutex_);
  Files files;
  for (const auto& [name, file] : files_) {
    std::string& content = files[name] = file->synced;
    // Of ten pieces so many are kept: none, all, and everything between.
    const auto kept = std::uniform_int_distribution<int>(0, 10)(random);
    const auto is_kept = [&] { return std::uniform_int_distribution<int>(0, 9)(random) < kept; };
    for (const Change& change : file->unsynced) {
      if (change.truncates && is_kept()) content.resize(change.at);
      for (std::size_t begin = 0; begin < change.bytes.size();) {
        const std::size_t in_sector = kSectorBytes - (change.at + begin) % kSectorBytes;
        const std::string piece = change.bytes.substr(begin, in_sector);
        if (is_kept()) write_at(content, change.at + begin, piece);
        begin += piece.size();
      }
    }
  }
  return files;
}

std::uint64_t FaultyDisk::used() const {
  std::uint64_t sum = 0;
  for (const auto& [name, file] : files_)
    sum += file->content.size();
  return sum;
}

std::optional<std::uint64_t> FaultyDisk::free_bytes(const std::string&) const {
  const std::lock_guard lock(mutex_);
  return has_room(0) ? capacity_ - used() : 0;
}

std::uint64_t FaultyDisk::file_bytes(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  return found == files_.end() ? 0 : found->second->content.size();
}

bool FaultyDisk::allocate(const std::string& path, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  const std::uint64_t has = found == files_.end() ? 0 : found->second->content.size();
  if (bytes > has && !has_room(bytes - has)) return false;
  auto& file = files_[path];
  if (!file) file = std::make_shared<File>();
  file->content.resize(bytes);
  file->synced = file->content;
  return true;
}

void FaultyDisk::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  files_.erase(path);
}

}  // namespace lanemq::test
