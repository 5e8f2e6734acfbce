// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "settings/usage_error.hpp"

/// Values as people write them for an option. All throw UsageError, which says what the value must be but not
/// whose it is: the reader of options puts that in front.
namespace lanemq::settings {

/// Of an option that may be given several times; never without one.
using Values = std::vector<std::string>;

inline constexpr std::int64_t kDayMs = std::int64_t{24} * 3600 * 1000;

std::int64_t number(const std::string& text, std::int64_t min, std::int64_t max);
std::size_t count(const std::string& text, std::int64_t min, std::int64_t max);
/// Milliseconds, from `min` to a day.
std::chrono::milliseconds duration(const std::string& text, std::int64_t min);
/// A name as the protocol has them: not empty, UTF-8, bounded.
std::string name(const std::string& text);
bool yes_or_no(const std::string& text);
std::string log_level(const std::string& text);
/// Words; `a,b` counts as two.
std::vector<std::string> words(const Values& values);

}  // namespace lanemq::settings
