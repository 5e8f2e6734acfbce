// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/body_estimate.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

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
/// A string of at least this many bytes that holds nothing but base64 is media under a key that carries
/// media. Elsewhere it is text without spaces, of which a token has at most kBytesPerToken bytes.
constexpr std::size_t kBase64Min = 256;
constexpr std::int64_t kBytesPerToken = 3;

// Work, in bytes that are weighed.
/// The prefix of the body that is scanned in full.
constexpr std::int64_t kScanWork = 1'250'000;
/// A byte of structure, a string besides its bytes, and an escaped quote; bytes that are skipped for one.
constexpr std::int64_t kStructureWork = 6, kStringWork = 40, kQuoteWork = 16;
constexpr std::size_t kSkippedBytes = 8;
/// Bytes of spaces that may stand before a body or between a key and its colon, and of a number.
constexpr std::size_t kSpacesMax = 4096, kNumberBytesMax = 32;

// The rest is sampled in kPieces pieces, each classified in blocks; the bounds of the answer are looked for
// in the last bytes.
constexpr std::size_t kPieces = 32, kBlocks = 16, kBlockBytes = 256, kLastBytes = std::size_t{64} << 10;
constexpr std::size_t kPieceBytes = kBlocks * kBlockBytes;
constexpr std::int64_t kPieceWork = 2 * kPieceBytes;
/// The size of media of which none was seen, and the least of others: what is only named has no size.
constexpr std::int64_t kMediaBytes = 1 << 20, kMediaBytesMin = 128 << 10;
static_assert(kScanWork + static_cast<std::int64_t>(kPieces) * kPieceWork + 2 * kLastBytes / 4 <
              kBodyWorkMax);

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
#pragma GCC unroll 8
  for (std::size_t i = 0; i < text.size(); ++i)
    sum += kWeights[static_cast<unsigned char>(text[i])];
  return sum;
}

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

constexpr bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool is_all_base64(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '+' || c == '/' ||
           c == '=' || c == '-' || c == '_';
  });
}

/// Looks at the beginning of a long text and at samples all over it.
bool is_base64(std::string_view text) {
  if (text.size() < kBase64Min || !is_all_base64(text.substr(0, kBase64Min))) return false;
  constexpr std::size_t kSamples = 15, kSampleBytes = 64;
  if (text.size() <= kSamples * kSampleBytes) return is_all_base64(text);
  for (std::size_t i = 1; i <= kSamples; ++i)
    if (!is_all_base64(text.substr((text.size() - kSampleBytes) / kSamples * i, kSampleBytes))) return false;
  return is_all_base64(text.substr(text.size() - kSampleBytes));
}

bool is_media(std::string_view text) {
  return text.starts_with("data:") || is_base64(text);
}

std::int64_t weigh_text(std::string_view text) {
  const std::int64_t weight = weigh(text);
  if (!is_base64(text)) return weight;
  return std::max(weight, static_cast<std::int64_t>(text.size()) * kTokenWeight / kBytesPerToken);
}

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::string_view, 13> kNames{
    "model",  "role",     "id",           "type",          "user",        "tool_call_id", "media_type",
    "detail", "metadata", "service_tier", "cache_control", "tool_use_id", "mime_type"};
/// Their text is the media itself; where it is not, it is text.
constexpr std::array<std::string_view, 4> kMediaData{"data", "url", "file_data", "b64_json"};
/// Their text names what the model reads: a file, a picture, what was said before.
constexpr std::array<std::string_view, 6> kReferences{
    "image_url", "file_id", "file_url", "file_uri", "previous_response_id", "conversation"};
/// In these a URL is that of media, and a list has media.
constexpr std::array<std::string_view, 6> kMediaHolders{"image_url", "source",    "file",
                                                        "images",    "video_url", "audio_url"};
constexpr std::array<std::string_view, 3> kOutputBounds{"max_tokens", "max_completion_tokens",
                                                        "max_output_tokens"};
constexpr std::array<std::string_view, 3> kToolLists{"tools", "functions", "response_format"};
/// Keys of a tool call's arguments, where these are not text.
constexpr std::array<std::string_view, 3> kToolArguments{"input", "args", "arguments"};

/// How the model takes the text of a value.
enum class Meaning : std::uint8_t { text, name, media, reference };

Meaning meaning_of(std::string_view key) {
  // Most texts have one of these keys.
  if (key == "content" || key == "text") return Meaning::text;
  if (is_one_of(key, kNames)) return Meaning::name;
  if (is_one_of(key, kMediaData)) return Meaning::media;
  return is_one_of(key, kReferences) ? Meaning::reference : Meaning::text;
}

/// The content of a part of a body, by its bytes alone.
struct Part {
  std::int64_t weight = 0, media_bytes = 0;
};

