// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/upstream_headers.hpp"

#include <algorithm>
#include <array>

#include <lanemq/words.hpp>

namespace lanemq::worker {

void UpstreamHeaders::add_line(std::string_view line, WallTime now) {
  if (line.starts_with("HTTP/")) {
    clear();
    framed_ = !line.starts_with("HTTP/1");
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::array<char, 64> buffer;
  if (colon == 0 || colon > buffer.size()) return;  // longer than any header that is read here
  std::transform(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon), buffer.begin(), lower);
  read_at_ = now;
  add({buffer.data(), colon}, trimmed(line.substr(colon + 1), kSpacesAndLineEnds), now);
}

void UpstreamHeaders::add(std::string_view name, std::string_view value, WallTime now) {
  if (name == "content-type") {
    content_type_ = trimmed(value.substr(0, std::min(value.find(';'), value.size())));
    std::transform(content_type_.begin(), content_type_.end(), content_type_.begin(), lower);
  } else if (name == "content-length") {
    const auto length = count_at_front(value);
    if (length) content_length_ = static_cast<std::size_t>(*length);
  } else if (name == "transfer-encoding") {
    framed_ = framed_ || value.find("chunked") != std::string_view::npos;
  } else {
    limits_.add(name, value, now);
  }
}

bool UpstreamHeaders::is_json() const {
  return content_type_ == "application/json" || content_type_.ends_with("+json");
}

}  // namespace lanemq::worker
