// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <lanemq/text.hpp>
#include <lanemq/unprintable.hpp>

namespace lanemq {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080ull;

template <class Word>
std::uint64_t load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// Compares a word at a time, the last one overlapping: names are nearly always ASCII.
bool is_ascii(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  std::uint64_t bits = 0;
  if (text.size() >= 8) {
    for (; end - at > 8; at += 8)
      bits |= load<std::uint64_t>(at);
    bits |= load<std::uint64_t>(end - 8);
  } else if (text.size() >= 4) {
    bits = load<std::uint32_t>(at) | load<std::uint32_t>(end - 4);
  } else {
    for (; at != end; ++at)
      bits |= static_cast<unsigned char>(*at);
  }
  return (bits & kHighBits) == 0;
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF)
    length = 2;
  else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;  // surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;  // above U+10FFFF
  }
  if (length == 0 || at + length > text.size()) return 0;
  if (byte(at + 1) < low || byte(at + 1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  return length;
}

std::size_t unfinished_bytes(std::string_view text) {
  const std::size_t most = std::min<std::size_t>(text.size(), 3);
  for (std::size_t bytes = 1; bytes <= most; ++bytes) {
    const auto byte = static_cast<unsigned char>(text[text.size() - bytes]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
    return bytes < length ? bytes : 0;
  }
  return 0;
}

std::size_t unprintable_bytes(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const unsigned second = byte(1), third = byte(2);
  switch (byte(0)) {
    case 0x7F:
      return 1;
    case 0xC2:
      return second >= 0x80 && second <= 0x9F ? 2 : 0;
    case 0xD8:
      return second == 0x9C ? 2 : 0;
    case 0xE2:
      if (second == 0x80 &&
          (third == 0x8B || third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE)))
        return 3;
      return second == 0x81 && third >= 0xA0 && third <= 0xAF ? 3 : 0;
    case 0xEF:
      return (second == 0xBB && third == 0xBF) || (second == 0xBF && third >= 0xB9 && third <= 0xBB) ? 3 : 0;
    case 0xF3:
      return second == 0xA0 && (third == 0x80 || third == 0x81) && byte(3) >= 0x80 && byte(3) <= 0xBF ? 4 : 0;
    default:
      return 0;
  }
}

std::string escape_unprintable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t bytes = unprintable_bytes(text, at);
    if (bytes == 0) {
      out += text[at];
      continue;
    }
    constexpr unsigned kOfFirst[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    unsigned point = static_cast<unsigned char>(text[at]) & kOfFirst[bytes];
    for (std::size_t i = 1; i < bytes; ++i)
      point = point << 6U | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
    char escaped[16];
    if (point > 0xFFFF)
      std::snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", 0xD7C0U + (point >> 10U),
                    0xDC00U + (point & 0x3FFU));
    else
      std::snprintf(escaped, sizeof escaped, "\\u%04x", point & 0xFFFFU);
    out += escaped;
    at += bytes - 1;
  }
  return out;
}

std::string printable(std::string_view text, std::size_t bytes_max) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    if (out.size() >= bytes_max) return out + "...";
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = utf8_length(text, at);
    const bool control = byte < 0x20 || unprintable_bytes(text, at) > 0;
    if (length == 0 || control) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
      ++at;
      continue;
    }
    out.append(text, at, length);
    at += length;
  }
  return out;
}

std::string_view beginning(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xC0) == 0x80)
    --bytes_max;
  return text.substr(0, bytes_max);
}

bool is_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

bool globs_meet(std::string_view one, std::string_view other) {
  // meets[j]: whether the rest of `one` and other.substr(j) meet, for growing rests.
  std::vector<char> meets(other.size() + 1), next(other.size() + 1);
  for (std::size_t i = one.size() + 1; i-- > 0;) {
    const bool ends = i == one.size();
    for (std::size_t j = other.size() + 1; j-- > 0;) {
      const bool other_ends = j == other.size();
      if (!ends && one[i] == '*')
        next[j] = meets[j] || (!other_ends && next[j + 1]);
      else if (!other_ends && other[j] == '*')
        next[j] = next[j + 1] || (!ends && meets[j]);
      else if (ends || other_ends)
        next[j] = ends && other_ends;
      else
        next[j] = (one[i] == '?' || other[j] == '?' || one[i] == other[j]) && meets[j + 1];
    }
    meets.swap(next);
  }
  return meets.front() != 0;
}

bool glob_covers(std::string_view general, std::string_view special) {
  const std::size_t wild = special.find_first_of("*?");
  if (wild == std::string_view::npos) return glob_match(general, special);
  if (general == special) return true;
  // `acme*` covers `acme-?`: what is literal in front of both decides.
  return general.find_first_of("*?") == general.size() - 1 && general.ends_with('*') &&
         special.substr(0, wild).starts_with(general.substr(0, general.size() - 1));
}

std::string rfc3339(std::int64_t unix_ms) {
  using namespace std::chrono;
  const sys_time<milliseconds> when{milliseconds(unix_ms)};
  const auto day = floor<days>(when);
  const year_month_day date{day};
  const hh_mm_ss time{when - day};
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()), static_cast<int>(time.subseconds().count()));
  return text;
}

}  // namespace lanemq
