// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/frames.hpp"

#include <cstdio>
#include <cstdlib>
#include <optional>

#include <lanemq/codec.hpp>
#include <lanemq/text.hpp>

namespace lanemq::fuzz {
namespace {

constexpr std::string_view kMeta("\x82\xA1k\xA1v\xA4list\x93\x01\xC3\xCB\x3F\xF8\0\0\0\0\0\0", 21);
constexpr std::string_view kExtras("\xA3x-a\x01\xA6x-list\x92\xC0\xC4\x01z", 16);
constexpr std::string_view kRefText("\xA5ref-1", 6);
constexpr std::string_view kRefNumber("\xCD\x01\x00", 3);

/// Collects encoded messages, each without a body, with one inside, and with an empty one.
class Seeds {
 public:
  template <class Message>
  void add(const Message& message) {
    for (int body = 0; body < 2; ++body) {
      Buffer buffer;
      if (body == 0)
        encode(message, buffer);
      else
        encode(message, "some bytes of a body", buffer);
      frames_.emplace_back(buffer.view());
    }
  }
  /// A batch of three: a message that names little, the message, and the first again.
  template <class Message>
  void add_batch(const Message& little, const Message& message) {
    Buffer buffer, out;
    Batch batch(write_item(little, buffer), "one", buffer);
    for (const Message* later : {&message, &little})
      batch.add(write_item(*later, buffer), "a body", 3, buffer);
    batch.write(buffer, out);
    frames_.emplace_back(out.view());
  }
  void add_bytes(std::string_view bytes) { frames_.emplace_back(bytes); }
  std::vector<std::string> take() { return std::move(frames_); }

