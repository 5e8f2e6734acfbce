// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <lanemq/result.hpp>

#include "common/sqlite/database.hpp"

namespace lanemq::io {

/// What a store's file is, and how one is opened: the tables, the version, what is refused.
///
/// Tables: `job` (number, state, record, body), `body` (those that are too large to be dragged along when the
/// jobs are read at the start), `result`, `result_body` likewise, and `note`. There is no index: order,
/// deadlines and ids live in the broker's memory, the file is what it recovers from. Each row carries
/// checksums: what comes back is what was written, or an error.

/// Bodies over this size are in a table of their own.
inline constexpr std::size_t kBodyInRowBytesMax = 1024;

/// `LMQ1`, in the header of the file.
inline constexpr std::int64_t kApplicationId = 0x4C4D5131;

/// The steps from an empty file to this version's, and from each older version: step i makes version i + 1.
/// What an older version would read wrongly needs a step as well, an empty one where no table changes: a
/// record with something new anywhere but at its end.
std::span<const char* const> schema_steps();

enum class OpenFor : std::uint8_t {
  serving,   ///< makes the file where there is none, and brings an older one to this version
  checking,  ///< changes nothing
};

/// Opens the file for one connection alone. An error says what is wrong and
/// what to do; nothing that was there is ever replaced.
Result<sqlite::Database> open_store_file(const std::string& path, OpenFor purpose,
                                         const std::string& vfs = {},
                                         std::span<const char* const> steps = schema_steps());

/// Refuses a file that is another program's or a newer version's, by its header, and one that is lost. Opens
/// nothing that a broker may have open, and changes nothing.
Result<void> check_place(const std::string& path);

/// What to do about a store that cannot be believed.
std::string what_to_do_when_damaged(const std::string& path);

/// The checksums of the rows. A state's knows its row's number, so that a row cannot answer for another.
std::int64_t state_checksum(std::uint64_t number, std::string_view state);
/// Of what never changes of a job; `body`: empty where it is in the table of bodies.
std::int64_t job_checksum(std::string_view record, std::string_view body, std::size_t body_bytes);
std::int64_t body_checksum(std::string_view body);
/// `apart_bytes`: of a body in the table of results' bodies; then `body` is empty.
std::int64_t result_checksum(std::uint64_t number, std::string_view record, std::string_view body,
                             std::size_t apart_bytes);
std::int64_t note_checksum(std::string_view name, std::string_view record);

}  // namespace lanemq::io
