// SPDX-License-Identifier: Apache-2.0
#include "common/http/request_reader.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <lanemq/words.hpp>

namespace lanemq::http {
namespace {

constexpr std::size_t kMethodBytesMax = 32;
/// RFC 9112, 2.2: a server ignores at least one empty line ahead of a request.
constexpr std::size_t kEmptyLinesMax = 4;
constexpr std::size_t kSizeDigitsMax = 16;  ///< hexadecimal digits of a chunk's size
constexpr std::size_t kShownBytesMax = 40;  ///< bytes of the request that a refusal quotes
constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
/// A tchar of RFC 9110, 5.6.2.
bool is_token_char(char c) {
  return is_digit(c) || is_alpha(c) ||
         (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}
bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}
/// No control character but the tab; bytes above ASCII are allowed.
bool is_text_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7F);
}
bool is_space(char c) {
  return c == ' ' || c == '\t';
}
/// RFC 3986: unreserved, sub-delims, percent signs with two digits, and those of gen-delims that `more` has.
bool is_uri_text(std::string_view text, std::string_view more) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size() || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0) return false;
      i += 2;
      continue;
    }
    if (is_digit(c) || is_alpha(c)) continue;
    if (c == '\0' || (std::string_view("-._~!$&'()*+,;=").find(c) == std::string_view::npos &&
                      more.find(c) == std::string_view::npos))
      return false;
  }
  return true;
}

/// host [ ":" port ], RFC 3986, 3.2: without user information.
bool is_authority(std::string_view text) {
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view literal = text.substr(1, end - 1);
    const bool good = !literal.empty() && std::all_of(literal.begin(), literal.end(), [](char c) {
      return hex_digit(c) >= 0 || c == ':' || c == '.';
    });
    if (!good) return false;
    port = text.substr(end + 1);
    if (!port.empty() && port.front() != ':') return false;
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    if (!is_uri_text(text.substr(0, colon), "")) return false;
    port = text.substr(colon);
    if (colon == 0 && !port.empty()) return false;
  }
  if (!port.empty()) port.remove_prefix(1);
  return port.size() <= 5 && std::all_of(port.begin(), port.end(), is_digit);
}

/// The start of what came, printable, for a message.
std::string shown(std::string_view text) {
  std::string result = "\"";
  for (const char c : text.substr(0, kShownBytesMax))
    result += c >= 0x20 && c < 0x7F && c != '"' && c != '\\' ? c : '?';
  return result + (text.size() > kShownBytesMax ? "…\"" : "\"");
}

}  // namespace

RequestReader::Taken RequestReader::take(std::string_view bytes) {
  std::size_t taken = 0;
  while (true) {
    Taken step = take_step(bytes.substr(taken));
    step.bytes = taken += step.bytes;
    if (step.event != Event::more || taken == bytes.size()) return step;
  }
}

RequestReader::Taken RequestReader::take_step(std::string_view bytes) {
  switch (state_) {
    case State::first_line:
    case State::field_line:
      return take_head_line(bytes);
    case State::sized_body:
    case State::chunk_data:
      return take_data(bytes);
    case State::chunk_head:
      return take_chunk_head(bytes);
    case State::chunk_end:
      return take_chunk_end(bytes);
    case State::trailer_line:
      return take_trailer_line(bytes);
    case State::ended:
      return {.event = Event::end};
    case State::refused:
      break;
  }
  return {.event = Event::refusal};
}

void RequestReader::next() {
  state_ = State::first_line;
  after_cr_ = absolute_ = false;
  line_.clear();
  head_bytes_ = trailer_bytes_ = extension_bytes_ = empty_lines_ = 0;
  left_ = body_bytes_ = 0;
  body_bytes_max_ = kHuge;
  head_ = {};
}

RequestReader::Taken RequestReader::refuse(std::size_t bytes, int status, std::string why) {
  fail(status, std::move(why));
  return {.event = Event::refusal, .bytes = bytes};
}

/// Refuses the request; returns false, for the caller to return.
bool RequestReader::fail(int status, std::string why) {
  state_ = State::refused;
  refusal_ = {.status = status, .why = std::move(why)};
  line_ = {};
  return false;
}

