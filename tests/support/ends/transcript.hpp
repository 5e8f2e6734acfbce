// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Reads the transcripts of tests/ends and plays them: what they mean is in tests/ends/README.md. Knows no
/// session.
namespace lanemq::ends {

/// What stands behind `>`, `<` or alone: words, and fields that are `key=value`.
struct Line {
  int number = 0;
  std::vector<std::string> words;
  std::map<std::string, std::string> fields;

  std::string text() const;
  const std::string& word(std::size_t at) const { return words.at(at); }
  bool says(std::string_view word) const;
  /// Its value; empty: it has none.
  std::optional<std::string> field(const std::string& key) const;
  std::int64_t number_of(const std::string& key, std::int64_t otherwise) const;
  /// `body`, or as many x as `body_bytes` says.
  std::string body() const;
};

/// Something that happens, in one turn, and what the end says and tells because of it.
struct Step {
  std::vector<Line> happens, expected;
};

struct Transcript {
  std::string file, name, rule;
  Line of;                                    ///< client or worker, and how it begins
  std::map<std::string, std::string> except;  ///< why an end has no such rule
  std::vector<Step> steps;
};
void PrintTo(const Transcript& transcript, std::ostream* out);

/// All transcripts for `which`: client or worker. Throws std::runtime_error for one that is none.
std::vector<Transcript> read(std::string_view which);

/// `250ms`, `10s`, `1min`.
std::chrono::milliseconds duration(const std::string& text);

/// What an end does with what happens: what it said, and what it told.
struct Heard {
  std::vector<std::string> said, told;
};
using End = std::function<Heard(const std::vector<Line>&)>;

/// Plays a transcript. Empty, or what was expected, where, and what came.
std::string play(const Transcript& transcript, const End& end);

/// Words, and fields in the order of their names; those without a value are left out.
std::string words(std::string text, const std::map<std::string, std::string>& fields);

/// A message of a broker's: `ref` or `job` and `attempt` are among the numbers.
struct Message {
  std::string op;
  std::map<std::string, std::string> fields{};  ///< a number, true or a text
  std::map<std::string, std::uint64_t> numbers{};
  std::map<std::string, std::vector<std::string>> lists{};
  std::vector<std::pair<std::string, std::string>> states{};      ///< `jobs` of a status: ids and states
  std::vector<std::pair<std::uint64_t, std::uint64_t>> leases{};  ///< `jobs` of an acked
};
/// As msgpack, by this file alone: what the codec of the product reads.
std::string pack(const Message& message);

}  // namespace lanemq::ends
