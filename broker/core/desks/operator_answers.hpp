// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/text.hpp>

#include "broker/core/base/event.hpp"
#include "broker/core/base/refusal.hpp"
#include "broker/core/desks/document_answer.hpp"
#include "broker/core/jobs/kept_result.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {

// Functions shared by the answers to operators.

/// Places of the job table that one answer looks at, whatever its filter passes: a list of a million jobs
/// takes many answers, each a small part of a turn.
inline constexpr std::size_t kPlacesPerPage = 4096;

inline std::int64_t signed_of(std::size_t value) {
  return static_cast<std::int64_t>(value);
}

/// Whether the name equals `wanted` or matches it as a glob; an empty `wanted` passes all.
inline bool passes(std::string_view wanted, std::string_view name) {
  return wanted.empty() || glob_match(wanted, name);
}

inline void reply(State& state, const AdminAsked& to, const DocumentMap& document) {
  answer(state.outbox, to.from, to.fields->ref.bytes, document);
}

/// Whether the filter passes this dead job.
bool is_meant(const State& state, const KeptResult& result, const wire::AdminQuery& filter);

/// Calls `take` with each dead job that the filter passes, the oldest first, until it returns false; `take`
/// may bring the job back to life. Returns where to continue, if jobs are left.
template <class Take>
std::optional<std::uint64_t> for_each_dead(const State& state, KeptResults& kept,
                                           const wire::AdminQuery& filter, Take take) {
  std::size_t seen = 0;
  for (KeptResult* result = kept.oldest_dead(); result != nullptr;) {
    KeptResult& dead = *result;
    result = kept.next_dead(dead);
    const std::uint64_t number = dead.dead()->number;
    if (number < static_cast<std::uint64_t>(filter.from)) continue;
    if (seen++ == kPlacesPerPage) return number;
    if (is_meant(state, dead, filter) && !take(dead)) return number;
  }
  return std::nullopt;
}

}  // namespace lanemq::core