 private:
  std::vector<std::string> frames_;
};

template <std::size_t size>
constexpr std::string_view bytes_of(const char (&text)[size]) {
  return {text, size - 1};
}

/// Frames that break a rule, whatever the direction.
void add_broken(Seeds& seeds) {
  seeds.add_bytes({});
  seeds.add_bytes(bytes_of("\x93\xA4LMQ1"));
  seeds.add_bytes(bytes_of("\x93\xA4LMQ1\xA4ping\x80\x80"));                    // bytes behind the end
  seeds.add_bytes(bytes_of("\x94\xA4LMQ1\xA4ping\x80\xA1x"));                   // the body is a string
  seeds.add_bytes(bytes_of("\x93\xA4LMQ1\xA4ping\x82\xA3ref\x01\xA3ref\x02"));  // a duplicate key
  seeds.add_bytes(bytes_of("\x93\xA4LMQ1\xA4ping\x81\x01\x02"));                // a key that is a number
  seeds.add_bytes(bytes_of("\x93\xA4LMQ1\xA4ping\x92\x80\x80"));                // a batch of what has none
  seeds.add_bytes(bytes_of("\x93\xA4LMQ1\xA6result\x92\x80"));                  // a batch that ends early
  seeds.add_bytes(bytes_of("\x94\xA4LMQ1\xA6result\x91\x80\x92\xC4\0\xC4\0"));  // more bodies than maps
  seeds.add_bytes(bytes_of("\x93\xA4LMQ1\xA4nope\x81\xA2id\xA1i"));             // an unknown op
  seeds.add_bytes(bytes_of("\x93\xA4LMQ1\xA4ping\xDD\xFF\xFF\xFF\xFF"));        // 2^32-1 entries
  seeds.add_bytes(bytes_of("\x94\xA4LMQ1\xA4ping\x80\xC6\xFF\xFF\xFF\xFF"));    // a body of 4 GiB
  seeds.add_bytes(
      bytes_of("\x93\xA4LMQ1\xA4ping\x81\xA3ref\xC7\x04\x01"
               "abcd"));  // an ext
}

wire::Usage some_usage() {
  wire::Usage usage;
  usage.requests = 1;
  usage.input_tokens = 200;
  usage.output_tokens = 70000;
  usage.cached_tokens = 0;
  usage.reasoning_tokens = 5;
  return usage;
}

wire::UpstreamLimits some_limits() {
  wire::UpstreamLimits limits;
  limits.remaining_requests = 59;
  limits.remaining_tokens = 1'000'000'000'000;
  limits.reset_requests_ms = 1000;
  limits.limit_tokens = 0;
  limits.limit_concurrency = 8;
  limits.period_requests_ms = 86'400'000;
  return limits;
}

wire::Submit full_submit() {
  wire::Submit submit;
  submit.service = "echo";
  submit.id = "job-1";
  submit.lane = "high";
  submit.model = "m";
  submit.client = "c";
  submit.cost = wire::Cost{10, 300};
  submit.timeout_ms = 30000;
  submit.delay_ms = 0;
  submit.attempts_max = 3;
  submit.retain_ms = 300000;
  submit.reply = "both";
  submit.orphan = "cancel";
  submit.limited = "end";
  submit.spent = "end";
  submit.stream = true;
  submit.durable = false;
  submit.batch = 64;
  submit.meta = {kMeta};
  submit.trace = {kMeta};
  submit.ref = {kRefText};
  submit.extras = {2, kExtras};
  return submit;
}

wire::AdminQuery full_admin_query() {
  wire::AdminQuery query;
  query.verb = "jobs";
  query.lane = "batch";
  query.state = "queued";
  query.reason = "maintenance";
  query.from = 4096;
  query.limit = 256;
  query.dry_run = true;
  query.ref = {kRefNumber};
  return query;
}

std::vector<std::string> client_requests() {
  Seeds seeds;
  wire::Submit submit;
  submit.service = "echo";
  seeds.add(submit);
  seeds.add(full_submit());
  seeds.add(wire::Cancel{"job-1", {kRefNumber}});
  seeds.add(wire::StatusQuery{"job-1", {}, {}});
  seeds.add(wire::StatusQuery{{}, {"a", "b"}, {kRefText}});
  seeds.add(wire::Fetch{"job-1", 60000, 7, {kRefNumber}});
  seeds.add(wire::Seen{"job-1", 9, {}});
  seeds.add(wire::Seen{{}, 0, {kRefText}});
  seeds.add(wire::StatsQuery{.from = 3, .ref = {kRefNumber}});
  seeds.add(wire::Ping{});
  seeds.add(wire::Spend{"team", "gateway-1", 600, 100000, 8, 12, 37, 4000, 6250, 3, 1, {kRefNumber}});
  seeds.add(full_admin_query());
  seeds.add(wire::Watch{"job-1", "team", "low", "echo", "report", true, 256, {kRefText}});
  wire::Submit lean;
  lean.service = "echo";
  lean.id = "job-2";
  seeds.add_batch(lean, full_submit());
  seeds.add_batch(full_submit(), lean);
  seeds.add_batch(wire::Cancel{"a", {}}, wire::Cancel{"b", {kRefText}});
  add_broken(seeds);
  return seeds.take();
}

wire::StatusReply full_status() {
  wire::StatusReply status;
  status.id = "job-1";
  status.state = "queued";
  status.lane = "low";
  status.position = 0;
  status.eta_ms = 10;
  status.blocked_by = "worker echo";
  status.worker = "w1";
  status.error = {kMeta};
  status.jobs = {std::string_view("\x90", 1)};
  return status;
}

std::vector<std::string> client_replies() {
  Seeds seeds;
  seeds.add(wire::Accepted{"job-1", "normal", true, true, 12, 900, {kRefText}});
  seeds.add(wire::ChunkReply{"job-1", 3, "high", 2, 40, {}});
  seeds.add(wire::Watching{12, true, {kRefNumber}});
  wire::JobEvent event;
  event.seq = 7;
  event.gap = event.dead = true;
  event.left_out = 3;
  event.what = "ended";
  event.id = "job-1";
  event.state = "failed";
  event.code = "upstream_failed";
  event.ran_ms = 12;
  event.group = "report";
  event.succeeded = 3;
  event.ref = {kRefNumber};
  seeds.add(event);
  seeds.add(wire::JobResult{"job-1", "normal", 2, 5, 1234, some_usage(), 4, {kRefNumber}});
  seeds.add(wire::ErrorReply{
      "job-1", "lane_full", "lane \"bulk\" holds 10 jobs", 2000, 3, 40, "budget b", 2, 400, {kRefText}});
  seeds.add(full_status());
  seeds.add(wire::StatsReply{{kMeta}, {kRefNumber}});
  seeds.add(wire::Pong{1'700'000'000'000, "0.1.0", {}});
  seeds.add(wire::Spent{"team", 49, 10250, 4, 551, 89750, 0, 0, {kRefNumber}});
  seeds.add(wire::AdminReply{{kMeta}, {kRefNumber}});
  seeds.add_batch(wire::JobResult{"job-2", {}, 1, 0, 0, {}, 0, {}},
                  wire::JobResult{"job-1", "normal", 2, 5, 1234, some_usage(), 4, {kRefNumber}});
  add_broken(seeds);
  return seeds.take();
}

std::vector<std::string> worker_reports() {
  Seeds seeds;
  seeds.add(wire::Ready{{"echo"}, 4, {}, {}, {}, 0, false, {}, {}, {}});
  seeds.add(wire::Ready{
      {"echo", "http"}, 1024, {"critical"}, "w1", "1", 64, true, "0123456789abcdef", "host/1/2", {kMeta}});
  seeds.add(wire::Chunk{1, 2, 3});
  seeds.add(wire::Progress{1, 2, 40, "reads its input"});
  seeds.add(wire::Outcome{1, 1, {}, {}});
  seeds.add(wire::Outcome{1ull << 62, 2, some_usage(), some_limits()});
  seeds.add(
      wire::Failure{1, 1, "limited", "429", "slow down", 2000, some_usage(), some_limits(), 429, "day"});
  seeds.add(wire::Heartbeat{});
  seeds.add(wire::Heartbeat{{{1, 1}, {2, 3}, {1ull << 40, 1}}});
  seeds.add(wire::Bye{});
  seeds.add_batch(wire::Outcome{7, 1, {}, {}}, wire::Outcome{1ull << 62, 2, some_usage(), some_limits()});
  add_broken(seeds);
  return seeds.take();
}

wire::JobOffer full_offer() {
  wire::JobOffer offer;
  offer.job = 1ull << 40;
  offer.attempt = 2;
  offer.id = "job-1";
  offer.service = "echo";
  offer.lane = "high";
  offer.model = "m";
  offer.client = "c";
  offer.key = "k1";
  offer.timeout_ms = 1;
  offer.cost = wire::Cost{1, {}};
  offer.stream = true;
  offer.meta = {kMeta};
  offer.trace = {kMeta};
  offer.extras = {2, kExtras};
  return offer;
}

std::vector<std::string> worker_commands() {
  Seeds seeds;
  seeds.add(wire::Welcome{"s", 1000, 1 << 26});
  wire::JobOffer offer;
  offer.job = 5;
  offer.id = "job-1";
  seeds.add(offer);
  seeds.add(full_offer());
  seeds.add_batch(offer, full_offer());
  seeds.add_batch(full_offer(), offer);
  seeds.add(wire::Acked{{{1, 1}, {7, 2}}});
  seeds.add(wire::CancelJob{1, 1, "deadline"});
  seeds.add(wire::Window{1, 1, 63});
  seeds.add(wire::Heartbeat{});
  seeds.add(wire::Drain{});
  seeds.add(wire::Bye{});
  seeds.add(wire::WorkerRefusal{"stale", "attempt 1 is over", 1, 1});
  add_broken(seeds);
  return seeds.take();
}

[[noreturn]] void broken_promise(const char* promise, std::string_view frame) {
  std::fprintf(stderr, "the decoder broke a promise: %s\nframe (%zu bytes):", promise, frame.size());
  for (const char c : frame.substr(0, 512))
    std::fprintf(stderr, " %02x", static_cast<unsigned char>(c));
  std::fputc('\n', stderr);
  std::abort();
}

void check(bool holds, const char* promise, std::string_view frame) {
  if (!holds) broken_promise(promise, frame);
}

void check_error(const DecodeError& error, std::string_view frame) {
  check(error.code == ErrorCode::bad_request || error.code == ErrorCode::too_large,
        "an error is about the message", frame);
  check(!error.message.empty() && error.message.size() <= 512, "an error's text is short and not empty",
        frame);
  check(is_utf8(error.message), "an error's text is UTF-8", frame);
  check(is_utf8(error.id) && error.id.size() <= limits::id_bytes_max, "an error's id keeps its rule", frame);
  check(error.ref.size() <= limits::ref_bytes_max + 5, "an error's ref keeps its rule", frame);
}

/// The item as a message of its own.
template <class Message>
std::string encoded(const Message& message, std::string_view body) {
  Buffer buffer;
  std::visit([&](const auto& known) { encode(known, body, buffer); }, message);
  return std::string(buffer.view());
}

/// A ref that was read of a document is inside the document too and would be written twice.
template <class Message>
Message without_ref_of_document(Message message) {
  if constexpr (std::is_same_v<Message, wire::ClientReply>) {
    if (auto* stats = std::get_if<wire::StatsReply>(&message)) stats->ref = {};
    if (auto* admin = std::get_if<wire::AdminReply>(&message)) admin->ref = {};
  }
  return message;
}

/// What is said again is lean, so it is read again and says the same.
template <class Message>
void check_item(const Message& item, std::string_view body, std::string_view frame) {
  static thread_local Decoder decoder(32 * 1024);
  static thread_local Message again;
  const std::string once = encoded(without_ref_of_document(item), body);
  if (once.size() - body.size() > limits::header_bytes_max) return;
  if (const DecodeError* error = decoder.decode(once, again)) {
    // A map of a batch may have more fields than one map may, with what it inherits.
    check(error->message.find("map_entries_max") != std::string::npos,
          "what was read can be said and read again", frame);
    return;
  }
  check(encoded(without_ref_of_document(again), decoder.body()) == once, "what was read twice is equal",
        frame);
}

/// What was read as a batch can be said as one, as far as it fits, and says the same again.
template <class Message>
void check_batch(const Items<Message>& items, std::string_view frame) {
  static thread_local Decoder decoder(32 * 1024);
  static thread_local Items<Message> again;
  static thread_local Buffer buffer, out;
  buffer.clear();
  out.clear();
  std::optional<Batch> batch;
  std::vector<std::string> said;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items.error(i) != nullptr || items.body(i).size() > limits::inline_bytes_max) continue;
    std::visit(
        [&]<class Known>(const Known& known) {
          if (!can_be_batched<Known>()) return;
          const BatchItem item = write_item(known, buffer);
          if (!batch)
            batch.emplace(item, items.body(i), buffer);
          else if (!batch->add(item, items.body(i), items.size(), buffer))
            return;
          said.push_back(encoded(items[i], items.body(i)));
        },
        items[i]);
  }
  if (!batch) return;
  batch->write(buffer, out);
  const DecodeError* error = decoder.decode(out.view(), {}, again);
  // A map with many x- fields may have grown over its limits with what it inherited.
  if (error != nullptr) return check(said.front().size() > 1024, "a batch can be said and read again", frame);
  check(again.size() == said.size(), "a batch keeps its items", frame);
  for (std::size_t i = 0; i < said.size(); ++i)
    if (again.error(i) == nullptr)
      check(encoded(again[i], again.body(i)) == said[i], "a batch that was read twice is equal", frame);
}

