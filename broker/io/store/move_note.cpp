// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/move_note.hpp"

#include <array>
#include <utility>

#include <lanemq/codec.hpp>

#include "broker/core/jobs/stored.hpp"

namespace lanemq::io {
namespace {

constexpr std::string_view kSource = "move out ", kTarget = "move in ";
/// Between a note's name and what tells its part.
constexpr char kPart = '\n';
/// The entry with the numbers.
constexpr std::string_view kState = "state", kCounts = "counts";

std::string_view begin_of(MoveSide side) {
  return side == MoveSide::source ? kSource : kTarget;
}

/// The texts of a note, each with what its entry begins with.
template <class Note>
auto texts_of(Note& note) {
  return std::array{
      std::pair{std::string_view("what "), &note.what}, std::pair{std::string_view("from "), &note.from},
      std::pair{std::string_view("to "), &note.to}, std::pair{std::string_view("command "), &note.command}};
}

}  // namespace

std::string name_of(MoveSide side, std::string_view id) {
  return std::string(begin_of(side)).append(id);
}

std::string part_name(MoveSide side, std::string_view id, std::string_view part) {
  return (name_of(side, id) += kPart).append(part);
}

bool is_part(MoveSide side, std::string_view name) {
  return name.starts_with(begin_of(side)) && name.find(kPart) != std::string_view::npos;
}

std::string record_of(const MoveNote& note) {
  core::StoredNumbers state;
  state.put(note.arrived ? 1 : 0);
  state.put(static_cast<std::int64_t>(note.generation));
  state.put(static_cast<std::int64_t>(note.source));
  std::vector<core::StoredEntry> entries{
      {.name = std::string(kState), .numbers = std::move(state)},
      {.name = std::string(kCounts), .numbers = core::StoredNumbers(note.counts)}};
  for (const auto& [begins, text] : texts_of(note))
    entries.push_back({.name = std::string(begins) + *text, .numbers = core::StoredNumbers()});
  Buffer bytes;
  core::write(entries, bytes);
  return std::string(bytes.view());
}

Result<std::optional<MoveNote>> move_note(MoveSide side, std::string_view name, std::string_view record) {
  const std::string_view begins = begin_of(side);
  if (!name.starts_with(begins) || is_part(side, name)) return std::optional<MoveNote>();
  core::StoredDecoder decoder;
  auto entries = decoder.entries(record);
  if (!entries)
    return failure(ErrorCode::internal,
                   "note \"" + std::string(name) + "\" cannot be read: " + entries.error().message);
  MoveNote note{
      .id = std::string(name.substr(begins.size())), .what = {}, .from = {}, .to = {}, .command = {}};
  for (core::StoredEntry& entry : *entries) {
    if (entry.name == kState) {
      note.arrived = entry.numbers.next() != 0;
      note.generation = static_cast<std::uint64_t>(entry.numbers.next());
      note.source = static_cast<std::uint64_t>(entry.numbers.next());
    }
    if (entry.name == kCounts) note.counts = entry.numbers.all();
    for (const auto& [begin, text] : texts_of(note))
      if (entry.name.starts_with(begin)) *text = entry.name.substr(begin.size());
  }
  return std::optional(std::move(note));
}

std::optional<std::string> why_not_served(std::string_view name, std::string_view record) {
  for (const MoveSide side : {MoveSide::source, MoveSide::target}) {
    const auto note = move_note(side, name, record);
    if (!note) return note.error().message;
    if (!*note || (*note)->arrived) continue;
    return "a move of " + (*note)->what + " from " + (*note)->from + " to " + (*note)->to +
           " is under way and has not come to its end; say it again, which goes on with it: " +
           (*note)->command;
  }
  return std::nullopt;
}

}  // namespace lanemq::io
