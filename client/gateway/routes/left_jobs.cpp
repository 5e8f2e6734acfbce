// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/routes/left_jobs.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "client/gateway/apis/asked_again.hpp"
#include "client/gateway/apis/body_fields.hpp"
#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/calls/tenant_words.hpp"
#include "client/gateway/calls/upstream_meta.hpp"
#include "client/gateway/door/lane_choice.hpp"
#include "client/gateway/door/models.hpp"
#include "common/http/server/access/secret.hpp"
#include "common/ids/ulid.hpp"
#include "common/json/cursor.hpp"
#include "common/json/members.hpp"

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;
using Kind = JsonMember::Kind;

constexpr std::size_t kJobIdBytesMax = 64;  ///< of ids that callers choose
constexpr std::size_t kOwnerDigits = 16;
/// Longer bodies and results are read beside the loop: ten milliseconds per megabyte.
constexpr std::size_t kLeftAsideFrom = std::size_t{64} * 1024;
constexpr milliseconds kFetchWaitMax{60'000};  ///< the broker's bound
/// The broker reports a job's end at once, but not other changes of its state. So it is asked again after an
/// eighth of the time without a change, within these bounds.
constexpr milliseconds kLookLeast{50};
constexpr milliseconds kLookMost{1'000};  ///< for a waiting job; for a running one half a keep-alive

/// A path whose requests may be left; the route is null: they may not.
struct Endpoint {
  const Api* api = nullptr;
  const ApiRoute* route = nullptr;
};

Endpoint endpoint_of(std::string_view path) {
  for (const Api* api : kApis)
    for (const ApiRoute& route : api->routes)
      if (route.may_be_left && path == route.pattern) return {api, &route};
  return {};
}

std::string all_endpoints() {
  std::string all;
  for (const Api* api : kApis)
    for (const ApiRoute& route : api->routes)
      if (route.may_be_left) all += (all.empty() ? "" : ", ") + std::string(route.pattern);
  return all;
}

/// Whether an id can stand in a path unescaped. HTTP clients resolve `.` and `..` before they send a path.
bool is_job_id(std::string_view text) {
  if (text == "." || text == "..") return false;
  return !text.empty() && text.size() <= kJobIdBytesMax && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

/// Whether a service may be called so: what a log and a table show as it is.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != ' ' && name.back() != ' ' && printable(name, name.size()) == name;
}

ApiError no_such_job(std::string_view id, std::string name = "not_found") {
  return {.name = std::move(name),
          .message = "there is no job \"" + printable(id, 64) + "\", or not any more"};
}

/// Whether the broker has no such job any more. Its message names the job by another id than the caller's.
bool is_no_job(const ClientError& error) {
  const std::optional<ErrorCode> code = error.known_code();
  return code == ErrorCode::not_found || code == ErrorCode::gone;
}

/// The job's id at the broker.
std::string broker_id(const Caller& caller, std::string_view id) {
  return own_job_ids(caller.name) + std::string(id);
}

/// The members of a posted job.
struct Posted {
  JsonMember members[10] = {{.key = "id"},          {.key = "service"},  {.key = "lane"},
                            {.key = "model"},       {.key = "body"},     {.key = "request"},
                            {.key = "timeout_ms"},  {.key = "delay_ms"}, {.key = "retain_ms"},
                            {.key = "attempts_max"}};

  const JsonMember& operator[](std::string_view key) const {
    return *std::find_if(std::begin(members), std::end(members),
                         [&](const JsonMember& m) { return m.key == key; });
  }
};

/// The error of an unknown member, which would have no effect. `place`: in front of its name.
std::optional<ApiError> unknown_member(std::string_view object, std::span<const JsonMember> known,
                                       const std::string& place = {}) {
  JsonCursor cursor(object);
  if (!cursor.enter_object()) return std::nullopt;
  for (std::string_view name; cursor.member(name); cursor.value()) {
    if (std::any_of(known.begin(), known.end(),
                    [&](const JsonMember& member) { return json_says(name, member.key); }))
      continue;
    std::string all;
    for (const JsonMember& member : known)
      all += (all.empty() ? "" : ", ") + std::string(member.key);
    const std::string shown = place + printable(name, 64);
    return bad_request("`" + shown + "` is not known here; there are " + all, shown);
  }
  return std::nullopt;
}

tl::expected<std::optional<milliseconds>, ApiError> duration_of(const Posted& posted, std::string_view key) {
  const JsonMember& member = posted[key];
  if (!member.present() || member.kind == Kind::null) return std::nullopt;
  if (member.kind != Kind::number || member.number > static_cast<std::uint64_t>(limits::duration_ms_max))
    return wrong("`" + std::string(key) + "` is a number of milliseconds up to " +
                     std::to_string(limits::duration_ms_max),
                 std::string(key));
  return milliseconds(static_cast<std::int64_t>(member.number));
}

/// Reads what the body refers to, where it may refer to something; or returns why it may not.
std::optional<ApiError> take_references(const Caller& caller, const Endpoint& endpoint, std::string_view body,
                                        LeftJob& job) {
  if (caller.is_bound_to_its_own()) endpoint.api->add_references(endpoint.route->pattern, body, job.stored);
  if (!endpoint.route->names_stored) return std::nullopt;
  auto fields = endpoint.api->read_call(
      {.method = "POST", .path = endpoint.route->pattern, .body = Blob::borrow(body)}, endpoint.route->takes);
  if (!fields) return bad_request(fields.error().message, "request.body." + fields.error().param);
  job.stored = std::move(fields->stored);
  for (StoredReference& stored : job.stored)
    stored.param.insert(0, "request.body.");
  if (fields->background)
    return bad_request("a job that is left here is in the background already; leave `background` out",
                       "request.body.background");
  return fields->in_conversation ? why_no_conversation(caller, "request.body.conversation") : std::nullopt;
}

/// Reads an API's request: its service, model, meta and body.
tl::expected<std::string_view, ApiError> read_request(const Settings& settings, const Caller& caller,
                                                      const HttpRequest& http, std::string_view text,
                                                      LeftJob& job) {
  JsonMember picked[] = {{.key = "endpoint"}, {.key = "body"}};
  const JsonLook look = look_into_json(text, picked, "body");
  const auto& [path, body] = picked;
  if (auto unknown = unknown_member(text, picked, "request.")) return tl::unexpected(*std::move(unknown));
  const Endpoint endpoint = path.kind == Kind::text ? endpoint_of(path.text) : Endpoint{};
  if (endpoint.route == nullptr)
    return wrong("`request.endpoint` must be one of " + all_endpoints(), "request.endpoint");
  if (body.kind != Kind::object) return wrong("`request.body` is missing: an object", "request.body");
  if (!look.ambiguous.empty())
    return wrong("`request.body` says `" + printable(look.ambiguous, 64) +
                     "` twice, or in another case: readers do not agree on what counts",
                 "request.body." + printable(look.ambiguous, 64));
  if (look.model.empty()) return wrong("`request.body.model` is missing", "request.body.model");
  const std::string_view bytes = member_bytes(text, "body");
  if (member_bytes(bytes, "stream") == "true")
    return wrong("a job that is left here cannot be streamed", "request.body.stream");

  const ModelAndLane named = split_model(look.model, settings.lanes);
  if (auto error = why_no_lane_of_model(look.model, settings.lanes, settings.models, "request.body.model"))
    return tl::unexpected(*std::move(error));
  RouteStep step{.service = settings.services[*endpoint.api], .model = std::string(named.model)};
  if (!caller.may_use_model(step.model))
    return tl::unexpected(forbidden_model(step.model, "request.body.model"));
  if (std::optional<ApiError> error = why_not_named_models(caller, bytes, "request.body."))
    return tl::unexpected(*std::move(error));
  const ModelSettings* const route = find_route(settings.models, step.model);
  const bool has_route = route != nullptr && route->api == endpoint.api;
  if (has_route) step.model = route->steps.front().model;
  if (has_route && !route->steps.front().service.empty())
    step.service = route->steps.front().service;
  else if (!caller.may_use_service(step.service))
    return tl::unexpected(forbidden_service(step.service));
  const bool forwards_tier = caller.forwards_service_tier(settings.forward_service_tier);
  std::vector<JsonEdit> edits;
  if (!forwards_tier) edits.push_back({.key = "service_tier"});
  const std::string model_text = json_text(step.model);
  if (step.model != look.model) edits.push_back({.key = "model", .value = model_text});

  HttpRequest call{.method = "POST", .path = endpoint.route->pattern, .headers = http.headers};
  job.request.service = step.service;
  job.request.model = step.model;
  job.request.meta =
      upstream_meta(*endpoint.api, call, forwards_tier ? ServiceTier::goes_on : ServiceTier::stays);
  job.request.cost = stated_cost(call.method, call.path);
  job.body = edited_object(bytes, edits);
  job.tokens_bytes = bytes_of_request(bytes);
  if (std::optional<ApiError> error = take_references(caller, endpoint, bytes, job))
    return tl::unexpected(*std::move(error));
  return named.lane.empty() ? std::string_view()
                            : *std::find(settings.lanes.begin(), settings.lanes.end(), named.lane);
}

std::string head_of(std::string_view id, std::string_view state) {
  return "{\"id\":" + json_text(id) + ",\"object\":\"job\",\"state\":" + json_text(state);
}

std::string member(std::string_view key, std::int64_t value) {
  return ",\"" + std::string(key) + "\":" + std::to_string(value);
}
std::string member(std::string_view key, std::string_view text) {
  return text.empty() ? std::string() : ",\"" + std::string(key) + "\":" + json_text(text);
}

/// Makes a job's document, beside the loop where that may take long, and calls `then` on the loop's thread.
void with_document(Loop& loop, const std::string& id, const FetchAnswer& answer,
                   std::function<void(std::string document)> then) {
  if (!answer) return then(job_document(id, answer.error()));
  const JobDone* const done = std::get_if<JobDone>(&*answer);
  if (done == nullptr) return then(job_document(id, std::get<JobStatus>(*answer)));
  if (done->body.size() <= kLeftAsideFrom) return then(job_document(id, *done));
  struct Large {
    JobDone done;
    std::string document{};
  };
  auto large = std::make_shared<Large>(Large{*done});
  large->done.body = done->body.owned();
  loop.aside(
      Loop::Side::texts, [large, id] { large->document = job_document(id, large->done); },
      [large, then = std::move(then)] { then(std::move(large->document)); });
}

/// Sends the states of a job as events until it is over.
class JobEvents : public std::enable_shared_from_this<JobEvents> {
 public:
  JobEvents(Gateway& gateway, Caller caller, std::string id, std::string at_broker, ResponderPtr responder,
            std::shared_ptr<const void> place)
      : gateway_(gateway),
        caller_(std::move(caller)),
        place_(std::move(place)),
        id_(std::move(id)),
        at_broker_(std::move(at_broker)),
        responder_(std::move(responder)),
        timer_(gateway.loop.timer()),
        said_at_(gateway.loop.now()),
        since_(said_at_) {}

  /// `first`: the state that is known already.
  void begin(const FetchAnswer& first) { tell(first); }

 private:
  void ask() {
    if (responder_->gone()) return;
    asked_at_ = gateway_.loop.now();
    gateway_.broker.fetch(at_broker_, until_next_look(),
                          [self = shared_from_this()](const FetchAnswer& answer) {
                            const std::optional<FetchAnswer> told = retold(self->gateway_.settings, answer);
                            self->tell(told ? *told : answer);
                          });
  }

  /// How long a fetch waits for the end before it returns the state.
  milliseconds until_next_look() const {
    const auto same = std::chrono::duration_cast<milliseconds>(gateway_.loop.now() - since_);
    const milliseconds most = state_ == "running" ? gateway_.settings.keep_alive / 2 : kLookMost;
    return std::clamp(same / 8, kLookLeast, std::clamp(most, kLookLeast, kFetchWaitMax));
  }

  void tell(const FetchAnswer& answer) {
    if (responder_->gone()) return;
    if (gateway_.draining) return responder_->end();  // who asks again finds the next gateway
    if (!gateway_.access.still_has(caller_))
      return end(error_of({.code = std::string(name_of(ErrorCode::forbidden)),
                           .message = "the key of this call was taken away"}));
    if (!answer) {
      // The broker may be away for a moment while the job goes on.
      if (!is_end_of_job(answer.error()) && answer.error().local) return ask_later();
      if (is_end_of_job(answer.error())) return end(job_document(id_, answer.error()));
      const bool is_unknown = is_no_job(answer.error());
      return end(error_of({.code = answer.error().code,
                           .message = is_unknown ? no_such_job(id_).message : answer.error().message}));
    }
    if (std::holds_alternative<JobDone>(*answer))
      return with_document(gateway_.loop, id_, answer,
                           [self = shared_from_this()](const std::string& document) { self->end(document); });
    const auto& status = std::get<JobStatus>(*answer);
    std::string document = job_document(id_, status);
    const auto now = gateway_.loop.now();
    if (std::exchange(state_, status.state) != status.state) since_ = now;
    if (document != said_) {
      responder_->write(blob_of("event: state\ndata: " + document + "\n\n"));
      said_ = std::move(document);
      said_at_ = now;
    } else if (now - said_at_ >= gateway_.settings.keep_alive) {
      responder_->write(blob_of(": ka\n\n"));
      said_at_ = now;
    }
    if (now - asked_at_ < kLookLeast) return ask_later();  // bounds the rate, however fast the broker answers
    ask();
  }
  void ask_later() {
    timer_->after(kLookLeast, [self = shared_from_this()] { self->ask(); });
  }
  std::string error_of(const ClientError& error) const {
    return head_of(id_, "unknown") + ",\"error\":{\"code\":" + json_text(error.code) +
           ",\"message\":" + json_text(error.message) + "}}";
  }
  void end(const std::string& document) {
    responder_->write(blob_of("event: done\ndata: " + document + "\n\n"));
    responder_->end();
  }

  Gateway& gateway_;
  const Caller caller_;
  const std::shared_ptr<const void> place_;
  const std::string id_, at_broker_;
  const ResponderPtr responder_;
  const std::unique_ptr<Loop::Timer> timer_;
  std::string said_, state_;
  Loop::TimePoint said_at_, since_, asked_at_{};  ///< since_: of the state
};

/// A callback for the client that keeps what the answer needs, but not the request's body.
template <class Value, class Then>
auto answering(const Settings& settings, LeftWaiting& all, HttpRequest request, ResponderPtr responder,
               Then then) {
  request.body = {};
  return [&settings, waiting = all.add({std::move(request), std::move(responder)}),
          then = std::move(then)](const Value& value) {
    const std::optional<Value> told = retold(settings, value);
    then(*waiting, told ? *told : value);
  };
}

void answer_with(const LeftWaiting::One& waiting, int status, std::string document) {
  HttpAnswer answer = json_answer(status, std::move(document));
  add_request_id(kOpenai, request_id_of(waiting.request), answer.headers);
  waiting.responder->answer(std::move(answer));
}

void refuse(const LeftWaiting::One& waiting, const std::string& id, const ClientError& error) {
  if (is_no_job(error))
    return waiting.responder->answer(error_for(waiting.request, no_such_job(id, error.code)));
  ApiError shown = api_error_of(error, {});
  // The client's own patience is over, and not the job's.
  if (error.local && error.known_code() == ErrorCode::deadline)
    shown = {.name = "unavailable", .message = error.message, .retry_after = kUnavailableRetryAfter};
  waiting.responder->answer(error_for(waiting.request, shown));
}

/// Reads work for a service of one's own; or returns why it may not be.
std::optional<ApiError> take_own_work(const Caller& caller, const Posted& posted, std::string_view text,
                                      LeftJob& job) {
  const std::string& service = posted["service"].text;
  if (service.empty()) return bad_request("`service` is missing: what does the work", "service");
  if (!is_plain_name(service))
    return bad_request(
        "`service` is a name that can be shown: no control characters, and no blank at its ends", "service");
  // Its body is not read, so its models are not known.
  if (caller.has_models())
    return ApiError{.name = "forbidden",
                    .message = "this key may use certain models only: say what is to be done as a `request`",
                    .param = "body"};
  job.request.service = service;
  job.request.model = posted["model"].text;
  job.body = member_bytes(text, "body");
  job.tokens_bytes = job.body.size();
  return std::nullopt;
}

}  // namespace

std::string own_job_ids(std::string_view caller) {
  return sha256_hex(caller).substr(0, kOwnerDigits) + ".";
}

tl::expected<LeftJob, ApiError> read_left_job(const Settings& settings, const Caller& caller,
                                              const HttpRequest& http) {
  const std::string_view text = http.body.bytes();
  Posted posted;
  const JsonLook look = look_into_json(text, posted.members);
  if (!look.valid || !look.is_object)
    return wrong(look.valid ? "the body must be a JSON object" : "the body " + look.problem, {});
  for (const JsonMember& item : posted.members)
    if (item.twice) return wrong("`" + std::string(item.key) + "` stands there twice", std::string(item.key));
  if (auto unknown = unknown_member(text, posted.members)) return tl::unexpected(*std::move(unknown));
  for (const std::string_view key : {"id", "service", "lane", "model"})
    if (posted[key].present() && posted[key].kind != Kind::text && posted[key].kind != Kind::null)
      return wrong("`" + std::string(key) + "` must be a text", std::string(key));
  if (posted["id"].kind == Kind::text && !is_job_id(posted["id"].text))
    return wrong("`id` is 1 to 64 of the characters a-z, A-Z, 0-9, _, - and ., and neither \".\" nor \"..\"",
                 "id");
  if (posted["request"].present() == posted["body"].present())
    return wrong("say either `request`, with an endpoint and a body, or `service` and `body`", "request");

  LeftJob job{.request = {.id = posted["id"].text, .client = caller.client}};
  std::string_view suffix;
  if (const std::string& service = posted["service"].text;
      !service.empty() && !caller.may_use_service(service))
    return tl::unexpected(forbidden_service(service));
  if (posted["request"].present()) {
    const auto lane = read_request(settings, caller, http, member_bytes(text, "request"), job);
    if (!lane) return tl::unexpected(lane.error());
    suffix = *lane;
    if (posted["service"].kind == Kind::text) job.request.service = posted["service"].text;
  } else {
    if (std::optional<ApiError> error = take_own_work(caller, posted, text, job))
      return tl::unexpected(*std::move(error));
  }

  std::string_view named = posted["lane"].text;
  if (named.empty()) named = http.headers.get("x-lanemq-lane");
  auto lane = choose_lane({.header = named, .prefix = http.lane_prefix, .suffix = suffix, .service_tier = {}},
                          caller.lanes(), settings.lanes);
  if (!lane) return tl::unexpected(lane.error());
  job.request.lane = *std::move(lane);
  for (const auto& [key, to] :
       {std::pair("timeout_ms", &job.request.timeout), std::pair("delay_ms", &job.request.delay),
        std::pair("retain_ms", &job.request.retain)}) {
    const auto duration = duration_of(posted, key);
    if (!duration) return tl::unexpected(duration.error());
    *to = *duration;
  }
  if (caller.key != nullptr) {
    if (job.request.delay > caller.key->delay_max)
      return wrong("`delay_ms` is at most " + std::to_string(caller.key->delay_max.count()) +
                       " with this key (delay_max)",
                   "delay_ms");
    if (job.request.retain > caller.key->retain_max)
      return wrong("`retain_ms` is at most " + std::to_string(caller.key->retain_max.count()) +
                       " with this key (retain_max)",
                   "retain_ms");
  }
  if (const JsonMember& attempts = posted["attempts_max"];
      attempts.present() && attempts.kind != Kind::null) {
    if (attempts.kind != Kind::number || attempts.number < 1 ||
        attempts.number > std::uint64_t{limits::attempts_max})
      return wrong("`attempts_max` is a number from 1 to " + std::to_string(limits::attempts_max),
                   "attempts_max");
    job.request.attempts_max = static_cast<int>(attempts.number);
  }
  return job;
}

std::string job_document(std::string_view id, const JobStatus& status) {
  std::string text =
      head_of(id, status.state) + member("lane", status.lane) + member("attempts", status.attempts);
  // A waiting job's number changes each time, without an event.
  if (status.state != "queued" && status.state != "delayed")
    text += member("queued_ms", status.queued.count());
  if (status.position) text += member("position", *status.position);
  if (status.eta) text += member("eta_ms", status.eta->count());
  text += member("blocked_by", status.blocked_by);
  if (status.pct) text += member("pct", std::int64_t{*status.pct});
  text += member("note", status.note);
  if (!status.error_json.empty()) text += ",\"error\":" + as_json_value(status.error_json);
  return text + "}";
}

std::string job_document(std::string_view id, const JobDone& done) {
  std::string text = head_of(id, "succeeded") + member("lane", done.lane) +
                     member("attempts", done.attempts) + member("queued_ms", done.queued.count()) +
                     member("ran_ms", done.ran.count());
  if (done.usage)
    text += ",\"usage\":{\"input_tokens\":" + std::to_string(done.usage->input_tokens.value_or(0)) +
            ",\"output_tokens\":" + std::to_string(done.usage->output_tokens.value_or(0)) + "}";
  return text + ",\"result\":" + as_json_value(done.body.bytes()) + "}";
}

std::string job_document(std::string_view id, const ClientError& error) {
  const std::optional<ErrorCode> code = error.known_code();
  const std::string_view state = code == ErrorCode::cancelled  ? "cancelled"
                                 : code == ErrorCode::deadline ? "expired"
                                                               : "failed";
  std::string text = head_of(id, state) + member("attempts", error.attempts) +
                     member("queued_ms", error.queued.count()) +
                     ",\"error\":{\"code\":" + json_text(error.code) + member("message", error.message);
  if (error.upstream_status) text += member("upstream_status", *error.upstream_status);
  if (!error.body.empty()) text += ",\"body\":" + as_json_value(error.body.bytes());
  return text + "}}";
}

std::shared_ptr<const LeftWaiting::One> LeftWaiting::add(One one) {
  if (waiting_.size() >= sweep_at_) {
    std::erase_if(waiting_, [](const auto& item) { return item.expired(); });
    sweep_at_ = std::max(kSweepLeast, 2 * waiting_.size());
  }
  auto held = std::make_shared<const One>(std::move(one));
  waiting_.push_back(held);
  return held;
}

/// Answers that come from the broker later are dropped.
void LeftWaiting::end_all() {
  for (const std::weak_ptr<const One>& item : std::exchange(waiting_, {}))
    if (const std::shared_ptr<const One> one = item.lock())
      one->responder->answer(error_for(one->request, unavailable()));
}

void LeftWaiting::end_refused(Gateway& gateway) {
  for (const std::weak_ptr<const One>& item : waiting_)
    if (const std::shared_ptr<const One> one = item.lock())
      if (const tl::expected<Caller, ApiError> caller = gateway.access.caller_of(one->request); !caller)
        one->responder->answer(refusal(gateway, one->request, caller.error()));
}

void LeftJobRoutes::add_to(Router& router) {
  const auto add = [&](const char* method, const char* pattern,
                       void (LeftJobRoutes::*serve)(const HttpRequest&, const ResponderPtr&)) {
    router.add(method, pattern, [this, serve](const HttpRequest& request, const ResponderPtr& responder) {
      (this->*serve)(request, responder);
    });
  };
  const Settings& settings = gateway_.settings;
  router.add(Route{.method = "POST",
                   .pattern = "/v1/jobs",
                   .handler = [this](const HttpRequest& request,
                                     const ResponderPtr& responder) { leave(request, responder); },
                   .body_bytes_max = std::min(settings.job_body_bytes_max, settings.server.body_bytes_max),
                   .body_bound = settings.job_body_bytes_max <= settings.server.body_bytes_max
                                     ? "job_body_bytes_max"
                                     : "body_bytes_max",
                   .admit = [this](const HttpRequest& head) { return admit(head); }});
  add("GET", "/v1/jobs/{id}", &LeftJobRoutes::fetch);
  add("GET", "/v1/jobs/{id}/events", &LeftJobRoutes::events);
  add("DELETE", "/v1/jobs/{id}", &LeftJobRoutes::cancel);
}

tl::expected<std::string, HttpAnswer> LeftJobRoutes::admit(const HttpRequest& head) {
  const tl::expected<Caller, ApiError> caller = gateway_.access.caller_of(head);
  if (!caller) return tl::unexpected(refusal(gateway_, head, caller.error()));
  if (const std::optional<ApiError> error = why_not_forwarded(head.headers))
    return tl::unexpected(refusal(gateway_, head, *error));
  if (gateway_.draining) return tl::unexpected(refusal(gateway_, head, draining()));
  if (gateway_.broker_is_away()) return tl::unexpected(refusal(gateway_, head, unavailable()));
  if (const std::optional<ApiError> over = limits_.why_not(*caller, gateway_.loop.now())) {
    ++gateway_.metrics.caller_limits_hit;
    return tl::unexpected(refusal(gateway_, head, *over));
  }
  return caller->name;
}

void LeftJobRoutes::leave(const HttpRequest& request, const ResponderPtr& responder) {
  const std::optional<Caller> caller = admitted(gateway_, request, *responder);
  if (!caller) return;
  if (gateway_.broker_is_away()) return responder->answer(refusal(gateway_, request, unavailable()));
  if (gateway_.draining) return responder->answer(refusal(gateway_, request, draining()));
  if (request.body.size() <= kLeftAsideFrom)
    return leave_job(request, responder, *caller, read_left_job(gateway_.settings, *caller, request));
  struct Large {
    HttpRequest request;
    Caller caller;
    Settings settings;  ///< a copy: a reload changes the loop's
    tl::expected<LeftJob, ApiError> job{};
  };
  auto large = std::make_shared<Large>(Large{request, *caller, gateway_.settings});
  gateway_.loop.aside(
      Loop::Side::texts,
      [large] { large->job = read_left_job(large->settings, large->caller, large->request); },
      [this, large, responder] {
        leave_job(large->request, responder, large->caller, std::move(large->job));
      });
}

void LeftJobRoutes::leave_job(const HttpRequest& request, const ResponderPtr& responder, const Caller& caller,
                              tl::expected<LeftJob, ApiError> job) {
  if (!job) return responder->answer(refusal(gateway_, request, job.error()));
  auto asked = read_asked_again(request);
  if (!asked) return responder->answer(refusal(gateway_, request, asked.error()));
  job->asked = std::move(asked->idempotency_key);
  if (const std::string shard = gateway_.away_shard(job->request.service, job->request.client);
      !shard.empty())
    return responder->answer(refusal(gateway_, request, unavailable(shard)));
  for (const StoredReference& stored : job->stored)
    if (const std::optional<ApiError> error = why_not_stored(gateway_, caller, stored))
      return responder->answer(refusal(gateway_, request, *error));
  if (watch_.full(caller))
    return responder->answer(
        refusal(gateway_, request,
                {.name = "gateway_full",
                 .message = "the gateway follows " + std::to_string(LeftWatch::kFollowedMax) +
                            " jobs of keys with limits at most, and this key has its share; try again later",
                 .retry_after = kFullRetryAfter}));
  const tl::expected<bool, ApiError> taken = limits_.try_take(caller, gateway_.loop.now(), 0);
  if (!taken) {
    ++gateway_.metrics.caller_limits_hit;
    return responder->answer(refusal(gateway_, request, taken.error()));
  }
  if (*taken) return leave_counted(request, responder, caller, *std::move(job));
  const auto waits = std::make_shared<std::pair<HttpRequest, LeftJob>>(request, *std::move(job));
  shares_->wait(caller, 0, [this, waits, responder, caller](const std::optional<ApiError>& over) {
    if (!over) return leave_counted(waits->first, responder, caller, std::move(waits->second));
    if (over->name == kCallerLimit) ++gateway_.metrics.caller_limits_hit;
    responder->answer(refusal(gateway_, waits->first, *over));
  });
}

/// Leaves a job whose request was counted in.
void LeftJobRoutes::leave_counted(const HttpRequest& request, const ResponderPtr& responder,
                                  const Caller& caller, LeftJob job) {
  const bool counts = is_followed(caller);
  if (!counts) limits_.give_back(caller);
  const std::int64_t tokens =
      counts ? limits_.spend_estimate(caller, job.tokens_bytes, gateway_.loop.now()) : 0;
  const std::string id = !job.request.id.empty() ? job.request.id
                         : !job.asked.empty()    ? "job_" + name_of_asked(caller.name, job.asked)
                                                 : "job_" + new_ulid();
  job.request.id = broker_id(caller, id);
  if (const std::optional<trace::Context> at = gateway_.traces.begin(request.headers)) {
    job.request.trace = trace::write_field(*at);
    responder->tell({.lane = job.request.lane, .model = job.request.model, .traceparent = at->parent_text()});
  }
  const Blob body = blob_of(std::move(job.body));
  const bool delayed = job.request.delay.value_or(milliseconds(0)) > milliseconds(0);
  gateway_.broker.leave(
      std::move(job.request), body,
      answering<Reply<JobAccepted>>(
          gateway_.settings, waiting_, request, responder,
          [this, id, delayed, counts, tokens, who = caller](const LeftWaiting::One& waiting,
                                                            const Reply<JobAccepted>& accepted) {
            if (counts && accepted && !accepted->duplicate) {
              watch_.follow(who, broker_id(who, id), tokens);
            } else if (counts) {
              limits_.give_back(who);
              limits_.spend_tokens(who, -tokens, gateway_.loop.now());
            }
            if (!accepted) return refuse(waiting, id, accepted.error());
            answer_with(waiting, 202,
                        head_of(id, delayed ? "delayed" : "queued") + member("lane", accepted->lane) +
                            member("position", accepted->position) +
                            ",\"durable\":" + (accepted->durable ? "true" : "false") +
                            ",\"duplicate\":" + (accepted->duplicate ? "true" : "false") + "}");
          }));
}

void LeftJobRoutes::fetch(const HttpRequest& request, const ResponderPtr& responder) {
  const std::optional<Caller> caller = admitted(gateway_, request, *responder);
  if (!caller) return;
  if (gateway_.broker_is_away()) return responder->answer(refusal(gateway_, request, unavailable()));
  milliseconds wait{0};
  if (const std::string text = request.query_param("wait_ms"); !text.empty()) {
    std::int64_t ms = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
    if (error != std::errc() || end != text.data() + text.size() || ms < 0 || ms > kFetchWaitMax.count())
      return responder->answer(
          refusal(gateway_, request, bad_request("`wait_ms` is a number from 0 to 60000", "wait_ms")));
    wait = milliseconds(ms);
  }
  const std::string& id = request.param("id");
  if (!is_job_id(id)) return responder->answer(refusal(gateway_, request, no_such_job(id)));
  gateway_.broker.fetch(
      broker_id(*caller, id), wait,
      answering<FetchAnswer>(gateway_.settings, waiting_, request, responder,
                             [this, id](const LeftWaiting::One& waiting, const FetchAnswer& answer) {
                               if (!answer && !is_end_of_job(answer.error()))
                                 return refuse(waiting, id, answer.error());
                               with_document(gateway_.loop, id, answer, [waiting](std::string document) {
                                 answer_with(waiting, 200, std::move(document));
                               });
                             }));
}

/// A place for a stream of events, as long as it is held.
std::shared_ptr<const void> LeftJobRoutes::place_of_events(const std::string& caller) {
  event_streams_->take(caller);
  return {event_streams_.get(),
          [streams = event_streams_, caller](const void*) { streams->give_back(caller); }};
}

void LeftJobRoutes::events(const HttpRequest& request, const ResponderPtr& responder) {
  const std::optional<Caller> caller = admitted(gateway_, request, *responder);
  if (!caller) return;
  if (gateway_.broker_is_away()) return responder->answer(refusal(gateway_, request, unavailable()));
  const std::string& id = request.param("id");
  if (!is_job_id(id)) return responder->answer(refusal(gateway_, request, no_such_job(id)));
  if (!event_streams_->may_take(caller->name))
    return responder->answer(
        refusal(gateway_, request,
                {.name = "gateway_full",
                 .message = "the gateway follows " + std::to_string(kEventStreamsMax) +
                            " jobs by events at most, and this caller has its share; end some, or ask for "
                            "jobs with wait_ms",
                 .retry_after = kFullRetryAfter}));
  const std::shared_ptr<const void> place = place_of_events(caller->name);
  const std::string at_broker = broker_id(*caller, id);
  gateway_.broker.fetch(
      at_broker, milliseconds(0),
      answering<FetchAnswer>(
          gateway_.settings, waiting_, request, responder,
          [this, id, at_broker, who = *caller, place](const LeftWaiting::One& waiting,
                                                      const FetchAnswer& first) {
            if (!first && !is_end_of_job(first.error())) return refuse(waiting, id, first.error());
            Headers headers{{"content-type", "text/event-stream"},
                            {"cache-control", "no-cache"},
                            {"x-accel-buffering", "no"}};
            add_request_id(kOpenai, request_id_of(waiting.request), headers);
            waiting.responder->begin(200, std::move(headers));
            std::make_shared<JobEvents>(gateway_, who, id, at_broker, waiting.responder, place)->begin(first);
          }));
}

void LeftJobRoutes::cancel(const HttpRequest& request, const ResponderPtr& responder) {
  const std::optional<Caller> caller = admitted(gateway_, request, *responder);
  if (!caller) return;
  if (gateway_.broker_is_away()) return responder->answer(refusal(gateway_, request, unavailable()));
  const std::string& id = request.param("id");
  if (!is_job_id(id)) return responder->answer(refusal(gateway_, request, no_such_job(id)));
  gateway_.broker.cancel(
      broker_id(*caller, id),
      answering<Reply<JobStatus>>(gateway_.settings, waiting_, request, responder,
                                  [id](const LeftWaiting::One& waiting, const Reply<JobStatus>& status) {
                                    if (!status) return refuse(waiting, id, status.error());
                                    if (status->state == "unknown")
                                      return waiting.responder->answer(
                                          error_for(waiting.request, no_such_job(id)));
                                    answer_with(waiting, 200, job_document(id, *status));
                                  }));
}

}  // namespace lanemq::gateway
