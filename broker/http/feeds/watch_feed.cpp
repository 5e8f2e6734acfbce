// SPDX-License-Identifier: Apache-2.0
#include "broker/http/feeds/watch_feed.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <lanemq/error_table.hpp>
#include <lanemq/limits.hpp>

#include "broker/http/access/http_access.hpp"

namespace lanemq::admin {
namespace {

/// The broker lets go of a watch that it does not hear of for 30 s. A reader hears as often that all is well.
constexpr std::chrono::milliseconds kRenewEvery{10'000};
/// How long the broker may take to begin a watch.
constexpr std::chrono::milliseconds kPatience{10'000};
/// Events that are confirmed together.
constexpr std::int64_t kConfirmed = limits::watch_events_max / 4;
/// After its connection is lost a reader comes back so soon; and what says that it is not lost.
constexpr const char kComeBack[] = "retry: 1000\n\n", kStillHere[] = ": still here\n\n";

/// Tells a reader that it lacks the events after its last one.
std::string gap_after(const std::string& last_event) {
  return "event: gap\ndata: " +
         harmless_text_of(
             {{"after", last_event},
              {"message", "what happened since then is not kept; /v1/jobs says how things are now"}}) +
         "\n\n";
}

}  // namespace

WatchFeed::WatchFeed(zmq::context_t& context, const std::string& endpoint, http::Loop& loop)
    : loop_(loop), socket_(operator_socket(context, endpoint)), timer_(loop.timer()) {
  watch_ = loop.watch(socket_.get(zmq::sockopt::fd), [this] { read(); });
}

WatchFeed::~WatchFeed() = default;

void WatchFeed::add(Question question, std::string last_event, http::ResponderPtr responder) {
  const std::uint64_t ref = ++last_ref_;
  if (!say(question, ref))
    return responder->answer(refused(503, "busy", "the broker takes no request now; try again"));
  const bool first = readers_.empty();
  const auto reader = std::make_shared<Reader>(
      Reader{std::move(question), std::move(last_event), std::move(responder), loop_.now()});
  readers_.emplace(ref, reader);
  if (first) renew_later();
  // Last of all: a reader that has gone already is called for at once.
  reader->responder->on_gone([this, ref] { forget(ref); });
}

/// Says an op to the broker; false: it has no room for it.
bool WatchFeed::say(const Question& question, std::uint64_t ref) {
  const bool sent = send_question(socket_, question, ref);
  // The socket's descriptor tells of changes alone, and sending may have swallowed one.
  loop_.post([alive = std::weak_ptr<WatchFeed*>(alive_)] {
    if (const std::shared_ptr<WatchFeed*> self = alive.lock()) (*self)->read();
  });
  return sent;
}

void WatchFeed::say_seen(std::uint64_t ref, Reader& reader) {
  if (say({.op = "seen", .fields = {{"seq", reader.taken}}, .who = reader.question.who}, ref))
    reader.told = reader.taken;
}

void WatchFeed::read() {
  while (incoming_.receive(socket_))
    if (incoming_.fault() == nullptr) take(incoming_.header());
}

void WatchFeed::take(std::string_view header) {
  std::optional<LoopMessage> message = loop_message(header);
  if (!message) return;
  Json& fields = message->fields;
  const auto ref = fields.value("ref", std::uint64_t{0});
  const auto at = readers_.find(ref);
  if (at == readers_.end()) return;  // it has gone meanwhile
  const std::shared_ptr<Reader> reader = at->second;
  fields.erase("ref");
  const std::string& op = message->op;
  if (op == "error") return end(ref, std::move(fields));
  if (op == "watching" && !reader->begun) return begin(*reader);
  if (op == "watching") return compare(*reader, fields.value("seq", std::int64_t{0}));
  if (op == "event" && reader->begun) write_event(ref, reader, std::move(fields));
}

void WatchFeed::begin(Reader& reader) {
  reader.begun = true;
  reader.responder->begin(200, {{"content-type", "text/event-stream"},
                                {"cache-control", "no-store"},
                                {"x-accel-buffering", "no"},
                                {"x-content-type-options", "nosniff"}});
  std::string head = kComeBack;
  if (!reader.last_event.empty()) head += gap_after(reader.last_event);
  reader.responder->write(http::blob_of(std::move(head)));
}

/// The broker's answer to a renewal follows all events: a reader that lacks some is told so.
void WatchFeed::compare(Reader& reader, std::int64_t next) {
  if (next == reader.next) return;
  const std::string last = std::to_string(reader.next - 1);
  reader.next = next;
  reader.taken = reader.told = next - 1;
  reader.responder->write(http::blob_of(gap_after(last)));
}

void WatchFeed::write_event(std::uint64_t ref, const std::shared_ptr<Reader>& reader, Json event) {
  const auto seq = event.value("seq", std::int64_t{0});
  if (const std::int64_t lost = seq - reader->next; lost > 0) {  // the socket had no room for them
    event["gap"] = true;
    event["left_out"] = event.value("left_out", std::int64_t{0}) + lost;
  }
  reader->next = seq + 1;
  const auto taken = [alive = std::weak_ptr<WatchFeed*>(alive_), ref, seq] {
    const std::shared_ptr<WatchFeed*> self = alive.lock();
    if (!self) return;
    const auto at = (*self)->readers_.find(ref);
    if (at == (*self)->readers_.end()) return;
    at->second->taken = seq;
    if (seq - at->second->told >= kConfirmed) (*self)->say_seen(ref, *at->second);
  };
  reader->responder->write(
      http::blob_of("id: " + std::to_string(seq) + "\nevent: job\ndata: " + harmless_text_of(event) + "\n\n"),
      taken);
}

/// The broker has refused the watch, or ended it.
void WatchFeed::end(std::uint64_t ref, Json error) {
  const std::shared_ptr<Reader> reader = readers_.at(ref);
  readers_.erase(ref);
  reader->responder->on_gone({});
  if (!reader->begun) {
    const auto code = error_code(error.value("code", ""));
    return reader->responder->answer(json_of(error_info(code.value_or(ErrorCode::internal)).http_status,
                                             Json{{"error", std::move(error)}}));
  }
  reader->responder->write(http::blob_of("event: over\ndata: " + harmless_text_of(error) + "\n\n"));
  reader->responder->end();
}

/// The reader has hung up.
void WatchFeed::forget(std::uint64_t ref) {
  const auto at = readers_.find(ref);
  if (at == readers_.end()) return;
  const std::string who = at->second->question.who;
  readers_.erase(at);
  say({.op = "watch", .fields = {{"stop", true}}, .who = who}, ref);
}

void WatchFeed::renew_later() {
  timer_->after(kRenewEvery, [this] { renew(); });
}

void WatchFeed::renew() {
  // A write may find that a reader is gone, which takes it out of the table.
  const std::vector<std::pair<std::uint64_t, std::shared_ptr<Reader>>> all(readers_.begin(), readers_.end());
  for (const auto& [ref, reader] : all) {
    if (!reader->begun && loop_.now() - reader->asked_at >= kPatience) {
      readers_.erase(ref);
      reader->responder->on_gone({});
      reader->responder->answer(
          refused(504, "unavailable", "the broker's loop has not answered in time; try again"));
      continue;
    }
    if (!reader->begun) continue;
    say(reader->question, ref);
    if (reader->taken > reader->told) say_seen(ref, *reader);
    if (reader->taken == reader->next - 1) reader->responder->write(http::blob_of(kStillHere));
  }
  if (!readers_.empty()) renew_later();
}

}  // namespace lanemq::admin
