// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/multipart.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <lanemq/words.hpp>

namespace lanemq::gateway {
namespace {

constexpr std::size_t kBoundaryBytesMax = 70;  // RFC 2046

/// Takes `value` or `"value"` from the front of `rest`, up to the next semicolon.
std::string take_value(std::string_view& rest) {
  rest = trimmed(rest);
  std::string value;
  if (rest.empty() || rest.front() != '"') {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    value = trimmed(rest.substr(0, end));
    rest.remove_prefix(end);
    return value;
  }
  std::size_t at = 1;
  for (; at < rest.size() && rest[at] != '"'; ++at) {
    // Only \" and \\ are escapes: browsers escape with %22, and send backslashes of paths as they are.
    if (rest[at] == '\\' && at + 1 < rest.size() && (rest[at + 1] == '"' || rest[at + 1] == '\\')) ++at;
    value += rest[at];
  }
  rest.remove_prefix(std::min(at + 1, rest.size()));
  rest.remove_prefix(std::min(rest.find(';'), rest.size()));
  return value;
}

/// A parsed header value, as in `form-data; name="file"; filename="a.jsonl"`.
struct HeaderValue {
  std::string first{};
  std::vector<std::pair<std::string, std::string>> parameters{};

  explicit HeaderValue(std::string_view text) {
    first = take_value(text);
    while (!text.empty()) {
      text.remove_prefix(1);  // the semicolon
      const std::size_t equals = text.find_first_of("=;");
      if (equals == text.npos) return;
      std::string name(trimmed(text.substr(0, equals)));
      text.remove_prefix(equals);
      if (text.front() == ';') continue;
      text.remove_prefix(1);
      parameters.emplace_back(std::move(name), take_value(text));
    }
  }
  const std::string* find(std::string_view name) const {
    const auto at = std::find_if(parameters.begin(), parameters.end(),
                                 [&](const auto& item) { return same_word(item.first, name); });
    return at == parameters.end() ? nullptr : &at->second;
  }
};

/// Reads the header lines of a part; empty: no content-disposition with a name.
std::optional<FormPart> read_part_header(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find("\r\n"), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 2, lines.size()));
    const std::size_t colon = line.find(':');
    if (colon == line.npos || !same_word(trimmed(line.substr(0, colon)), "content-disposition")) continue;
    const HeaderValue value(line.substr(colon + 1));
    const std::string* const name = value.find("name");
    if (!same_word(value.first, "form-data") || name == nullptr || name->empty()) return std::nullopt;
    FormPart part{.name = *name};
    if (const std::string* const filename = value.find("filename")) {
      part.is_file = true;
      part.filename = filename->substr(filename->find_last_of("/\\") + 1);
    }
    return part;
  }
  return std::nullopt;
}

tl::unexpected<std::string> broken(std::string what) {
  return tl::unexpected("the form cannot be read: " + std::move(what));
}

}  // namespace

std::string form_boundary(std::string_view content_type) {
  const HeaderValue value(content_type);
  const std::string* const boundary = value.find("boundary");
  if (!same_word(value.first, "multipart/form-data") || boundary == nullptr) return {};
  const bool fits =
      boundary->size() <= kBoundaryBytesMax &&
      std::all_of(boundary->begin(), boundary->end(), [](char c) { return c >= ' ' && c <= '~'; });
  return fits ? *boundary : std::string();
}

tl::expected<std::vector<FormPart>, std::string> read_form(std::string_view body, std::string_view boundary) {
  const std::string first = "--" + std::string(boundary);
  const std::string delimiter = "\r\n" + first;
  std::size_t at = 0;
  if (!body.starts_with(first)) {
    // Text before the first boundary is ignored.
    at = body.find(delimiter);
    if (at == body.npos) return broken("its boundary does not occur in it");
    at += 2;
  }
  at += first.size();

  std::vector<FormPart> parts;
  while (!body.substr(at).starts_with("--")) {
    const std::size_t line_end = body.find("\r\n", at);
    if (line_end == body.npos || !trimmed(body.substr(at, line_end - at)).empty())
      return broken("something stands behind a boundary");
    if (parts.size() == FormPart::kPartsMax)
      return broken("it has more than " + std::to_string(FormPart::kPartsMax) + " parts");
    // Searches from the end of the boundary's line, so that a part may have no header lines.
    const std::size_t header_end = body.find("\r\n\r\n", line_end);
    if (header_end == body.npos || header_end - line_end > FormPart::kHeaderBytesMax)
      return broken("a part's header has no end within " + std::to_string(FormPart::kHeaderBytesMax) +
                    " bytes");
    const std::string_view lines =
        header_end == line_end ? std::string_view() : body.substr(line_end + 2, header_end - line_end - 2);
    std::optional<FormPart> part = read_part_header(lines);
    if (!part) return broken("a part has no `content-disposition: form-data` with a name");
    const std::size_t begin = header_end + 4;
    // A part without bytes: the delimiter's line end is that of the empty line.
    const std::size_t end = body.find(delimiter, begin - 2);
    if (end == body.npos) return broken("the part `" + part->name + "` has no end");
    part->bytes = end < begin ? std::string_view() : body.substr(begin, end - begin);
    at = end + delimiter.size();
    parts.push_back(*std::move(part));
  }
  return parts;
}

const FormPart* find_part(const std::vector<FormPart>& parts, std::string_view name) {
  const auto at =
      std::find_if(parts.begin(), parts.end(), [&](const FormPart& part) { return part.name == name; });
  return at == parts.end() ? nullptr : &*at;
}

}  // namespace lanemq::gateway
