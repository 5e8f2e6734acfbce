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

// What a broker answers to operators (docs/protocol.md, "Operating the broker"), as text for people.

/// Puts one page of a list to those before it, which are in `document`, and keeps at most `rows_max` rows (0:
/// all). Returns where the next page begins, and leaves that in `document` where rows are left out; empty:
/// there is none, or there are rows enough.
std::optional<std::int64_t> add_admin_page(std::string& document, const std::string& page,
                                           std::string_view verb, std::size_t rows_max, std::int64_t from);

/// The answer to a verb: a table for a list, a line for each field of a job, a sentence for a change. Empty:
/// the text is no such answer.
/// Adds the answer to a redrive or purge to the sum of those before it, empty at first. Returns where to go
/// on.
std::optional<std::int64_t> add_dead_change(std::string& document, const std::string& answer);

std::optional<std::string> admin_text(std::string_view verb, std::string_view json, bool colour);

/// What `lanemq top` knows at one time, as JSON.
struct TopFacts {
  std::string stats, workers, clients;
};

/// The lines of a picture for a screen: lanes, with what they finished in a second since `before` (empty: the
/// first picture), budgets, the busiest workers and clients.
std::vector<std::string> top_lines(const TopFacts& facts, const TopFacts& before,
                                   std::chrono::duration<double> elapsed);

/// As much of a line as fits into so many columns.
std::string cropped(const std::string& line, std::size_t columns);

}  // namespace lanemq::cli
