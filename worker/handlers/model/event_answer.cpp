// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/model/event_answer.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "worker/handlers/http/upstream_body.hpp"
#include "worker/handlers/http/upstream_failure.hpp"

namespace lanemq::worker {
namespace {

/// Least bytes of text per token: a Chinese character.
constexpr std::int64_t kBytesPerToken = 3;

void take_over(std::optional<std::int64_t>& count, const std::optional<std::int64_t>& newer) {
  if (newer) count = newer;
}

}  // namespace

bool EventAnswer::reads(const UpstreamHeaders& headers) {
  if (headers.content_type() != "text/event-stream") return false;
  headers_ = headers;
  return true;
}

AnswerReader::Step EventAnswer::take(std::string_view bytes) {
  if (failure_) return Step::stop;
  Step step = Step::nothing;
  SseEvent event;
  parser_.feed(bytes);
  for (;;) {
    switch (parser_.next(event)) {
      case SseParser::Found::nothing:
        return step;
      case SseParser::Found::too_long:
        return stop({.error_class = ErrorClass::permanent,
                     .code = "event_too_large",
                     .message = "an event of the upstream's stream has over " +
                                std::to_string(SseParser::kEventBytesMax) +
                                " bytes; ask without `stream` for answers in pieces as large as this"});
      case SseParser::Found::event:
        step = Step::part;
        if (take_event(event) == Step::stop) return Step::stop;
    }
  }
}

AnswerReader::Step EventAnswer::take_event(const SseEvent& event) {
  if (!event.has_data) return Step::part;  // comments, and blank lines
  EventFacts facts = api_.read_event(event);
  if (is_complete_ && facts.kind == EventKind::error) facts.kind = EventKind::noise;
  if (!facts.usage.empty()) take_usage(facts);
  choices_.seen |= facts.choices;
  choices_.ended |= facts.ended_choices;
  switch (facts.kind) {
    case EventKind::noise:
      return Step::part;
    case EventKind::error: {
      JobFailure failure = error_event_failure(facts.error, headers_);
      failure.body = Blob::copy(event.data);
      return stop(std::move(failure));
    }
    case EventKind::opening:
      if (facts.has_only_usage && options_.strips_usage) return Step::part;
      break;
    case EventKind::content:
      has_content_ = true;
      ++content_.events;
      content_.bytes +=
          static_cast<std::int64_t>(facts.content_bytes > 0 ? facts.content_bytes : event.data.size());
      break;
    case EventKind::last:
      is_complete_ = true;
      break;
  }
  const HttpHeaders* const headers = options_.headers.get();
  if (headers != nullptr && headers->betrayed_by(event.raw))
    events_.append(headers->redacted(std::string(event.raw)));
  else
    events_.append(event.raw);
  if (events_.size() > kOpeningBytesMax) has_content_ = true;
  if (options_.in_pieces || events_.size() <= options_.answer_bytes_max) return Step::part;
  return stop(transport_failure(
      CURLE_WRITE_ERROR,
      {.was_sent = true, .over_limit = true, .answer_bytes_max = options_.answer_bytes_max}));
}

/// Usage may come in several events; for each count the last one wins.
void EventAnswer::take_usage(const EventFacts& facts) {
  std::string json = "{\"usage\":";
  json.append(facts.usage).append("}");
  const wire::Usage newer = read_body(json).usage.value_or(wire::Usage{});
  take_over(usage_.input_tokens, newer.input_tokens);
  take_over(usage_.output_tokens, newer.output_tokens);
  take_over(usage_.cached_tokens, newer.cached_tokens);
  take_over(usage_.reasoning_tokens, newer.reasoning_tokens);
  usage_is_whole_ = facts.usage_is_whole;
}

AnswerReader::Step EventAnswer::stop(JobFailure failure) {
  failure_ = std::move(failure);
  return Step::stop;
}

std::size_t EventAnswer::pending() const {
  return may_pass_on() ? events_.size() : 0;
}

bool EventAnswer::pass_on(Completion& done) {
  if (pending() == 0) return true;
  const bool more = done.chunk(Blob::copy(events_));
  events_.clear();
  return more;
}

/// The usage of a broken-off stream, which nobody reports: estimated from its content, rather too high.
/// Hidden thoughts cannot be estimated.
wire::Usage EventAnswer::usage_so_far() const {
  wire::Usage usage = said_usage();
  if (!usage.output_tokens && content_.events > 0)
    usage.output_tokens = std::max(content_.events, content_.bytes / kBytesPerToken + 1);
  return usage;
}

wire::Usage EventAnswer::said_usage() const {
  wire::Usage usage = usage_;
  usage.requests = 1;
  // The output that was reported by then is no count of what was made.
  if (!usage_is_whole_) usage.output_tokens = usage.reasoning_tokens = std::nullopt;
  return usage;
}

AnswerOutcome EventAnswer::outcome(std::optional<JobFailure> broken) {
  if (!failure_ && !is_complete_ && !broken) end_whole();
  if (failure_) return failed(std::move(*failure_));
  if (!is_complete_) return failed(broken_off(std::move(broken)));
  AnswerOutcome outcome{.usage = said_usage()};
  if (options_.in_pieces || events_.empty()) return outcome;
  const auto body = std::make_shared<const std::string>(std::move(events_));
  events_.clear();
  outcome.body = Blob::own(body, *body);
  return outcome;
}

/// The stream ended by itself. Its last event may lack the blank line behind it, and a stream of choices its
/// last event.
void EventAnswer::end_whole() {
  if (!parser_.rest().empty()) {
    const SseEvent event = parser_.last_event();
    if (!event.has_data) return;
    const EventFacts facts = api_.read_event(event);
    const bool ends_choices = facts.ended_choices != 0 && headers_.is_framed();
    if (facts.kind != EventKind::last && !ends_choices) return;
    if (take_event(event) == Step::stop || is_complete_) return;
    events_.append("\n\n");
  }
  const bool ended = choices_.seen != 0 && choices_.seen == choices_.ended;
  if (!ended || !headers_.is_framed()) return;
  events_.append(api_.end_of_choices);
  is_complete_ = true;
}

JobFailure EventAnswer::broken_off(std::optional<JobFailure> broken) const {
  JobFailure failure{.code = "stream_broken", .message = "the upstream's stream ended before its last event"};
  if (!broken) return failure;
  if (broken->code.starts_with("timeout")) return std::move(*broken);
  failure.message += ": " + broken->message;
  failure.detail = std::move(broken->detail);
  return failure;
}

AnswerOutcome EventAnswer::failed(JobFailure failure) const {
  const bool is_free = failure.usage && failure.usage->output_tokens == 0 && !has_content_;
  if (!is_free || usage_.input_tokens) failure.usage = usage_so_far();
  return {.failure = std::move(failure)};
}

}  // namespace lanemq::worker