/// Base64 of anything but a text has capitals, small letters and digits, close by one another.
bool is_base64_of_media(std::string_view block) {
  if (!is_all_base64(block)) return false;
  std::size_t digits = 0, capitals = 0, small = 0;
  for (const char c : block) {
    digits += is_digit(c);
    capitals += c >= 'A' && c <= 'Z';
    small += c >= 'a' && c <= 'z';
  }
  const std::size_t least = block.size() / 32;
  return digits >= least && capitals >= least && small >= least;
}

/// `in_text`: the block belongs to a text if nothing in it says otherwise.
Part part_of(std::string_view block, bool in_text) {
  if (!in_text && is_base64_of_media(block)) return {.media_bytes = static_cast<std::int64_t>(block.size())};
  std::int64_t numbers = 0, other = 0;
  for (const char c : block) {
    numbers += c == ',';
    other += !(is_digit(c) || is_space(c) || c == ',' || c == '[' || c == ']' || c == '-' || c == '.');
  }
  if (other == 0 && numbers > 0) return {.weight = numbers * kTokenWeight};
  return {.weight = weigh_text(block)};
}

/// A key of an object, without escapes that it need not have: an upstream reads max_tokens in
/// `max_\u0074okens`, too.
class WrittenKey {
 public:
  operator std::string_view() const { return text_; }
  /// `written` outlives this.
  void set(std::string_view written) {
    text_ = written;
    if (written.size() > kBytesMax || written.find('\\') == std::string_view::npos) return;
    std::size_t size = 0;
    while (!written.empty()) {
      unsigned code = 0;
      const bool escapes = written.size() >= kEscape && written.starts_with("\\u") &&
                           std::from_chars(written.data() + 2, written.data() + kEscape, code, 16).ptr ==
                               written.data() + kEscape;
      plain_[size++] = escapes && code < 0x80 ? static_cast<char>(code) : written.front();
      written.remove_prefix(escapes && code < 0x80 ? kEscape : 1);
    }
    text_ = {plain_.data(), size};
  }

 private:
  static constexpr std::size_t kEscape = 6, kBytesMax = 256;  // of \uXXXX; longer ones mean nothing here

  std::string_view text_;
  std::array<char, kBytesMax> plain_;
};

/// One pass over JSON. Knows just enough structure to tell keys from values, and the outermost object from
/// what is inside it.
class Scanner {
 public:
  explicit Scanner(std::string_view body) : at_(body.data()), end_(body.data() + body.size()) {}

