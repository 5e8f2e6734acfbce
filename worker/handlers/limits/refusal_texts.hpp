// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <lanemq/error_table.hpp>

#include "worker/handlers/limits/limit_words.hpp"

namespace lanemq::worker {

/// What codes and sentences for people say of a refusal.
struct RefusalWords {
  std::optional<LimitedBy> limited_by{};
  std::optional<std::int64_t> limit_concurrency{};
};

/// The part of a text that is searched.
inline constexpr std::size_t kTextScanMax = 4096;

/// What the code or type of an error says; nothing where the name is not known.
RefusalWords words_of_code(std::string_view name);
/// What a text says: `your concurrency is 40, which exceeds your limit of 39`, `requests per day`.
RefusalWords words_of_text(std::string_view text);
/// The wait that a text names: `try again in 8.64s`, `please wait 30 seconds`, `will reset at 2026-01-01
/// 00:00:00`.
std::optional<std::chrono::milliseconds> find_wait_in_text(std::string_view text, WallTime now);

}  // namespace lanemq::worker
