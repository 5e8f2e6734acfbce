// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::cli {

// The broker's answers to operators (docs/protocol/operating.md, "Operating the broker"), as text for people.

/// Appends a page of a list to `document`, which has the pages before it and keeps at most `rows_max` rows
/// (0: all). Returns where the next page begins; none at the end, or if there are enough rows. Where rows are
/// left out `document` has the next page's beginning, too.
std::optional<std::int64_t> add_admin_page(std::string& document, const std::string& page,
                                           std::string_view verb, std::size_t rows_max, std::int64_t from);

/// Adds the answer to a redrive or purge to `document`, the sum of earlier ones, empty at first. Returns
/// where to continue.
std::optional<std::int64_t> add_dead_change(std::string& document, const std::string& answer);

/// Whether the answer to a handover says that no broker waits for the store. One that does not say is no.
bool nobody_waits(std::string_view json);

/// The answer to a verb: a table for a list, a line for each field of a job, a sentence for a change. Empty:
/// the text is no such answer.
std::optional<std::string> admin_text(std::string_view verb, std::string_view json, bool colour);

/// What one screen of `lanemq top` shows, as JSON.
struct TopFacts {
  std::string stats, lanes, workers, clients;
};

/// The lines of one picture: lanes with their rates since `before` (empty: the first picture) and how long
/// jobs waited and ran in the last minute, budgets, the busiest workers and clients.
std::vector<std::string> top_lines(const TopFacts& facts, const TopFacts& before,
                                   std::chrono::duration<double> elapsed);

}  // namespace lanemq::cli
