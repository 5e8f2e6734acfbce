// SPDX-License-Identifier: Apache-2.0
// What the double answers, before any API gives it a shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/upstream/draws.hpp"
#include "tests/support/upstream/request.hpp"

namespace lanemq::upstream {

/// No answer whose length is drawn is longer, whatever `max_tokens` allows. A token is four bytes.
inline constexpr std::uint64_t kAnswerTokensMax = 4096;
/// Of one whose caller says how many tokens it has.
inline constexpr std::uint64_t kAskedTokensMax = 4'000'000;
/// No thinking is longer than this.
inline constexpr std::uint64_t kThinkingTokensMax = 16;

enum class PartKind { thinking, text, tool };

struct Part {
  PartKind kind = PartKind::text;
  std::string content{};  ///< Of a tool: its arguments, in JSON.
};

/// One delta of a stream: a token of one part.
struct Delta {
  std::size_t part = 0;
  std::string_view text{};
  bool first = false;  ///< Of its part.
  bool last = false;
};

struct Answer {
  std::vector<Part> parts{};
  std::uint64_t tokens = 0;  ///< Of all parts; this many deltas, too.
  bool cut = false;          ///< It ended because max_tokens was reached.
};

/// Draws an answer to the request, of at most its `max_tokens`: a plausible text, or what fits the schema
/// that it gave, or a call of its tool; behind some thinking if it asked for that. `tokens` says how long the
/// text is to be, if max_tokens allows it.
Answer draw_answer(Draws& draws, const ModelRequest& request, std::optional<std::uint64_t> tokens = {});

/// Cuts an answer into its deltas, one after the other. A token is four bytes, but that no character is
/// split. The answer must outlive it.
class Deltas {
 public:
  explicit Deltas(const Answer& answer) : answer_(&answer) {}
  std::optional<Delta> next();

 private:
  const Answer* answer_;
  std::size_t part_ = 0;
  std::size_t token_ = 0;
};

/// All that an API needs to write an answer down.
struct Completion {
  std::string id{};  ///< 16 hexadecimal digits; each API puts its prefix before it.
  std::int64_t created_s = 0;
  ModelRequest request{};
  Answer answer{};
};

}  // namespace lanemq::upstream
