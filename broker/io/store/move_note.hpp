// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/result.hpp>

#include "broker/core/base/stored_entry.hpp"

namespace lanemq::io {

/// A store's record of a move of rows to another one, or from it, that has begun.
///
/// The target's note comes first, with `arrived` unset: its rows do not count, and no broker serves it. The
/// source's note follows when all rows are there: the move is decided, and no broker serves the source. Then
/// the target's becomes `arrived`, the source's rows are erased, and both notes go. So at every moment one of
/// the stores has the rows for a broker, or none has.
struct MoveNote {
  std::string id;                      ///< of the move, in both stores
  std::string what;                    ///< for people: `tenant "acme"`
  std::string from, to;                ///< stores, for people
  std::string command;                 ///< that goes on with it
  std::uint64_t source = 0;            ///< tells the source from other stores
  std::uint64_t generation = 0;        ///< of the numbers of rows that come; of the target's note alone
  bool arrived = false;                ///< likewise
  std::vector<std::int64_t> counts{};  ///< what went, for the summary
};

/// The kinds of such notes.
enum class MoveSide : unsigned char { source, target };

/// The names of a source's or a target's notes of moves: each move has one note, and parts, whose names
/// continue after a line end.
std::string name_of(MoveSide side, std::string_view id);
std::string part_name(MoveSide side, std::string_view id, std::string_view part);

/// Whether the name is that of a part of any move's note.
bool is_part(MoveSide side, std::string_view name);

/// A note's record.
std::string record_of(const MoveNote& note);
/// Reads a note that is no part. None: the name is another's. An error: the record cannot be read.
Result<std::optional<MoveNote>> move_note(MoveSide side, std::string_view name, std::string_view record);

/// Why no broker may serve a store that has this note, and what to do; none: it may.
std::optional<std::string> why_not_served(std::string_view name, std::string_view record);

}  // namespace lanemq::io
