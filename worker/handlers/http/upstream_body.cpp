// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/upstream_body.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "common/json/cursor.hpp"

namespace lanemq::worker {
namespace {

using Count = std::optional<std::int64_t>;

constexpr std::size_t kTextBytesMax = 4096;  ///< of an error's texts

/// Sets the count, unless the value is no count, as a negative one.
void take_count(std::string_view value, Count& count) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size() && number >= 0) count = number;
}

struct Counts {
  Count input, output, total, cached, cache_creation, reasoning;
};

/// Calls `take` with each member of the next object, if one comes next; `take` moves the cursor behind the
/// value.
template <class Take>
void for_each_member(JsonCursor& cursor, Take take) {
  if (!cursor.enter_object()) {
    cursor.value();
    return;
  }
  std::string_view key;
  while (cursor.member(key))
    take(key);
}

void read_detail(JsonCursor& cursor, std::string_view name, Count& count) {
  for_each_member(cursor, [&](std::string_view key) {
    const std::string_view value = cursor.value();
    if (json_says(key, name)) take_count(value, count);
  });
}

void read_usage(JsonCursor& cursor, Counts& counts) {
  for_each_member(cursor, [&](std::string_view key) {
    const auto is = [key](std::string_view name) { return json_says(key, name); };
    if (is("prompt_tokens_details") || is("input_tokens_details"))
      return read_detail(cursor, "cached_tokens", counts.cached);
    if (is("completion_tokens_details") || is("output_tokens_details"))
      return read_detail(cursor, "reasoning_tokens", counts.reasoning);
    const std::string_view value = cursor.value();
    if (is("prompt_tokens") || is("input_tokens"))
      take_count(value, counts.input);
    else if (is("completion_tokens") || is("output_tokens"))
      take_count(value, counts.output);
    else if (is("total_tokens"))
      take_count(value, counts.total);
    else if (is("cache_read_input_tokens"))
      take_count(value, counts.cached);
    else if (is("cache_creation_input_tokens"))
      take_count(value, counts.cache_creation);
  });
}

/// A text inside `error` wins over the top level, where `type` may be just "error".
void take_text(std::string_view value, bool wins, std::string& text) {
  if (!wins && !text.empty()) return;
  // Cuts the unescaped text: cut before, it might end in half an escape.
  if (const auto said = unquoted_json(value)) text.assign(*said, 0, kTextBytesMax);
}

void read_error(JsonCursor& cursor, BodyFacts& facts) {
  for_each_member(cursor, [&](std::string_view key) {
    const std::string_view value = cursor.value();
    if (json_says(key, "code")) {
      Count status;
      take_count(value, status);
      if (!status) {
        // A few write the status as a text.
        const bool quoted = value.size() == 5 && value.front() == '"';
        if (quoted) take_count(value.substr(1, 3), status);
      }
      if (status && *status >= 400 && *status <= 599) facts.error_status = static_cast<long>(*status);
      take_text(value, true, facts.error_code);
    } else if (json_says(key, "status")) {
      // Google's word, beside a code that is a number; a number elsewhere.
      Count status;
      take_count(value, status);
      if (status && *status >= 400 && *status <= 599) facts.error_status = static_cast<long>(*status);
      take_text(value, false, facts.error_type);
    } else if (json_says(key, "type")) {
      take_text(value, true, facts.error_type);
    } else if (json_says(key, "message")) {
      take_text(value, true, facts.error_message);
    }
  });
}

/// Counts that are listed apart share the input limit, but cached input that was read does not count.
Count input_of(const Counts& counts) {
  if (!counts.input || !counts.cache_creation) return counts.input;
  const std::int64_t room = std::numeric_limits<std::int64_t>::max() - *counts.input;
  return *counts.input + (*counts.cache_creation <= room ? *counts.cache_creation : 0);
}

/// Answers without output, such as embeddings: some upstreams report input and total, others the total alone.
void fill_from_total(Counts& counts) {
  if (!counts.total || counts.output) return;
  if (!counts.input) counts.input = counts.total;
  counts.output = std::max<std::int64_t>(*counts.total - *counts.input, 0);
}

}  // namespace

BodyFacts read_body(std::string_view json) {
  BodyFacts facts;
  if (json.size() > kReadBytesMax) return facts;
  Counts counts;
  JsonCursor cursor(json);
  // Google's errors may stand in a list.
  const bool in_list = cursor.enter_array();
  if (in_list && !cursor.element()) return facts;
  for_each_member(cursor, [&](std::string_view key) {
    const auto is = [key](std::string_view name) { return json_says(key, name); };
    if (is("usage") && !in_list) return read_usage(cursor, counts);
    if (is("error")) {
      const char first = cursor.peek();
      facts.says_error = facts.says_error || first == '{' || first == '"';
      if (first == '{') return read_error(cursor, facts);
    }
    // Cloudflare lists errors.
    if (is("errors") && cursor.peek() == '[' && cursor.enter_array()) {
      while (cursor.element())
        read_error(cursor, facts);
      return;
    }
    const std::string_view value = cursor.value();
    if (is("code"))
      take_text(value, false, facts.error_code);
    else if (is("type"))
      take_text(value, false, facts.error_type);
    else if (is("message") || is("error"))
      take_text(value, false, facts.error_message);
  });
  fill_from_total(counts);
  const Count input = input_of(counts);
  if (input || counts.output || counts.cached || counts.reasoning) {
    facts.usage.emplace();
    facts.usage->input_tokens = input;
    facts.usage->output_tokens = counts.output;
    facts.usage->cached_tokens = counts.cached;
    facts.usage->reasoning_tokens = counts.reasoning;
  }
  return facts;
}

std::string_view only_error_of(std::string_view json) {
  static constexpr std::string_view kAnswers[] = {"choices", "data",    "content",    "output",
                                                  "object",  "results", "embeddings", "candidates"};
  if (json.size() > kReadBytesMax) return {};
  JsonCursor cursor(json);
  const bool in_list = cursor.enter_array();
  if (in_list && !cursor.element()) return {};
  std::string_view key, error;
  if (!cursor.enter_object()) return {};
  while (cursor.member(key)) {
    const std::string_view value = cursor.value();
    if (json_says(key, "error")) error = value;
    for (const std::string_view name : kAnswers)
      if (json_says(key, name) && value != "null") return {};
  }
  if (in_list && cursor.element()) return {};
  const bool says_something = error.starts_with('{') || error.starts_with('"');
  return cursor.failed() || !says_something || error == "{}" || error == "\"\"" ? std::string_view() : error;
}

}  // namespace lanemq::worker
