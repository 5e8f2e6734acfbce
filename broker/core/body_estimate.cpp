// SPDX-License-Identifier: Apache-2.0
#include "broker/core/body_estimate.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace lanemq::core {
namespace {

/// Weights in 1/256 token by the class of a byte: first guesses, measured on English prose, code and JSON.
constexpr std::int64_t kTokenWeight = 256;
constexpr std::array<std::uint16_t, 256> make_weights() {
  std::array<std::uint16_t, 256> weights{};
  for (int c = 0; c < 256; ++c) {
    std::uint16_t weight = 120;  // punctuation
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) weight = 54;
    if (c >= '0' && c <= '9') weight = 90;
    if (c == ' ' || c == '\t' || c == '\r') weight = 6;
    if (c == '\n') weight = 48;
    if (c >= 0x80 && c < 0xC0) weight = 0;  // continues a character
    if (c >= 0xC0 && c < 0xE0) weight = 150;
    if (c >= 0xE0 && c < 0xF0) weight = 230;
    if (c >= 0xF0) weight = 420;
    weights[static_cast<std::size_t>(c)] = weight;
  }
  return weights;
}
constexpr std::array<std::uint16_t, 256> kWeights = make_weights();

/// What a message and an answer cost besides their text, in tokens.
constexpr std::int64_t kPerMessage = 4, kPerTool = 8, kReplyPrime = 3;
/// A string of at least so many bytes that holds nothing but base64 is media, not text.
constexpr std::size_t kBase64Min = 256;

std::int64_t weigh(std::string_view text) {
  // Four sums, so that no addition waits for the one before.
  std::array<std::int64_t, 4> sums{};
  std::size_t i = 0;
  for (; i + 4 <= text.size(); i += 4)
    for (std::size_t lane = 0; lane < 4; ++lane)
      sums[lane] += kWeights[static_cast<unsigned char>(text[i + lane])];
  for (; i < text.size(); ++i)
    sums[0] += kWeights[static_cast<unsigned char>(text[i])];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

bool is_base64(std::string_view text) {
  return text.size() >= kBase64Min && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
                  c == '/' || c == '=' || c == '-' || c == '_';
         });
}

bool is_media(std::string_view text) {
  return text.starts_with("data:") || is_base64(text);
}

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::string_view, 12> kNames{
    "model",      "role",   "id",       "type",         "user",          "tool_call_id",
    "media_type", "detail", "metadata", "service_tier", "cache_control", "tool_use_id"};
constexpr std::array<std::string_view, 3> kOutputBounds{"max_tokens", "max_completion_tokens",
                                                        "max_output_tokens"};
constexpr std::array<std::string_view, 3> kToolLists{"tools", "functions", "response_format"};

/// One pass over JSON. Knows of its structure what tells keys from values and the outermost object from what
/// is inside it.
class Scanner {
 public:
  explicit Scanner(std::string_view body) : at_(body.data()), end_(body.data() + body.size()) {}

  BodyEstimate scan() {
    while (at_ != end_) {
      const char c = *at_++;
      switch (c) {
        case '"':
          take_string();
          break;
        case '{':
        case '[':
          open(c);
          break;
        case '}':
        case ']':
          if (depth_ > 0) --depth_;
          if (depth_ < tools_depth_) tools_depth_ = kNoTools;
          break;
        default:
          if (is_value_of_key_ && (c == '-' || (c >= '0' && c <= '9'))) take_number();
          break;
      }
    }
    estimate_.text_tokens = weight_ / kTokenWeight + kReplyPrime;
    if (estimate_.max_output) *estimate_.max_output = std::min(*estimate_.max_output, kTokensMax) * choices_;
    return estimate_;
  }

 private:
  static constexpr std::int64_t kTokensMax = 100'000'000;
  static constexpr int kNoTools = 1 << 30;

  void open(char c) {
    ++depth_;
    if (is_value_of_key_ && depth_ == 2 && is_one_of(key_, kToolLists)) tools_depth_ = depth_;
    if (c == '{' && depth_ == tools_depth_ + 1) weight_ += kPerTool * kTokenWeight;
    is_value_of_key_ = false;
  }

  void take_string() {
    const char* const begin = at_;
    const char* quote = at_;
    while (true) {
      quote = static_cast<const char*>(std::memchr(quote, '"', static_cast<std::size_t>(end_ - quote)));
      if (quote == nullptr) break;
      // Quoted only if an odd number of backslashes stands before it.
      const char* slash = quote;
      while (slash != begin && slash[-1] == '\\')
        --slash;
      if ((quote - slash) % 2 == 0) break;
      ++quote;
    }
    const std::string_view text(begin, static_cast<std::size_t>((quote == nullptr ? end_ : quote) - begin));
    at_ = quote == nullptr ? end_ : quote + 1;
    const char* after = at_;
    while (after != end_ && (*after == ' ' || *after == '\n' || *after == '\t' || *after == '\r'))
      ++after;
    if (after != end_ && *after == ':') {
      at_ = after + 1;
      key_ = text;
      is_value_of_key_ = true;
      if (tools_depth_ != kNoTools) weight_ += weigh(text);
      if (text == "role") weight_ += kPerMessage * kTokenWeight;
      return;
    }
    const bool names = is_value_of_key_ && tools_depth_ == kNoTools && is_one_of(key_, kNames);
    is_value_of_key_ = false;
    if (names) return;
    if (is_media(text))
      ++estimate_.media;
    else
      weight_ += weigh(text);
  }

  void take_number() {
    --at_;
    is_value_of_key_ = false;
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(at_, end_, value);
    at_ = std::max(rest, at_ + 1);
    if (error != std::errc() || value < 0 || depth_ != 1) return;
    if (is_one_of(key_, kOutputBounds))
      estimate_.max_output = std::max(estimate_.max_output.value_or(0), value);
    if (key_ == "n") choices_ = std::clamp<std::int64_t>(value, 1, 128);
  }

  const char* at_;
  const char* end_;
  BodyEstimate estimate_;
  std::int64_t weight_ = 0, choices_ = 1;
  std::string_view key_;
  bool is_value_of_key_ = false;
  int depth_ = 0, tools_depth_ = kNoTools;
};

}  // namespace

BodyEstimate estimate_body(std::string_view body) {
  const std::size_t first = body.find_first_not_of(" \n\r\t");
  if (first == std::string_view::npos) return {};
  if (body[first] == '{' || body[first] == '[') return Scanner(body).scan();
  BodyEstimate estimate;
  if (is_media(body))
    estimate.media = 1;
  else
    estimate.text_tokens = weigh(body) / kTokenWeight + kReplyPrime;
  return estimate;
}

}  // namespace lanemq::core
