// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lanemq {

/// Text of a peer made safe for logs and terminals: controls, what unprintable.hpp has, and no UTF-8 become
/// `\xNN`, and text beyond `bytes_max` is cut with `...`.
std::string printable(std::string_view text, std::size_t bytes_max = 256);

/// The start of a UTF-8 text, at most `bytes_max` bytes, without a partial character at its end.
std::string_view beginning(std::string_view text, std::size_t bytes_max);

/// Whether the bytes are well-formed UTF-8 (RFC 3629).
bool is_utf8(std::string_view text);

/// Whether `text` matches `pattern`, in which `*` stands for any run of characters and `?` for one.
bool glob_match(std::string_view pattern, std::string_view text);

/// Whether some text matches both patterns.
bool globs_meet(std::string_view one, std::string_view other);

/// Whether every text that `special` matches is matched by `general`, as far as can be told: false may be
/// wrong for patterns with more than one `*` at their end.
bool glob_covers(std::string_view general, std::string_view special);

/// A Unix time in ms as 2026-11-25T23:05:00.123Z (RFC 3339).
std::string rfc3339(std::int64_t unix_ms);

}  // namespace lanemq
