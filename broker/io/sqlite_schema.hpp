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

/// Checksums of rows. A state's includes the row's number, so that no row can stand in for another.
std::int64_t state_checksum(std::uint64_t number, std::string_view state);
/// Of a job's record and body; `body` is empty where it is in the table of bodies.
std::int64_t job_checksum(std::string_view record, std::string_view body, std::size_t body_bytes);
std::int64_t body_checksum(std::string_view body);
/// `apart_bytes`: size of a body in the table of results' bodies; `body` is then empty.
std::int64_t result_checksum(std::uint64_t number, std::string_view record, std::string_view body,
                             std::size_t apart_bytes);
std::int64_t note_checksum(std::string_view name, std::string_view record);

}  // namespace lanemq::io