/// Appends bytes to line_ until the line ends (`whole`) or `room` is used up; returns how many. Refuses
/// control characters, and a CR or LF alone, which readers understand differently.
std::size_t RequestReader::take_line(std::string_view bytes, std::size_t room, bool& whole) {
  whole = false;
  const std::size_t end = std::min(bytes.size(), room);
  std::size_t at = 0;
  for (; at < end; ++at) {
    const char c = bytes[at];
    if (after_cr_) {
      if (c != '\n') {
        fail(400, "a CR stands without its LF");
        return at;
      }
      after_cr_ = false;
      whole = true;
      return at + 1;
    }
    if (c == '\r') {
      after_cr_ = true;
      continue;
    }
    if (c == '\n') {
      fail(400, "a line ends with LF alone; it must be CR LF");
      return at;
    }
    std::size_t text = at;
    while (text < end && is_text_char(bytes[text]))
      ++text;
    if (text == at) {
      fail(400, "a line has a control character");
      return at;
    }
    line_.append(bytes, at, text - at);
    at = text - 1;
  }
  return at;
}

RequestReader::Taken RequestReader::take_head_line(std::string_view bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    bool whole = false;
    const std::size_t part = take_line(bytes.substr(taken), limits_.head_bytes_max - head_bytes_, whole);
    taken += part;
    head_bytes_ += part;
    if (state_ == State::refused) return {.event = Event::refusal, .bytes = taken};
    if (!whole) {
      if (taken == bytes.size()) break;
      const std::string limit =
          " over " + std::to_string(limits_.head_bytes_max) + " bytes (header_bytes_max)";
      return state_ == State::first_line ? refuse(taken, 414, "the request line has" + limit)
                                         : refuse(taken, 431, "the header has" + limit);
    }
    const bool empty = line_.empty();
    bool good = true;
    if (state_ == State::first_line) {
      if (!empty)
        good = read_first_line(line_);
      else if (++empty_lines_ > kEmptyLinesMax)
        good = fail(400, "there are only empty lines");
      if (!empty && good) state_ = State::field_line;
    } else {
      good = empty ? finish_head() : read_field(line_);
    }
    if (!good) return {.event = Event::refusal, .bytes = taken};
    line_.clear();
    if (state_ == State::first_line || state_ == State::field_line) continue;
    line_.shrink_to_fit();
    return {.event = Event::head, .bytes = taken};
  }
  return {.event = Event::more, .bytes = taken};
}

bool RequestReader::read_first_line(std::string_view line) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return fail(400, "the request line " + shown(line) + " is not METHOD TARGET VERSION");
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
                         version = line.substr(last + 1);
  if (!is_token(method)) return fail(400, "the method " + shown(method) + " is no token");
  if (method.size() > kMethodBytesMax || method == "CONNECT")
    return fail(501, "the method " + shown(method) + " is not known here");
  if (version.size() != 8 || !version.starts_with("HTTP/") || !is_digit(version[5]) || version[6] != '.' ||
      !is_digit(version[7]))
    return fail(400, "the version " + shown(version) + " is not HTTP/1.1");
  if (version[5] != '1')
    return fail(505, "the version " + shown(version) + " is not spoken here; HTTP/1.1 is");
  head_.http_1_0 = version[7] == '0';
  head_.keep_alive = !head_.http_1_0;
  head_.method = method;
  return read_target(target);
}

/// RFC 9112, 3.2: a path, a whole URL, or `*`.
bool RequestReader::read_target(std::string_view target) {
  const auto bad = [&] { return fail(400, "the target " + shown(target) + " is neither a path nor a URL"); };
  std::string_view rest = target;
  if (rest == "*") {
    head_.path = rest;
    return head_.method == "OPTIONS" || bad();
  }
  if (!rest.starts_with('/')) {
    const std::size_t scheme = rest.find("://");
    if (scheme == std::string_view::npos ||
        !(same_word(rest.substr(0, scheme), "http") || same_word(rest.substr(0, scheme), "https")))
      return bad();
    rest.remove_prefix(scheme + 3);
    const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
    head_.authority = rest.substr(0, end);
    absolute_ = true;
    if (head_.authority.empty() || !is_authority(head_.authority)) return bad();
    rest.remove_prefix(end);
  }
  const std::size_t mark = std::min(rest.find('?'), rest.size());
  head_.path = rest.substr(0, mark);
  if (head_.path.empty()) head_.path = "/";
  head_.query = rest.substr(std::min(mark + 1, rest.size()));
  return (is_uri_text(head_.path, ":@/") && is_uri_text(head_.query, ":@/?[]")) ||
         fail(400, "the target " + shown(target) + " has characters that a URL must escape");
}

