// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "broker/core/base/options.hpp"

/// Values as people write them: numbers with units, shares, switches. What reads throws ConfigError if a text
/// is not understood, and says what to write instead; what shows gives a text that is read back as the same.
namespace lanemq::config {

/// "30s", "500ms": a whole number and its unit.
core::Duration parse_duration(const std::string& text);
std::string show(core::Duration duration);

/// Bytes: "64MiB", "4096B".
std::size_t parse_size(const std::string& text);
std::string show_size(std::size_t size);

std::int64_t parse_count(const std::string& text, std::int64_t min = 0,
                         std::int64_t max = std::numeric_limits<std::int64_t>::max());

/// Thousandths: "0.2" and "20%" are 200.
int parse_share(const std::string& text);
std::string show_share(int thousandths);

/// "true", "false".
bool parse_switch(const std::string& text);

}  // namespace lanemq::config
