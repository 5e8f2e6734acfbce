// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lanemq::sqlite {

/// The header of a database file, read without a lock and without SQLite: changes nothing, even if another
/// process has it open. Does not see what is only in the log.
struct FileHeader {
  bool is_database = false;
  std::int64_t user_version = 0, application_id = 0;
};

/// None: the file is empty or cannot be read.
std::optional<FileHeader> read_header(const std::string& path);

}  // namespace lanemq::sqlite
