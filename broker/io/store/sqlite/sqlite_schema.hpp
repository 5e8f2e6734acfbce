// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <lanemq/result.hpp>

#include "common/sqlite/database.hpp"

namespace lanemq::io {

/// A store's file and how it is opened: its tables, its version, and what is refused.
///
/// Tables: `job` (number, state, record, body), `body` (large bodies, which the start does not read),
/// `result`, `result_body` (likewise) and `note`. There is no index: order, deadlines and ids live in the
/// broker's memory, the file is a recovery log. Each row has checksums: the store returns what was written,
/// or an error.

/// Larger bodies are in tables of their own.
inline constexpr std::size_t kBodyInRowBytesMax = 1024;

/// `LMQ1`, in the header of the file.
inline constexpr std::int64_t kApplicationId = 0x4C4D5131;

/// The steps from an empty file and from each older version to this one: step i makes version i + 1. A record
/// that older versions would read wrongly, with something new anywhere but at its end, needs a step, too: an
/// empty one where no table changes.
std::span<const char* const> schema_steps();

enum class OpenFor : std::uint8_t {
  serving,   ///< creates a missing file, upgrades an older one
  checking,  ///< changes nothing
};

/// Opens the file exclusively. An error says what is wrong and what to do; an existing file is never
/// replaced.
Result<sqlite::Database> open_store_file(const std::string& path, OpenFor purpose,
                                         const std::string& vfs = {},
                                         std::span<const char* const> steps = schema_steps());

/// Refuses, by its header, a file of another program or a newer version, and a lost one. Does not open what a
/// broker may have open, and changes nothing.
Result<void> check_place(const std::string& path);

/// Advice to a person about a damaged store.
std::string what_to_do_when_damaged(const std::string& path);

}  // namespace lanemq::io
