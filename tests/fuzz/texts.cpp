// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/texts.hpp"

#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "client/cli/text/terminal.hpp"
#include "common/settings/secrets/secret_shapes.hpp"
#include "common/url/climbing_path.hpp"
#include "common/url/http_url.hpp"

namespace lanemq::fuzz {
namespace {

void require(bool holds, const char* what, std::string_view bytes) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  for (const char c : bytes)
    std::fprintf(stderr, "%02x", static_cast<unsigned char>(c));
  std::fprintf(stderr, "\n");
  std::abort();
}

/// Replaces the first %XX of the text; false: there is none.
bool decode_one(std::string& text) {
  for (std::size_t at = 0; at + 2 < text.size(); ++at) {
    if (text[at] != '%' || std::isxdigit(static_cast<unsigned char>(text[at + 1])) == 0 ||
        std::isxdigit(static_cast<unsigned char>(text[at + 2])) == 0)
      continue;
    const char digits[] = {text[at + 1], text[at + 2], '\0'};
    text.replace(at, 3, 1, static_cast<char>(std::strtol(digits, nullptr, 16)));
    return true;
  }
  return false;
}

/// Whether a segment between slashes of either kind is a dot or two, with or without parameters.
bool has_dots(const std::string& path) {
  std::string segment;
  for (std::size_t at = 0; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/' && path[at] != '\\') {
      segment += path[at];
      continue;
    }
    const std::string name = segment.substr(0, segment.find(';'));
    if (name == "." || name == "..") return true;
    segment.clear();
  }
  return false;
}

/// The next character of UTF-8; 0xFFFFFFFF: there is none that is valid.
char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  const int more = first < 0x80 ? 0 : first >> 5 == 6 ? 1 : first >> 4 == 14 ? 2 : first >> 3 == 30 ? 3 : -1;
  if (more < 0 || at + static_cast<std::size_t>(more) >= text.size()) return 0xFFFFFFFF;
  char32_t character = more == 0 ? first : first & (0x3F >> more);
  for (int i = 1; i <= more; ++i) {
    const unsigned char next = byte(at + static_cast<std::size_t>(i));
    if (next >> 6 != 2) return 0xFFFFFFFF;
    character = character << 6 | (next & 0x3F);
  }
  at += 1 + static_cast<std::size_t>(more);
  return character;
}

/// Whether a terminal acts on it: moves, erases, asks, or turns the direction of reading.
bool acts(char32_t character) {
  if (character == '\n' || character == '\t') return false;
  return character < 0x20 || (character >= 0x7F && character < 0xA0) ||
         (character >= 0x202A && character <= 0x202E) || (character >= 0x2066 && character <= 0x2069);
}

constexpr std::string_view kPassword = "open-sesame-quietly";

}  // namespace

void check_url(std::string_view bytes) {
  const std::string url(bytes);
  if (http_url_problem(url).empty()) {
    const HttpUrlParts parts = parts_of_url(url);
    require(parts.scheme == "http" || parts.scheme == "https", "a URL is http or https", bytes);
    require(!parts.host.empty(), "a URL has a host", bytes);
    const std::string again =
        parts.scheme + "://" + parts.host + ":" + std::to_string(parts.port) + parts.target;
    require(http_url_problem(again).empty(), "what its parts make is a URL", bytes);
    const HttpUrlParts same = parts_of_url(again);
    require(same.scheme == parts.scheme && same.host == parts.host && same.port == parts.port &&
                same.target == parts.target,
            "what its parts make is the same URL", bytes);
    require(goes_in_clear(again) == goes_in_clear(url) && is_own_host(again) == is_own_host(url),
            "it is judged as what its parts make", bytes);
    require(!goes_in_clear(url) || parts.scheme == "http", "only http goes in clear", bytes);
  }
  // Whatever stands before it in the message; but a fuzzer finds the password, too.
  if (url.find(kPassword) != std::string::npos) return;
  const std::string shown =
      settings::without_secrets(url + " postgres://lanemq:" + std::string(kPassword) + "@db/x");
  require(shown.find(kPassword) == std::string::npos, "a message shows no password of a URL", bytes);
}

void check_path(std::string_view bytes) {
  const bool climbs = path_climbs(bytes);
  std::string text(bytes.substr(0, bytes.find('?')));
  bool may = has_dots(text);
  // Who decodes once, twice, or as often as there is something to decode.
  for (int escapes = 0; !may && escapes < 64 && decode_one(text);)
    ++escapes;
  may = may || has_dots(text);
  require(climbs || !may, "a path that climbs is seen", bytes);
}

void check_terminal(std::string_view bytes) {
  const std::string shown = cli::harmless(bytes);
  for (std::size_t at = 0; at < shown.size();) {
    const char32_t character = next_character(shown, at);
    require(character != 0xFFFFFFFF, "a text for a terminal is UTF-8", bytes);
    require(!acts(character), "nothing in a text for a terminal acts", bytes);
  }
  require(cli::harmless(shown) == shown, "what is harmless stays as it is", bytes);
}

}  // namespace lanemq::fuzz
