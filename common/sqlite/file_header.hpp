// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lanemq::sqlite {

/// What the first bytes of a file say, without a lock and without SQLite: changes nothing, whoever has the
/// file open. What stands in a log beside it is not seen.
struct FileHeader {
  bool is_database = false;
  std::int64_t user_version = 0, application_id = 0;
};

/// Of a file that has content; none: it has none, or cannot be read.
std::optional<FileHeader> read_header(const std::string& path);

}  // namespace lanemq::sqlite
