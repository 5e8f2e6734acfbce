// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/sqlite/sqlite_file.hpp"

#include <algorithm>

namespace lanemq::sqlite {

File::~File() {
  if (file_ != nullptr) file_->pMethods->xClose(file_);
}

int File::open(const std::string& path, Mode mode, const std::string& vfs_name) {
  sqlite3_vfs* const vfs = sqlite3_vfs_find(vfs_name.empty() ? nullptr : vfs_name.c_str());
  if (vfs == nullptr) return SQLITE_ERROR;
  name_ = path;
  name_.push_back('\0');
  memory_ = std::make_unique<char[]>(static_cast<std::size_t>(vfs->szOsFile));
  auto* const file = reinterpret_cast<sqlite3_file*>(memory_.get());
  // A new file is created as if it were a log: the layer then gives it the owner and mode of its database. It
  // refuses a log without a database, so existing files are opened as another kind.
  const int flags = SQLITE_OPEN_READWRITE |
                    (mode == Mode::create ? SQLITE_OPEN_WAL | SQLITE_OPEN_CREATE : SQLITE_OPEN_SUPER_JOURNAL);
  int flags_out = 0;
  const int code = vfs->xOpen(vfs, name_.c_str(), file, flags, &flags_out);
  if (code == SQLITE_OK) {
    file_ = file;
  } else if (file->pMethods != nullptr) {
    file->pMethods->xClose(file);
  }
  return code;
}

int File::size(std::uint64_t& bytes) {
  sqlite3_int64 size = 0;
  const int code = file_->pMethods->xFileSize(file_, &size);
  bytes = static_cast<std::uint64_t>(std::max<sqlite3_int64>(size, 0));
  return code;
}

int File::read(std::uint64_t at, char* to, std::size_t count) {
  return file_->pMethods->xRead(file_, to, static_cast<int>(count), static_cast<sqlite3_int64>(at));
}

int File::write(std::uint64_t at, std::string_view bytes) {
  return file_->pMethods->xWrite(file_, bytes.data(), static_cast<int>(bytes.size()),
                                 static_cast<sqlite3_int64>(at));
}

bool has_content(const std::string& path, const std::string& vfs_name) {
  sqlite3_vfs* const vfs = sqlite3_vfs_find(vfs_name.empty() ? nullptr : vfs_name.c_str());
  int is = 0;
  // For SQLite an empty file does not exist.
  return vfs != nullptr && vfs->xAccess(vfs, path.c_str(), SQLITE_ACCESS_EXISTS, &is) == SQLITE_OK && is != 0;
}

int File::sync() {
  return file_->pMethods->xSync(file_, SQLITE_SYNC_NORMAL);
}

}  // namespace lanemq::sqlite
