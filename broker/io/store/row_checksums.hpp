// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lanemq::io {

/// Checksums of a store's rows (XXH3, 64 bits): a store returns what was written, or an error. Files hold
/// them: what a function here returns for a row never changes. Thread-safe.

/// A state's includes the row's number, so that no row can stand in for another.
std::int64_t state_checksum(std::uint64_t number, std::string_view state);
/// The checksum of a job's record and body; `body` is empty where it is in the table of bodies.
std::int64_t job_checksum(std::string_view record, std::string_view body, std::size_t body_bytes);
std::int64_t body_checksum(std::string_view body);
/// `apart_bytes`: size of a body in the table of results' bodies; `body` is then empty.
std::int64_t result_checksum(std::uint64_t number, std::string_view record, std::string_view body,
                             std::size_t apart_bytes);
std::int64_t note_checksum(std::string_view name, std::string_view record);

}  // namespace lanemq::io