  BodyEstimate scan() {
    while (at_ != end_ && work_left() > 0) {
      const char c = *at_++;
      estimate_.work += kStructureWork;
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
          holds_media_ = false;
          break;
        case ',':
          is_value_of_key_ = false;
          break;
        default:
          if (c == '-' || is_digit(c)) take_number();
          break;
      }
    }
    return finish();
  }

  /// The body is one text.
  BodyEstimate scan_text() {
    const std::string_view text(at_, static_cast<std::size_t>(end_ - at_));
    at_ = end_;
    if (text.starts_with("data:"))
      take_media(text);
    else
      take_text(text);
    return finish();
  }

 private:
  static constexpr std::int64_t kTokensMax = 100'000'000, kChoicesMax = 128;
  static constexpr int kNoTools = 1 << 30;
  static constexpr std::string_view kPrompt = "prompt", kUrl = "url";

  std::int64_t work_left() const { return kScanWork - estimate_.work; }

  BodyEstimate finish() {
    if (const std::string_view rest(at_, static_cast<std::size_t>(end_ - at_)); !rest.empty())
      guess_rest(rest);
    estimate_.text_tokens = weight_ / kTokenWeight + kReplyPrime;
    if (estimate_.max_output)
      *estimate_.max_output *= answers_.choices * std::max<std::int64_t>(answers_.prompts, 1);
    return estimate_;
  }

  void open(char c) {
    ++depth_;
    holds_media_ = false;
    if (is_value_of_key_) {
      const bool tools =
          depth_ == 2 ? is_one_of(key_, kToolLists) : c == '{' && is_one_of(key_, kToolArguments);
      if (tools && tools_depth_ == kNoTools) tools_depth_ = depth_;
      holds_media_ = is_one_of(key_, kMediaHolders);
    }
    if (c == '[' && depth_ == 3 && key_ == kPrompt) ++answers_.prompts;
    if (c == '{' && depth_ == tools_depth_ + 1) weight_ += kPerTool * kTokenWeight;
    is_value_of_key_ = false;
  }

  /// The string that begins here, or as much as may be looked through. Moves past the string.
  std::string_view find_string(bool skipped) {
    const char* const begin = at_;
    const std::int64_t most = skipped ? work_left() * static_cast<std::int64_t>(kSkippedBytes) : work_left();
    const char* const limit = begin + std::clamp<std::int64_t>(most, 0, end_ - begin);
    const char* end = limit;
    at_ = limit;
    for (const char* from = begin;;) {
      const auto* const quote =
          static_cast<const char*>(std::memchr(from, '"', static_cast<std::size_t>(limit - from)));
      if (quote == nullptr) break;
      end = quote;
      at_ = from = quote + 1;
      // A quote is escaped only if an odd number of backslashes stands before it.
      const char* slash = quote;
      while (slash != begin && slash[-1] == '\\' && quote - slash <= work_left())
        --slash;
      estimate_.work += quote - slash;
      if ((quote - slash) % 2 == 0) break;
      end = at_ = limit;
      estimate_.work += kQuoteWork;
      if (work_left() > 0) continue;
      end = at_ = from;
      break;
    }
    estimate_.work +=
        kStringWork + static_cast<std::int64_t>(static_cast<std::size_t>(end - begin) / kSkippedBytes);
    return {begin, static_cast<std::size_t>(end - begin)};
  }

  void take_string() {
    const bool tools = tools_depth_ != kNoTools;
    Meaning meaning = Meaning::text;
    if (!tools && is_value_of_key_)
      meaning = meaning_of(key_);
    else if (!tools && holds_media_)
      meaning = Meaning::media;
    const std::string_view text = find_string(meaning != Meaning::text);
    const char* after = at_;
    const char* const limit = at_ + std::min<std::ptrdiff_t>(end_ - at_, kSpacesMax);
    while (after != limit && is_space(*after))
      ++after;
    estimate_.work += after - at_;
    if (after != limit && *after == ':') {
      at_ = after + 1;
      key_.set(text);
      is_value_of_key_ = true;
      if (tools) take_text(text);
      if (text == "role") weight_ += kPerMessage * kTokenWeight;
      return;
    }
    const bool in_list = !std::exchange(is_value_of_key_, false);
    if (in_list && depth_ == 2 && key_ == kPrompt) ++answers_.prompts;
    switch (meaning) {
      case Meaning::name:
        return;
      case Meaning::reference:
        if (!text.empty()) take_media(text);
        return;
      case Meaning::media:
        if (is_media(text) || (holds_media_ && !in_list && key_ == kUrl)) return take_media(text);
        break;
      case Meaning::text:
        break;
    }
    take_text(text);
  }

  void take_media(std::string_view text) {
    ++estimate_.media;
    media_bytes_ += static_cast<std::int64_t>(text.size());
  }

  /// Counts the text, as far as it may be weighed, and ends the scan after that.
  void take_text(std::string_view text) {
    const auto most = static_cast<std::size_t>(std::max<std::int64_t>(work_left(), 0));
    if (text.size() > most) {
      text = text.substr(0, most);
      at_ = text.data() + most;
      cut_text_ = true;
    }
    estimate_.work += static_cast<std::int64_t>(text.size());
    weight_ += weigh_text(text);
  }

  /// A number in a list is one token of a text that was sent as tokens.
  void take_number() {
    const char* const begin = --at_;
    const char* const limit = begin + std::min<std::ptrdiff_t>(end_ - begin, kNumberBytesMax);
    while (at_ != limit && (is_digit(*at_) || *at_ == '.' || *at_ == 'e' || *at_ == 'E' || *at_ == '-' ||
                            (*at_ == '+' && at_ != begin)))
      ++at_;
    const std::string_view number(begin, static_cast<std::size_t>(at_ - begin));
    estimate_.work += kStructureWork + 2 * (at_ - begin);
    const bool of_key = std::exchange(is_value_of_key_, false);
    if (tools_depth_ != kNoTools)
      weight_ += weigh({begin, static_cast<std::size_t>(at_ - begin)});
    else if (!of_key)
      weight_ += kTokenWeight;
    if (of_key && depth_ == 1) take_option(key_, number);
  }

  /// A number of the outermost object.
  void take_option(std::string_view key, std::string_view number) {
    const bool is_bound = is_one_of(key, kOutputBounds);
    if (!is_bound && key != "n" && key != "best_of") return;
    const std::optional<std::int64_t> value = whole(number);
    if (!value) return;
    if (is_bound)
      estimate_.max_output = std::max(estimate_.max_output.value_or(0), *value);
    else
      answers_.choices = std::max(answers_.choices, std::min(*value, kChoicesMax));
  }

  /// A number that is not negative, as a whole one; 1e5 is one, too.
  static std::optional<std::int64_t> whole(std::string_view number) {
    const char* const end = number.data() + number.size();
    std::int64_t value = 0;
    const auto [behind, error] = std::from_chars(number.data(), end, value);
    if (error == std::errc::invalid_argument || number.front() == '-') return std::nullopt;
    const bool is_exact = behind == end || (*behind != '.' && *behind != 'e' && *behind != 'E');
    if (error == std::errc() && is_exact) return std::min(value, kTokensMax);
    double real = 0;
    const bool is_large = std::from_chars(number.data(), end, real).ec != std::errc();
    return is_large || real >= static_cast<double>(kTokensMax) ? kTokensMax : static_cast<std::int64_t>(real);
  }

  // ---- what is too much to read -----------------------------------------------------------------------

  /// Estimates the rest from sampled pieces.
  void guess_rest(std::string_view rest) {
    const std::size_t bytes = std::min(rest.size(), kPieceBytes);
    const std::size_t pieces = std::clamp<std::size_t>(rest.size() / kPieceBytes, 1, kPieces);
    const std::size_t step = pieces == 1 ? 0 : (rest.size() - bytes) / (pieces - 1);
    Part seen;
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::string_view piece = rest.substr(i * step, bytes);
      for (std::size_t at = 0; at < bytes; at += kBlockBytes) {
        const std::string_view block = piece.substr(at, kBlockBytes);
        const Part part = part_of(block, cut_text_);
        cut_text_ = cut_text_ && is_all_base64(block);
        seen.weight += part.weight;
        seen.media_bytes += part.media_bytes;
      }
    }
    const auto all = static_cast<std::int64_t>(rest.size());
    const auto looked_at = static_cast<std::int64_t>(pieces * bytes);
    weight_ += seen.weight * all / looked_at;
    const std::int64_t media_bytes = seen.media_bytes * all / looked_at;
    const std::int64_t mean = estimate_.media > 0 ? media_bytes_ / estimate_.media : kMediaBytes;
    // The size of a string that was cut off is estimated from its beginning.
    if (media_bytes > 0)
      estimate_.media += media_bytes / std::max(mean, kMediaBytesMin) + (estimate_.media == 0 ? 1 : 0);
    const std::string_view tail = rest.substr(rest.size() - std::min(rest.size(), kLastBytes));
    find_options(tail, "\"max_");
    find_options(tail, "\"n\"");
    find_options(tail, "\"best_of\"");
    estimate_.work +=
        static_cast<std::int64_t>(pieces) * kPieceWork + static_cast<std::int64_t>(tail.size() / 2);
  }

  /// Options whose name begins so, wherever they are: a quote within a text would be escaped.
  void find_options(std::string_view tail, std::string_view begins) {
    const char* at = tail.data();
    const char* const end = at + tail.size();
    while (true) {
      const auto left = static_cast<std::size_t>(end - at);
      const auto* const found = static_cast<const char*>(memmem(at, left, begins.data(), begins.size()));
      if (found == nullptr) return;
      at = found + 1;
      if (found != tail.data() && found[-1] == '\\') continue;
      const std::string_view behind(at, std::min<std::size_t>(static_cast<std::size_t>(end - at), 64));
      const std::size_t quote = behind.find('"');
      if (quote == std::string_view::npos) continue;
      std::size_t value_at = behind.find_first_not_of(" \n\r\t", quote + 1);
      if (value_at == std::string_view::npos || behind[value_at] != ':') continue;
      value_at = behind.find_first_not_of(" \n\r\t", value_at + 1);
      if (value_at == std::string_view::npos) continue;
      take_option(behind.substr(0, quote), behind.substr(value_at));
    }
  }

  const char* at_;
  const char* end_;
  BodyEstimate estimate_;
  std::int64_t weight_ = 0;
  struct {
    std::int64_t choices = 1, prompts = 0;  // prompts: of a list, each of which is answered
  } answers_;
  std::int64_t media_bytes_ = 0;  // of the media that were seen
  WrittenKey key_;
  bool is_value_of_key_ = false;
  bool holds_media_ = false;  // the object or list that was opened last
  bool cut_text_ = false;     // what was read ends within a text
  int depth_ = 0, tools_depth_ = kNoTools;
};

}  // namespace

bool is_json(std::string_view body) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (body.starts_with(kMark)) body.remove_prefix(kMark.size());
  const std::size_t first = body.substr(0, kSpacesMax).find_first_not_of(" \n\r\t");
  // After this many spaces the body may hold anything.
  if (first == std::string_view::npos) return body.size() > kSpacesMax;
  return body[first] == '{' || body[first] == '[';
}

BodyEstimate estimate_body(std::string_view body) {
  if (is_json(body)) return Scanner(body).scan();
  if (body.size() <= kSpacesMax && body.find_first_not_of(" \n\r\t") == std::string_view::npos) return {};
  return Scanner(body).scan_text();
}

}  // namespace lanemq::core
