// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/body_estimate.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace lanemq::core {
namespace {

/// Weights in 1/256 token by class of byte: first guesses, measured on English prose, code and JSON.
constexpr std::int64_t kTokenWeight = 256;
constexpr std::int64_t kLetter = 54, kDigit = 90, kSpace = 6, kNewline = 48, kPunctuation = 120;
/// Weights of a UTF-8 character of 2, 3 or 4 bytes, counted at its first byte.
constexpr std::int64_t kLead2 = 150, kLead3 = 230, kLead4 = 420;

constexpr std::array<std::uint16_t, 256> make_weights() {
  std::array<std::uint16_t, 256> weights{};
  for (int c = 0; c < 256; ++c) {
    std::int64_t weight = kPunctuation;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) weight = kLetter;
    if (c >= '0' && c <= '9') weight = kDigit;
    if (c == ' ' || c == '\t' || c == '\r') weight = kSpace;
    if (c == '\n') weight = kNewline;
    if (c >= 0x80 && c < 0xC0) weight = 0;
    if (c >= 0xC0 && c < 0xE0) weight = kLead2;
    if (c >= 0xE0 && c < 0xF0) weight = kLead3;
    if (c >= 0xF0) weight = kLead4;
    weights[static_cast<std::size_t>(c)] = static_cast<std::uint16_t>(weight);
  }
  return weights;
}
constexpr std::array<std::uint16_t, 256> kWeights = make_weights();

/// Tokens that a message, a tool and an answer cost besides their text.
constexpr std::int64_t kPerMessage = 4, kPerTool = 8, kReplyPrime = 3;
/// A string of at least so many bytes that holds nothing but base64 is media, not text.
constexpr std::size_t kBase64Min = 256;

/// Bytes that are counted at once: few enough that the counters of classes fit a byte.
constexpr std::size_t kStride = 240;

/// The weight of kStride bytes. Counts classes instead of looking weights up, so that the compiler can make
/// 16 comparisons at a time.
[[gnu::optimize("O3")]] std::int64_t weigh_stride(const char* text) {
  std::uint8_t letters = 0, digits = 0, spaces = 0, newlines = 0, high = 0;
  for (std::size_t i = 0; i < kStride; ++i) {
    const auto c = static_cast<std::uint8_t>(text[i]);
    letters = static_cast<std::uint8_t>(letters + (static_cast<std::uint8_t>((c | 0x20) - 'a') < 26));
    digits = static_cast<std::uint8_t>(digits + (static_cast<std::uint8_t>(c - '0') < 10));
    spaces = static_cast<std::uint8_t>(spaces + ((c == ' ') | (c == '\t') | (c == '\r')));
    newlines = static_cast<std::uint8_t>(newlines + (c == '\n'));
    high = static_cast<std::uint8_t>(high | c);
  }
  std::int64_t weight = std::int64_t{letters} * kLetter + std::int64_t{digits} * kDigit +
                        std::int64_t{spaces} * kSpace + std::int64_t{newlines} * kNewline;
  const int rest = static_cast<int>(kStride) - letters - digits - spaces - newlines;
  if (high < 0x80) return weight + rest * kPunctuation;
  std::uint8_t inner = 0, lead2 = 0, lead3 = 0, lead4 = 0;
  for (std::size_t i = 0; i < kStride; ++i) {
    const auto c = static_cast<std::uint8_t>(text[i]);
    inner = static_cast<std::uint8_t>(inner + ((c & 0xC0) == 0x80));
    lead2 = static_cast<std::uint8_t>(lead2 + ((c & 0xE0) == 0xC0));
    lead3 = static_cast<std::uint8_t>(lead3 + ((c & 0xF0) == 0xE0));
    lead4 = static_cast<std::uint8_t>(lead4 + (c >= 0xF0));
  }
  return weight + (rest - inner - lead2 - lead3 - lead4) * kPunctuation + lead2 * kLead2 + lead3 * kLead3 +
         lead4 * kLead4;
}

std::int64_t weigh(std::string_view text) {
  std::int64_t sum = 0;
  for (; text.size() >= kStride; text.remove_prefix(kStride))
    sum += weigh_stride(text.data());
  for (const char c : text)
    sum += kWeights[static_cast<unsigned char>(c)];
  return sum;
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

/// One pass over JSON. Knows just enough structure to tell keys from values, and the outermost object from
/// what is inside it.
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
      // A quote is escaped only if an odd number of backslashes stands before it.
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
