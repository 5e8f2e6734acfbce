// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lanemq::cli {

/// Appends an answer of `stats` to `document`, which has the ones before; returns where the next one begins.
std::optional<std::int64_t> add_stats_page(std::string& document, const std::string& page, std::int64_t from);

/// The broker's statistics (docs/protocol/operating.md, `stats`) as a table for people: a line per lane, then
/// workers, budgets and memory. Lanes without a job since the broker's start are left out unless all are
/// asked for, or none had any. Empty: the text is no such document.
std::optional<std::string> stats_table(std::string_view json, bool colour, bool all_lanes = false);

/// From the same document: a line for each group of jobs that is under way, with what is done, of how many,
/// and how long the rest takes at the pace so far. Empty: there is none.
std::string groups_table(std::string_view json, bool colour);

inline constexpr std::string_view kNoBudgets =
    "no budget is configured: workers get as much as they have places for\n";

/// From the same document: a line per limit of each budget with what can be taken now, or `none`. Empty: the
/// text is no such document.
std::optional<std::string> limits_table(std::string_view json, bool colour,
                                        std::string_view none = kNoBudgets);

/// From the same document: its budgets as one line of JSON. Empty: the text is no such document.
std::optional<std::string> limits_json(std::string_view json);

/// From the same document: what upstreams have stated or shown of its limits, as entries for the broker's
/// file. Empty: the text is no such document.
std::optional<std::string> limits_config(std::string_view json);

/// Turns the operators' answer about budgets (docs/protocol/operating.md, verb `budgets`) into such a
/// document with `budgets` and `keys`. Empty: the text is no such answer.
std::optional<std::string> limits_of_rows(std::string_view json);

}  // namespace lanemq::cli
