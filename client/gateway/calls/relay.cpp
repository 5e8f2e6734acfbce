// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/calls/relay.hpp"

#include <algorithm>
#include <utility>

#include "client/gateway/apis/api.hpp"
#include "client/gateway/calls/tenant_words.hpp"

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;

/// How long a stream's status is held back while no worker serves it: proxies mostly wait that long. The
/// broker is asked for a worker once a second.
constexpr milliseconds kHeldBackMax{60'000}, kHeldBackLook{1'000};
/// How long the broker may take to answer that.
constexpr milliseconds kHeldBackBeyond{2'000};

std::string ms_text(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(time).count());
}

}  // namespace

Relay::Relay(Gateway& gateway, CallerLimits& limits, Caller caller, std::string request_id,
             std::string traceparent, ResponderPtr responder)
    : gateway_(gateway),
      limits_(limits),
      caller_(std::move(caller)),
      request_id_(std::move(request_id)),
      traceparent_(std::move(traceparent)),
      arrived_(gateway.loop.now()),
      responder_(std::move(responder)) {}

Relay::~Relay() {
  if (!over_) over();
}

void Relay::follow(const Flights::Boarded& boarded) {
  flight_ = boarded.flight;
  responder_->on_gone([self = shared_from_this()] { self->gone(); });
  if (over_) return;
  if (flight_->plan().stream) {
    ++gateway_.metrics.streams_open;
    timer_ = gateway_.loop.timer();
    commit_after(gateway_.settings.commit);
  }
  const std::shared_ptr<Relay> self = shared_from_this();
  flight_->join(*this);
  if (boarded.is_new) flight_->start();
}

Headers Relay::headers() const {
  const JobFacts& facts = flight_->facts();
  Headers headers;
  add_request_id(*caller_.api, request_id_, headers);
  headers.set("x-lanemq-job", facts.id);
  if (!facts.lane.empty()) headers.set("x-lanemq-lane", facts.lane);
  // Without the broker's word the job counts as waiting since the request came.
  const std::string queued = ms_text(facts.queued ? *facts.queued : gateway_.loop.now() - arrived_);
  headers.set("x-lanemq-queue-ms", queued);
  std::string timing = "queue;dur=" + queued + ", ";
  if (facts.ran) timing += "upstream;dur=" + ms_text(*facts.ran) + ", ";
  headers.set("server-timing", timing + "total;dur=" + ms_text(gateway_.loop.now() - arrived_));
  headers.set("x-lanemq-attempts", std::to_string(facts.attempts));
  if (!facts.served_by.empty()) headers.set("x-lanemq-served-by", facts.served_by);
  if (facts.replayed) headers.set("idempotency-replayed", "true");
  limits_.describe(caller_, gateway_.loop.now(), headers);
  return headers;
}

/// Says what the access log asks for; `usage`: as far as the upstream told it.
void Relay::tell(const std::optional<wire::Usage>& usage) {
  const JobFacts& facts = flight_->facts();
  AnswerFacts told{.lane = facts.lane,
                   .model = flight_->plan().steps.front().model,
                   .waited = facts.queued,
                   .ran = facts.ran,
                   .traceparent = traceparent_};
  if (usage) {
    told.input_tokens = usage->input_tokens;
    told.output_tokens = usage->output_tokens;
  }
  responder_->tell(std::move(told));
}

void Relay::begin() {
  begun_ = true;
  Headers head = headers();
  head.set("content-type", "text/event-stream; charset=utf-8");
  head.set("cache-control", "no-cache");
  head.set("x-accel-buffering", "no");
  responder_->begin(200, std::move(head));
  watch_silence();
}

void Relay::commit_after(milliseconds time) {
  const milliseconds look_time = std::min(kLookTime, time / 2);
  timer_->after(time - look_time, [this, look_time] {
    timer_->after(look_time, [this] { commit(); });
    flight_->look();
  });
}

/// Whether the stream may soon be refused as nobody serves it, which its status is then to say.
bool Relay::may_be_refused() const {
  const milliseconds wait = std::min(gateway_.settings.no_worker_wait, kHeldBackMax);
  return !flight_->facts().unserved.empty() && wait > milliseconds(0) &&
         gateway_.loop.now() - arrived_ < wait + kHeldBackBeyond;
}

