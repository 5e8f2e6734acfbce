// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/answer.hpp"

#include <algorithm>
#include <array>

namespace lanemq::upstream {
namespace {

constexpr std::array<std::string_view, 25> kSentences = {
    "Let us go through this step by step. ",
    "First we note what is given and what is asked. ",
    "The total is the sum of the parts, so we add them up. ",
    "That leaves half of the original amount. ",
    "Multiplying both sides gives the same ratio. ",
    "We can check this against the numbers in the question. ",
    "In other words, the second group is three times as large as the first. ",
    "This means that each of them receives an equal share. ",
    "After the first day there are 42 left. ",
    "Subtracting what was already used, we get 18. ",
    "The remaining part costs $7.50 per unit. ",
    "At that rate it takes two and a half hours. ",
    "Note that the order of these steps does not matter. ",
    "If we had started from the other end, the result would be the same. ",
    "There are, however, two cases to consider. ",
    "In the first case the answer follows directly. ",
    "In the second case we need one more step. ",
    "Putting both together, we arrive at the final figure. ",
    "It helps to write the quantities in a small table. ",
    "The percentage is taken of the new price, not of the old one. ",
    "So the difference between them is 12. ",
    "Rounding is not needed here. ",
    "Therefore the answer is 24. ",
    "I hope this makes the reasoning clear. ",
    "As the café's bill of 30 € shows, naïve sums add up – 五 and 七 are 十二. 🙂 ",
};

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

// The first byte of a character at or behind `at`.
std::size_t next_character(std::string_view text, std::size_t at) {
  while (at < text.size() && !begins_character(text[at]))
    ++at;
  return std::min(at, text.size());
}

// Sentences, to the byte: what is left of a character that would be cut is filled with dots.
std::string draw_text(Draws& draws, std::uint64_t tokens) {
  const std::size_t bytes = tokens * kBytesPerToken;
  std::string text;
  text.reserve(bytes + 128);
  while (text.size() < bytes)
    text += kSentences[draws.below(kSentences.size())];
  std::size_t end = bytes;
  while (end < text.size() && !begins_character(text[end]))
    --end;
  text.resize(end);
  text.resize(bytes, '.');
  return text;
}

std::string cut_text(std::string text, std::uint64_t tokens) {
  if (text.size() <= tokens * kBytesPerToken) return text;
  std::size_t end = tokens * kBytesPerToken;
  while (!begins_character(text[end]))
    --end;
  text.resize(end);
  return text;
}

}  // namespace

Answer draw_answer(Draws& draws, const ModelRequest& request, std::optional<std::uint64_t> tokens) {
  Answer answer;
  const std::uint64_t most = tokens ? kAskedTokensMax : kAnswerTokensMax;
  std::uint64_t allowed = std::min(request.max_tokens, most);
  if (request.thinking) {
    const std::uint64_t thought = std::min(kThinkingTokensMax, std::max<std::uint64_t>(1, allowed / 2));
    answer.parts.push_back({.kind = PartKind::thinking, .content = draw_text(draws, thought)});
    answer.tokens += thought;
    allowed -= std::min(thought, allowed - 1);
  }
  const PartKind kind = request.tool.empty() ? PartKind::text : PartKind::tool;
  if (request.fitting.empty()) {
    const std::uint64_t count =
        tokens ? std::clamp<std::uint64_t>(*tokens, 1, allowed) : draws.answer_tokens(allowed);
    answer.parts.push_back({.kind = kind, .content = draw_text(draws, count)});
    answer.cut =
        request.max_tokens_asked && count == allowed && allowed < most && (!tokens || *tokens > allowed);
    answer.tokens += count;
  } else {
    std::string fitting = cut_text(request.fitting, allowed);
    answer.cut = fitting.size() < request.fitting.size();
    answer.tokens += tokens_of(fitting.size());
    answer.parts.push_back({.kind = kind, .content = std::move(fitting)});
  }
  return answer;
}

std::optional<Delta> Deltas::next() {
  if (part_ == answer_->parts.size()) return std::nullopt;
  const std::string_view content = answer_->parts[part_].content;
  const std::size_t begin = next_character(content, token_ * kBytesPerToken);
  const std::size_t end = next_character(content, (token_ + 1) * kBytesPerToken);
  const Delta delta{.part = part_,
                    .text = content.substr(begin, end - begin),
                    .first = token_ == 0,
                    .last = (token_ + 1) * kBytesPerToken >= content.size()};
  ++token_;
  if (delta.last) {
    ++part_;
    token_ = 0;
  }
  return delta;
}

}  // namespace lanemq::upstream
