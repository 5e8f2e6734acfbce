// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/settings/usage_error.hpp"

/// Values as people write them for an option. What reads throws UsageError, which says what the value must be
/// but not whose it is: the reader of options puts that in front. What shows gives a text that is read back
/// as the same.
namespace lanemq::settings {

/// What an option is told: one text, or of a list as many as there are.
using Values = std::vector<std::string>;
using Duration = std::chrono::microseconds;

inline constexpr Duration kDay = std::chrono::hours(24);
inline constexpr std::int64_t kCountMax = std::numeric_limits<std::int64_t>::max();

/// `30s`, `500ms`: a whole number and its unit (us, ms, s, m, h, d). `0` needs none.
Duration parse_duration(std::string_view text);
std::string show(Duration duration);

/// Bytes: `64MiB`, `4096B`.
std::size_t parse_size(std::string_view text);
std::string show_size(std::size_t size);

std::int64_t parse_count(std::string_view text, std::int64_t min = 0, std::int64_t max = kCountMax);

/// Thousandths: `0.2` and `20%` are 200.
int parse_share(const std::string& text);
std::string show_share(int thousandths);

bool parse_switch(std::string_view text);
std::string show_switch(bool yes);

/// One of kLogLevels.
std::string parse_level(std::string_view text);
/// How a line of the log reads.
std::string parse_log_format(std::string_view text);
inline constexpr std::string_view kLogLevels[] = {"debug", "info", "warning", "error", "off"};

/// A name as the protocol has them: not empty, UTF-8, bounded.
std::string parse_name(std::string_view text);
/// Words; `a,b` counts as two.
std::vector<std::string> parse_words(const Values& values);

/// The one of `known` that was perhaps meant; empty: none is near.
std::string nearest(std::string_view key, const std::vector<std::string>& known);
/// Refuses `key`, and says which of `known` was perhaps meant, else all there are.
[[noreturn]] void unknown_key(std::string_view what, std::string_view key,
                              const std::vector<std::string>& known);

}  // namespace lanemq::settings