template <class Message>
bool check_as(std::string_view frame) {
  // Kept between calls, as a broker keeps them: what one frame left behind must not show in the next.
  static thread_local Decoder decoder(32 * 1024), single(32 * 1024);
  static thread_local Items<Message> items;
  static thread_local Message message;
  const DecodeError* alone = single.decode(frame, message);
  if (alone != nullptr) check_error(*alone, frame);
  const DecodeError* const refused = decoder.decode(frame, {}, items);
  check(decoder.work() <= frame.size() * Decoder::kWorkPerByte + limits::batch_inherited_bytes_max,
        "what reading costs grows with the bytes alone", frame);
  if (const DecodeError* error = refused) {
    check_error(*error, frame);
    check(alone != nullptr, "what is refused as a batch is refused alone", frame);
    check(items.empty(), "a refused message has no items", frame);
    return false;
  }
  check(is_header(frame), "only headers are read", frame);
  check(items.is_batch() == (alone != nullptr), "a batch is read where one may come", frame);
  check(!items.empty() && items.size() <= limits::batch_items_max, "a batch keeps its limit", frame);
  std::size_t bodies = 0, broken = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    bodies += items.body(i).size();
    check(items.body(i).empty() || has_inline_body(frame), "only a fourth element is a body", frame);
    if (const DecodeError* error = items.error(i)) {
      check_error(*error, frame);
      ++broken;
    } else {
      check_item(items[i], items.body(i), frame);
    }
  }
  check(frame.size() - bodies <= limits::header_bytes_max, "a header keeps its limit", frame);
  if (items.is_batch()) check_batch(items, frame);

  // The same frame as the body of a batch: only a list of as many bins is taken.
  static thread_local Items<Message> others;
  if (items.is_batch() && !has_inline_body(frame))
    check(single.decode(frame, frame, others) != nullptr, "a header is no list of bodies", frame);
  return broken < items.size();
}

}  // namespace

std::string_view name_of(Direction direction) {
  switch (direction) {
    case Direction::client_to_broker:
      return "client_to_broker";
    case Direction::broker_to_client:
      return "broker_to_client";
    case Direction::worker_to_broker:
      return "worker_to_broker";
    case Direction::broker_to_worker:
      return "broker_to_worker";
  }
  return {};
}

std::vector<std::string> seed_frames(Direction direction) {
  switch (direction) {
    case Direction::client_to_broker:
      return client_requests();
    case Direction::broker_to_client:
      return client_replies();
    case Direction::worker_to_broker:
      return worker_reports();
    case Direction::broker_to_worker:
      return worker_commands();
  }
  return {};
}

bool check_frame(Direction direction, std::string_view frame) {
  switch (direction) {
    case Direction::client_to_broker:
      return check_as<wire::ClientRequest>(frame);
    case Direction::broker_to_client:
      return check_as<wire::ClientReply>(frame);
    case Direction::worker_to_broker:
      return check_as<wire::WorkerReport>(frame);
    case Direction::broker_to_worker:
      return check_as<wire::WorkerCommand>(frame);
  }
  return false;
}

}  // namespace lanemq::fuzz
