// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/script.hpp"

#include <algorithm>
#include <utility>

namespace lanemq::upstream {
namespace {

constexpr std::string_view kPing = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
constexpr std::string_view kComment = ": comment\n\n";

std::string with_line_ends(const std::string& events, std::string_view line_end) {
  std::string changed;
  for (const char byte : events) {
    if (byte == '\n')
      changed += line_end;
    else
      changed += byte;
  }
  return changed;
}

}  // namespace

Script::Script(std::string body, const Delivery& delivery)
    : delivery_(delivery),
      body_bytes_(body.size()),
      rest_(completion_.answer),
      stage_(Stage::ended),
      at_(delivery.delay) {
  delivery_.line_end = "\n";
  add(std::move(body));
}

Script::Script(const Api& api, Completion completion, const Delivery& delivery)
    : delivery_(delivery),
      completion_(std::move(completion)),
      events_(api.events(completion_)),
      rest_(completion_.answer),
      at_(delivery.delay) {}

std::optional<std::size_t> Script::content_length() const {
  if (is_stream()) return std::nullopt;
  return body_bytes_;
}

std::optional<Duration> Script::due() {
  if (pending_at_ < pending_.size()) return at_;
  if (stage_ == Stage::ended) return std::nullopt;
  return delivery_.delay + static_cast<std::int64_t>(deltas_sent_) * delivery_.gap;
}

bool Script::paused() const {
  return stage_ == Stage::deltas && pending_at_ == pending_.size() && deltas_sent_ == delivery_.pause_deltas;
}

std::optional<Script::Piece> Script::next(Duration now) {
  while (pending_at_ == pending_.size()) {
    if (!fill(now)) return std::nullopt;
  }
  const std::size_t left = pending_.size() - pending_at_;
  const std::size_t size = delivery_.drip == 0 ? left : std::min(left, delivery_.drip);
  Piece piece{.at = at_, .bytes = {}};
  if (size == pending_.size()) {
    piece.bytes = std::move(pending_);
    pending_.clear();
    pending_at_ = 0;
  } else {
    piece.bytes = pending_.substr(pending_at_, size);
    pending_at_ += size;
  }
  return piece;
}

// Makes the next events of a stream; false at its end.
bool Script::fill(Duration now) {
  pending_.clear();
  pending_at_ = 0;
  if (stage_ == Stage::ended) return false;
  at_ = *due();
  if (stage_ == Stage::opening) {
    stage_ = Stage::deltas;
    add(events_->opening());
    return true;
  }
  if (deltas_sent_ == delivery_.deltas_max) {
    break_off();
    return true;
  }
  auto delta = rest_.next();
  if (!delta) {
    stage_ = Stage::ended;
    add(events_->closing());
    return true;
  }
  std::string stamp;
  if (delivery_.stamps) {
    stamp = std::to_string((delivery_.unix_of_arrival + now) / std::chrono::microseconds(1)) + " ";
    delta->text = stamp;
  }
  std::string events;
  if (delivery_.comments) events += kComment;
  if (delivery_.pings) events += kPing;
  // Counted first, for the delta may be the last one that is sent.
  ++deltas_sent_;
  if (events.empty())
    events = events_->delta(*delta);
  else
    events += events_->delta(*delta);
  add(std::move(events));
  return true;
}

void Script::break_off() {
  stage_ = Stage::ended;
  finish_ = delivery_.broken_off;
  if (delivery_.error) add(events_->error(*delivery_.error));
}

void Script::add(std::string bytes) {
  if (delivery_.line_end != "\n") bytes = with_line_ends(bytes, delivery_.line_end);
  if (delivery_.bytes_max && bytes_made_ + bytes.size() >= *delivery_.bytes_max) {
    bytes.resize(*delivery_.bytes_max - bytes_made_);
    stage_ = Stage::ended;
    finish_ = delivery_.broken_off;
  }
  bytes_made_ += bytes.size();
  if (pending_.empty())
    pending_ = std::move(bytes);
  else
    pending_ += bytes;
}

}  // namespace lanemq::upstream
