// SPDX-License-Identifier: Apache-2.0
#include "client/library/request_desk.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/codec.hpp>

#include "common/ids/ulid.hpp"

namespace lanemq::client {
namespace {

using std::chrono::milliseconds;

/// A wire text: an empty one is absent, with a null data().
std::string_view wire_text(const std::string& text) {
  return text.empty() ? std::string_view() : text;
}

/// Why the request cannot be sent: nobody could decode it, so nobody would answer.
std::optional<ClientError> unsendable(const JobRequest& job) {
  const auto is_one_value = [](const std::string& text) { return text.empty() || !to_json(text).empty(); };
  const bool meta_is_good = is_one_value(job.meta);
  if (meta_is_good && is_one_value(job.trace)) return std::nullopt;
  return ClientError{.code = std::string(name_of(ErrorCode::bad_request)),
                     .message = std::string(meta_is_good ? "JobRequest::trace" : "JobRequest::meta") +
                                " is not one msgpack value of at most " +
                                std::to_string(limits::header_bytes_max) + " bytes",
                     .local = true};
}

std::optional<std::int64_t> wire_ms(std::optional<milliseconds> value) {
  return value ? std::optional<std::int64_t>(value->count()) : std::nullopt;
}

/// Bytes of each encoded submit: the array, "LMQ1" and the op.
constexpr std::size_t kSubmitPreambleBytes = std::string_view("\x94\xA4LMQ1\xA6submit").size();

/// Sets the request's header, and its item where it may go in a batch of up to `batch_max`.
void encode_submit(const JobRequest& job, const Blob& body, std::size_t batch_max, Request& request) {
  thread_local Buffer ref_bytes, header, items;
  wire::Submit submit{.service = wire_text(job.service),
                      .id = request.id,
                      .lane = wire_text(job.lane),
                      .model = wire_text(job.model),
                      .client = wire_text(job.client),
                      .cost = job.cost,
                      .timeout_ms = wire_ms(job.timeout),
                      .delay_ms = wire_ms(job.delay),
                      .retain_ms = wire_ms(job.retain),
                      .durable = job.durable,
                      .batch = static_cast<std::int64_t>(batch_max > 1 ? batch_max : 0),
                      .ref = number_ref(request.ref, ref_bytes)};
  if (job.attempts_max) submit.attempts_max = *job.attempts_max;
  if (job.cancel_when_gone) submit.orphan = "cancel";
  if (job.end_when_limited) submit.limited = "end";
  if (job.end_when_spent) submit.spent = "end";
  submit.group = wire_text(job.group);
  submit.group_size = job.group_size;
  submit.notify = wire_text(job.notify);
  submit.stream = request.kind == RequestKind::stream || (request.kind == RequestKind::leave && job.stream);
  submit.meta = {job.meta};
  submit.trace = {job.trace};
  if (request.kind == RequestKind::leave) submit.reply = "accepted";
  header.clear();
  if (body.size() > limits::inline_bytes_max) {
    encode(submit, header);
  } else {
    items.clear();
    request.item = write_item(submit, items);
    Batch(request.item, body.bytes(), items).write(items, header);
    request.item.begin = kSubmitPreambleBytes;
  }
  request.header = header.view();
}

template <class Message>
std::string encode_query(Message message, std::uint64_t ref) {
  Buffer ref_bytes, header;
  message.ref = number_ref(ref, ref_bytes);
  encode(message, header);
  return std::string(header.view());
}

void set_reader(Request& request, StreamReader& reader) {
  request.on_chunk = std::make_shared<const ChunkHandler>(std::move(reader.on_chunk));
  request.takes_at_once = reader.takes_at_once;
}

}  // namespace

RequestDesk::RequestDesk(const ClientOptions& options) : options_(options) {}

std::optional<ClientError> RequestDesk::take_place(std::size_t body_bytes) {
  const auto refusal = [](ErrorCode code, std::string message) {
    return ClientError{.code = std::string(name_of(code)), .message = std::move(message), .local = true};
  };
  if (body_bytes > options_.body_bytes_max)
    return refusal(ErrorCode::too_large, "the body has " + std::to_string(body_bytes) +
                                             " bytes, the limit is " +
                                             std::to_string(options_.body_bytes_max) + " (body_bytes_max)");
  if (pending_.fetch_add(1) >= options_.pending_max) {
    pending_.fetch_sub(1);
    return refusal(ErrorCode::client_full, "this client waits for " + std::to_string(options_.pending_max) +
                                               " answers (pending_max); wait for some of them first");
  }
  const std::size_t before = pending_bytes_.fetch_add(body_bytes);
  if (before > 0 && body_bytes > 0 && before + body_bytes > options_.pending_bytes_max) {
    pending_bytes_.fetch_sub(body_bytes);
    pending_.fetch_sub(1);
    return refusal(ErrorCode::client_full, "this client holds " + std::to_string(before) +
                                               " bytes of requests, " + "the limit is " +
                                               std::to_string(options_.pending_bytes_max) +
                                               " (pending_bytes_max); wait for some answers first");
  }
  return std::nullopt;
}

void RequestDesk::give_back(std::size_t body_bytes) {
  give_back_bytes(body_bytes);
  pending_.fetch_sub(1, std::memory_order_relaxed);
}

void RequestDesk::give_back_bytes(std::size_t body_bytes) {
  pending_bytes_.fetch_sub(body_bytes, std::memory_order_relaxed);
}

RequestDesk::Made RequestDesk::submit(RequestKind kind, JobRequest job, const Blob& body) {
  const std::uint64_t ref = next_ref();
  std::string id = job.id.empty() ? new_ulid() : std::move(job.id);
  std::optional<ClientError> refused = unsendable(job);
  if (!refused) refused = take_place(body.size());
  if (refused) {
    refused->id = std::move(id);
    return std::move(*refused);
  }
  Request request{.ref = ref, .kind = kind};
  request.id = std::move(id);
  encode_submit(job, body, options_.batch_max, request);
  request.body_bytes = body.size();
  if (body.size() > limits::inline_bytes_max) request.body = body.owned();
  request.service = std::move(job.service);
  request.client = std::move(job.client);
  request.asked = std::chrono::steady_clock::now();
  if (kind == RequestKind::leave)
    request.deadline = request.asked + options_.control_timeout;
  else if (job.timeout)
    request.deadline = request.asked + *job.timeout + job.delay.value_or(milliseconds(0)) + options_.grace;
  return request;
}

RequestDesk::Made RequestDesk::stream(JobRequest job, const Blob& body, StreamReader& reader) {
  Made made = submit(RequestKind::stream, std::move(job), body);
  if (made) set_reader(*made, reader);
  return made;
}

RequestDesk::Made RequestDesk::follow(const std::string& id, std::int64_t from_seq, StreamReader& reader) {
  if (std::optional<ClientError> refused = take_place(0)) {
    refused->id = id;
    return std::move(*refused);
  }
  Request request{.ref = next_ref(), .kind = RequestKind::stream, .id = id};
  request.asked = std::chrono::steady_clock::now();
  request.from_seq = std::max<std::int64_t>(from_seq, 0);
  set_reader(request, reader);
  return request;
}

template <class Message>
RequestDesk::Made RequestDesk::ask(RequestKind kind, std::string id, Message query, milliseconds timeout) {
  if (std::optional<ClientError> refused = take_place(0)) {
    refused->id = std::move(id);
    return std::move(*refused);
  }
  const std::uint64_t ref = next_ref();
  Request request{.ref = ref, .kind = kind, .header = encode_query(query, ref)};
  request.id = std::move(id);
  request.asked = std::chrono::steady_clock::now();
  request.deadline = request.asked + timeout;
  return request;
}

RequestDesk::Made RequestDesk::status(const std::string& id, std::string service, std::string client) {
  Made made = ask(RequestKind::status, id, wire::StatusQuery{.id = id, .ids = {}, .ref = {}},
                  options_.control_timeout);
  if (made) {
    made->service = std::move(service);
    made->client = std::move(client);
  }
  return made;
}

template <class Message>
Request RequestDesk::question(RequestKind kind, const Request& request, Message query) const {
  Request question{
      .ref = request.ref, .kind = kind, .id = request.id, .header = encode_query(query, request.ref)};
  question.asked = request.asked;
  question.deadline = request.asked + options_.control_timeout;
  if (request.deadline) question.deadline = std::min(*question.deadline, *request.deadline);
  question.takes_place = false;
  return question;
}

Request RequestDesk::question_of_state(const Request& request) const {
  return question(RequestKind::status, request, wire::StatusQuery{.id = request.id, .ids = {}, .ref = {}});
}

Request RequestDesk::question_of_shards(const Request& request) const {
  return question(RequestKind::ping, request, wire::Ping{.cluster = true});
}

RequestDesk::Made RequestDesk::cancel(const std::string& id) {
  return ask(RequestKind::cancel, id, wire::Cancel{.id = id, .ref = {}}, options_.control_timeout);
}

RequestDesk::Made RequestDesk::fetch(const std::string& id, milliseconds wait) {
  wait = std::clamp(wait, milliseconds(0), Session::kFetchWait);
  wire::Fetch query;
  query.id = id;
  query.wait_ms = wait.count();
  return ask(RequestKind::fetch, id, query, wait + options_.grace);
}

RequestDesk::Made RequestDesk::ping(std::string shard) {
  Made made = ask(RequestKind::ping, {}, wire::Ping{.cluster = true}, options_.control_timeout);
  if (made) made->shard = std::move(shard);
  return made;
}

RequestDesk::Made RequestDesk::spend(const SpendRequest& request) {
  const wire::Spend query{.key = request.key,
                          .session = request.session,
                          .requests_per_minute = request.requests_per_minute,
                          .tokens_per_minute = request.tokens_per_minute,
                          .concurrency = request.concurrency,
                          .requests = request.requests,
                          .requests_ahead = request.requests_ahead,
                          .tokens = request.tokens,
                          .tokens_ahead = request.tokens_ahead,
                          .places = request.places,
                          .places_ahead = request.places_ahead};
  return ask(RequestKind::spend, {}, query, options_.control_timeout);
}

RequestDesk::Made RequestDesk::stats(std::int64_t from, std::string shard) {
  Made made = ask(RequestKind::stats, {}, wire::StatsQuery{.from = from}, options_.control_timeout);
  if (made) made->shard = std::move(shard);
  return made;
}

RequestDesk::Made RequestDesk::watch(const WatchRequest& request, WatchReader& reader) {
  wire::Watch query;
  query.id = wire_text(request.id);
  query.client = wire_text(request.client);
  query.lane = wire_text(request.lane);
  query.service = wire_text(request.service);
  query.group = wire_text(request.group);
  query.batch = static_cast<std::int64_t>(options_.batch_max > 1 ? limits::batch_items_max : 0);
  Made made = ask(RequestKind::watch, {}, query, milliseconds(0));
  if (!made) return made;
  made->deadline.reset();  // it lasts
  made->on_change = std::make_shared<const ChangeHandler>(std::move(reader.on_change));
  return made;
}

RequestDesk::Made RequestDesk::admin(const AdminRequest& request) {
  const wire::AdminQuery query{.verb = request.verb,
                               .what = wire_text(request.what),
                               .name = wire_text(request.name),
                               .id = wire_text(request.id),
                               .lane = wire_text(request.lane),
                               .service = wire_text(request.service),
                               .client = wire_text(request.client),
                               .model = wire_text(request.model),
                               .state = wire_text(request.state),
                               .code = wire_text(request.code),
                               .group = wire_text(request.group),
                               .key = wire_text(request.key),
                               .setting = wire_text(request.setting),
                               .value = wire_text(request.value),
                               .reason = wire_text(request.reason),
                               .path = wire_text(request.path),
                               .from = request.from,
                               .limit = request.limit,
                               .top = request.top,
                               .dry_run = request.dry_run};
  return ask(RequestKind::admin, request.id, query, request.timeout.value_or(options_.control_timeout));
}

}  // namespace lanemq::client