bool RequestReader::read_field(std::string_view line) {
  if (is_space(line.front())) return fail(400, "a field is folded over two lines");
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return fail(400, "the field " + shown(line) + " has no colon");
  const std::string_view name = line.substr(0, colon);
  if (!is_token(name)) return fail(400, "the field name " + shown(name) + " is no token");
  if (head_.fields.size() >= limits_.fields_max)
    return fail(431, "the header has over " + std::to_string(limits_.fields_max) + " fields");
  std::string key(name);
  std::transform(key.begin(), key.end(), key.begin(), lower);
  head_.fields.emplace_back(std::move(key), trimmed(line.substr(colon + 1)));
  return true;
}

std::size_t RequestReader::count(std::string_view name) const {
  return static_cast<std::size_t>(std::count_if(head_.fields.begin(), head_.fields.end(),
                                                [&](const auto& field) { return field.first == name; }));
}

/// The first field of that name; empty: there is none.
std::string_view RequestReader::value(std::string_view name) const {
  const auto at = std::find_if(head_.fields.begin(), head_.fields.end(),
                               [&](const auto& field) { return field.first == name; });
  return at == head_.fields.end() ? std::string_view() : std::string_view(at->second);
}

/// The head is complete: finds out what its fields say, and how the body is framed.
bool RequestReader::finish_head() {
  // Servers disagree about which of two such fields counts, which smuggling exploits.
  for (const std::string_view name :
       {"host", "content-length", "transfer-encoding", "expect", "authorization"})
    if (count(name) > 1) return fail(400, "the field " + std::string(name) + " stands there twice");
  if (!read_host() || !read_expectation() || !read_transfer_coding() || !read_content_length()) return false;
  read_connection();
  if (head_.chunked)
    state_ = State::chunk_head;
  else if (left_ > 0)
    state_ = State::sized_body;
  else
    state_ = State::ended;
  return true;
}

/// RFC 9112, 3.2: at most one Host, in HTTP/1.1 exactly one. An absolute target wins over it.
bool RequestReader::read_host() {
  const std::string_view host = value("host");
  if (count("host") == 0) return head_.http_1_0 || fail(400, "there is no Host field, which HTTP/1.1 needs");
  if (!is_authority(host)) return fail(400, "the Host " + shown(host) + " is none");
  if (!absolute_) head_.authority = host;
  return true;
}

bool RequestReader::read_expectation() {
  if (count("expect") == 0) return true;
  if (!same_word(value("expect"), "100-continue"))
    return fail(417, "nothing but 100-continue can be expected here, not " + shown(value("expect")));
  head_.expects_continue = !head_.http_1_0;
  return true;
}

/// RFC 9112, 6.1 and 6.3: after an unknown coding, or one behind `chunked`, the end of the body is unknown.
bool RequestReader::read_transfer_coding() {
  if (count("transfer-encoding") == 0) return true;
  const std::string_view coding = value("transfer-encoding");
  if (head_.http_1_0) return fail(400, "HTTP/1.0 has no Transfer-Encoding");
  if (count("content-length") > 0) return fail(400, "there are both Transfer-Encoding and Content-Length");
  if (same_word(coding, "chunked")) return head_.chunked = true;
  const std::size_t comma = coding.rfind(',');
  const bool last =
      comma != std::string_view::npos && same_word(trimmed(coding.substr(comma + 1)), "chunked");
  const bool twice = last && same_word(trimmed(coding.substr(0, comma)), "chunked");
  return fail(last && !twice ? 501 : 400, "the Transfer-Encoding " + shown(coding) + " is not chunked alone");
}

bool RequestReader::read_content_length() {
  if (count("content-length") == 0) return true;
  const std::string_view text = value("content-length");
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit))
    return fail(400, "the Content-Length " + shown(text) + " is no number");
  std::uint64_t length = 0;
  for (const char c : text) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    length = length > (kHuge - digit) / 10 ? kHuge : length * 10 + digit;
  }
  head_.content_length = left_ = length;
  return true;
}

void RequestReader::read_connection() {
  bool close = false, keep = false;
  for (const auto& [name, text] : head_.fields) {
    if (name != "connection") continue;
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view word = trimmed(rest.substr(0, rest.find(',')));
      rest.remove_prefix(
          std::min(rest.size(), rest.find(',') == std::string_view::npos ? rest.size() : rest.find(',') + 1));
      close = close || same_word(word, "close");
      keep = keep || same_word(word, "keep-alive");
    }
  }
  head_.keep_alive = !close && (keep || !head_.http_1_0);
}