void Relay::commit() {
  if (begun_ || over_) return;
  if (may_be_refused()) return commit_after(kHeldBackLook);
  written_at_ = gateway_.loop.now();
  begin();
  ++gateway_.metrics.keep_alives;
  responder_->write(Blob::borrow(caller_.api->keep_alive));
}

/// One timer checks whether anything was written since; pieces do not move it.
void Relay::watch_silence() {
  const auto silent = std::chrono::duration_cast<milliseconds>(gateway_.loop.now() - written_at_);
  milliseconds left = gateway_.settings.keep_alive - silent;
  if (left <= milliseconds(0)) {
    ++gateway_.metrics.keep_alives;
    written_at_ = gateway_.loop.now();
    responder_->write(Blob::borrow(caller_.api->keep_alive));
    left = gateway_.settings.keep_alive;
  }
  timer_->after(left, [this] { watch_silence(); });
}

void Relay::on_chunk(std::int64_t seq, const Blob& bytes) {
  if (over_) return;
  written_at_ = gateway_.loop.now();
  if (!begun_) begin();
  responder_->write(bytes, [weak = weak_from_this(), seq] {
    const std::shared_ptr<Relay> self = weak.lock();
    if (self && !self->over_) self->flight_->taken(*self, seq);
  });
}

void Relay::on_done(const JobDone& done) {
  if (over_) return;
  tell(done.usage);
  if (!flight_->plan().stream) {
    Headers head = headers();
    head.set("content-type", "application/json");
    // Of a GET: a cache that others share might keep it.
    const JobPlan& plan = flight_->plan();
    if (plan.repeatable || !response_of(plan.path).empty()) head.set("cache-control", "no-store");
    responder_->answer({.status = 200,
                        .headers = std::move(head),
                        .body = flight_->plan().edit ? flight_->plan().edit(done.body) : done.body.owned()});
    return over();
  }
  written_at_ = gateway_.loop.now();
  if (done.chunks == 0 && done.body.bytes().starts_with('{')) return on_whole(done.body);
  if (!begun_) begin();
  if (!done.body.empty()) responder_->write(done.body);
  responder_->end();
  over();
}

/// The upstream answered a stream's request in one piece.
void Relay::on_whole(const Blob& body) {
  const std::optional<std::string> events = caller_.api->events_of_whole(flight_->plan().path, body.bytes());
  if (!events && !begun_) {
    Headers head = headers();
    head.set("content-type", "application/json");
    responder_->answer({.status = 200, .headers = std::move(head), .body = body.owned()});
    return over();
  }
  if (!begun_) begin();
  const ApiError error{.name = "upstream_failed",
                       .message = "the upstream answered in one piece that is no stream",
                       .upstream_status = 200,
                       .upstream_body = body};
  responder_->write(blob_of(events ? *events : error_event(*caller_.api, error, request_id_)));
  responder_->end();
  over();
}

void Relay::on_failed(const ClientError& error) {
  if (over_) return;
  tell({});
  const bool is_tenant = gateway_.settings.auth == Auth::keys;
  ApiError api_error = api_error_of(is_tenant ? for_tenant(error) : error, flight_->facts().lane);
  // If the broker said nothing in all that time the broker is the reason, and not the queue.
  const auto heard = gateway_.broker.counters().heard;
  const bool is_silent = error.local && error.code == "deadline" && !(heard && *heard >= arrived_);
  if (is_silent || (error.code == "deadline" && flight_->plan().repeatable)) api_error.name = "unavailable";
  if (api_error.name == "unavailable") api_error.retry_after = kUnavailableRetryAfter;
  if (begun_) {
    responder_->write(blob_of(error_event(*caller_.api, api_error, request_id_)));
    responder_->end();
    return over();
  }
  HttpAnswer answer = error_answer(*caller_.api, api_error, request_id_);
  for (const auto& [name, value] : headers())
    answer.headers.set(name, value);
  responder_->answer(std::move(answer));
  over();
}

void Relay::gone() {
  if (over_) return;
  const std::shared_ptr<Relay> self = shared_from_this();
  tell({});
  flight_->leave(*this);
  over();
}

void Relay::over() {
  over_ = true;
  timer_.reset();
  limits_.give_back(caller_);
  if (flight_ && flight_->plan().stream) --gateway_.metrics.streams_open;
  gateway_.metrics.took(gateway_.loop.now() - arrived_);
}

}  // namespace lanemq::gateway
