// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/sse/sse_parser.hpp"

#include <cstring>

namespace lanemq::worker {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

void SseParser::LineEnds::read(std::string_view text, std::size_t from) {
  text_ = text;
  line_feed_ = line_feed_from(from);
}

std::size_t SseParser::LineEnds::line_feed_from(std::size_t from) const {
  const std::size_t found = text_.find('\n', from);
  return found == std::string_view::npos ? text_.size() : found;
}

std::size_t SseParser::LineEnds::find(std::size_t from) {
  if (line_feed_ < from) line_feed_ = line_feed_from(from);
  if (line_feed_ == from) return from;
  const void* const found = std::memchr(text_.data() + from, '\r', line_feed_ - from);
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text_.data()) : line_feed_;
}

void SseParser::feed(std::string_view bytes) {
  if (carried_.empty()) {
    text_ = bytes;
  } else {
    carried_.append(bytes);
    text_ = carried_;
  }
  ends_.read(text_, searched_);
}

SseParser::Found SseParser::next(SseEvent& event) {
  if (too_long_) return Found::too_long;
  std::string_view line;
  while (next_line(line)) {
    if (line_begin_ - event_begin_ > kEventBytesMax) break;
    const bool is_comment = line.starts_with(':');
    if (line.empty() || (is_comment && !has_fields_)) {
      cut(event);
      return Found::event;
    }
    has_fields_ = has_fields_ || !is_comment;
  }
  too_long_ = text_.size() - event_begin_ > kEventBytesMax;
  keep_rest();
  return too_long_ ? Found::too_long : Found::nothing;
}

/// Moves behind the next complete line. False: there is none.
bool SseParser::next_line(std::string_view& line) {
  if (after_return_ && line_begin_ < text_.size()) {
    if (text_[line_begin_] == '\n') ++line_begin_;
    after_return_ = false;
    searched_ = line_begin_;
  }
  const std::size_t end = ends_.find(searched_);
  if (end >= text_.size()) {
    searched_ = text_.size();
    return false;
  }
  line = text_.substr(line_begin_, end - line_begin_);
  if (at_start_ && line_begin_ == 0 && line.starts_with(kByteOrderMark))
    line.remove_prefix(kByteOrderMark.size());
  line_begin_ = end + 1;
  if (text_[end] == '\r') {
    // Does not wait to see whether a LF follows: the event would be late.
    after_return_ = line_begin_ == text_.size();
    if (!after_return_ && text_[line_begin_] == '\n') ++line_begin_;
  }
  searched_ = line_begin_;
  return true;
}

void SseParser::cut(SseEvent& event) {
  read_fields(text_.substr(event_begin_, line_begin_ - event_begin_), event);
  event_begin_ = line_begin_;
  has_fields_ = at_start_ = false;
}

void SseParser::keep_rest() {
  if (carried_.empty())
    carried_.assign(text_.substr(event_begin_));
  else
    carried_.erase(0, event_begin_);
  text_ = carried_;
  line_begin_ -= event_begin_;
  searched_ -= event_begin_;
  event_begin_ = 0;
  ends_.read(text_, searched_);
}

SseEvent SseParser::last_event() {
  SseEvent event;
  read_fields(carried_, event);
  return event;
}

void SseParser::read_fields(std::string_view raw, SseEvent& event) {
  event = SseEvent{.raw = raw, .name = {}, .data = {}};
  joined_.clear();
  if (at_start_ && raw.starts_with(kByteOrderMark)) raw.remove_prefix(kByteOrderMark.size());
  LineEnds ends;
  ends.read(raw, 0);
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t end = ends.find(at);
    if (end > at) read_field(raw.substr(at, end - at), event);
    at = end + 1;
  }
}

void SseParser::read_field(std::string_view line, SseEvent& event) {
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "event") {
    event.name = value;
  } else if (name == "data") {
    if (!event.has_data) {
      event.data = value;
      event.has_data = true;
      return;
    }
    // From the second line on `joined_` holds the lines before.
    if (joined_.empty()) joined_.assign(event.data);
    joined_ += '\n';
    joined_ += value;
    event.data = joined_;
  }
}

}  // namespace lanemq::worker