RequestReader::Taken RequestReader::take_data(std::string_view bytes) {
  // Of a body that is announced as too long no byte is taken.
  if (state_ == State::sized_body && left_ + body_bytes_ > body_bytes_max_)
    return refuse(0, 413,
                  "the body has " + std::to_string(*head_.content_length) + " bytes, the limit is " +
                      std::to_string(body_bytes_max_));
  if (bytes.empty()) return {};
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
  left_ -= size;
  body_bytes_ += size;
  if (left_ == 0) state_ = state_ == State::chunk_data ? State::chunk_end : State::ended;
  return {.event = Event::body, .bytes = size, .piece = bytes.substr(0, size)};
}

RequestReader::Taken RequestReader::take_chunk_head(std::string_view bytes) {
  bool whole = false;
  const std::size_t room = limits_.chunk_head_bytes_max - line_.size() - (after_cr_ ? 1 : 0);
  const std::size_t taken = take_line(bytes, room, whole);
  if (state_ == State::refused) return {.event = Event::refusal, .bytes = taken};
  if (!whole) {
    if (taken == bytes.size()) return {.event = Event::more, .bytes = taken};
    return refuse(taken, 400,
                  "the head of a chunk has over " + std::to_string(limits_.chunk_head_bytes_max) + " bytes");
  }
  if (!read_chunk_head(line_)) return {.event = Event::refusal, .bytes = taken};
  line_.clear();
  return {.event = Event::more, .bytes = taken};
}

bool RequestReader::read_chunk_head(std::string_view line) {
  std::size_t digits = 0;
  std::uint64_t size = 0;
  for (; digits < line.size() && hex_digit(line[digits]) >= 0; ++digits) {
    if (digits >= kSizeDigitsMax)
      return fail(400, "the size of a chunk has over " + std::to_string(kSizeDigitsMax) + " digits");
    size = size * 16 + static_cast<std::uint64_t>(hex_digit(line[digits]));
  }
  if (digits == 0) return fail(400, "the head of a chunk, " + shown(line) + ", has no size");
  const std::string_view extension = line.substr(digits);
  if (!extension.empty() && !trimmed(extension).starts_with(';'))
    return fail(400, "the head of a chunk, " + shown(line) + ", is no size");
  extension_bytes_ += extension.size();
  if (extension_bytes_ > limits_.extension_bytes_max)
    return fail(400, "the extensions of the chunks have over " + std::to_string(limits_.extension_bytes_max) +
                         " bytes");
  if (size > body_bytes_max_ - body_bytes_)
    return fail(413, "the body has over " + std::to_string(body_bytes_max_) + " bytes");
  left_ = size;
  state_ = size > 0 ? State::chunk_data : State::trailer_line;
  return true;
}

RequestReader::Taken RequestReader::take_chunk_end(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] != (after_cr_ ? '\n' : '\r'))
      return refuse(at, 400, "a chunk is longer than its size, or not ended by CR LF");
    after_cr_ = !after_cr_;
    if (after_cr_) continue;
    state_ = State::chunk_head;
    return {.event = Event::more, .bytes = at + 1};
  }
  return {.event = Event::more, .bytes = bytes.size()};
}

/// Trailer fields are read like fields, and dropped: a sender must not change the head afterwards.
RequestReader::Taken RequestReader::take_trailer_line(std::string_view bytes) {
  bool whole = false;
  const std::size_t taken = take_line(bytes, limits_.trailer_bytes_max - trailer_bytes_, whole);
  trailer_bytes_ += taken;
  if (state_ == State::refused) return {.event = Event::refusal, .bytes = taken};
  if (!whole) {
    if (taken == bytes.size()) return {.event = Event::more, .bytes = taken};
    return refuse(taken, 431, "the trailer has over " + std::to_string(limits_.trailer_bytes_max) + " bytes");
  }
  if (line_.empty()) {
    state_ = State::ended;
    return {.event = Event::end, .bytes = taken};
  }
  const std::size_t colon = std::string_view(line_).find(':');
  if (colon == std::string::npos || !is_token(std::string_view(line_).substr(0, colon)))
    return refuse(taken, 400, "the trailer " + shown(line_) + " is no field");
  line_.clear();
  return {.event = Event::more, .bytes = taken};
}

}  // namespace lanemq::http
