// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/routes/job_routes.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "client/gateway/apis/asked_again.hpp"
#include "client/gateway/apis/body_fields.hpp"
#include "client/gateway/calls/left_watch.hpp"
#include "client/gateway/calls/relay.hpp"
#include "client/gateway/calls/upstream_meta.hpp"
#include "client/gateway/door/lane_choice.hpp"
#include "common/json/cursor.hpp"
#include "common/json/named.hpp"
#include "common/url/climbing_path.hpp"

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;

/// Longer bodies are read beside the loop: a millisecond per megabyte.
constexpr std::size_t kReadAsideFrom = std::size_t{1} << 20;
constexpr std::size_t kForwardedBytesMax =
    std::size_t{4} * 1024;  ///< of a path, or of a header that is passed on
/// The answer must come before an SDK's own timeout, or the SDK would ask again: earlier by this part of its
/// timeout, at most a second.
constexpr int kSdkMarginPart = 10;
constexpr milliseconds kSdkMarginMax{1'000}, kSdkCutBelow{10'000};
/// Whose value Node's SDKs cut to whole seconds.
constexpr std::string_view kCutTimeout = "x-stainless-timeout";
/// Beyond it an SDK whose timeout was cut has given up, and has come back by its next try, half a second
/// later.
constexpr milliseconds kSdkComesBack{1'250};
/// A client that asks for the models is starting up or shows a list: it does not wait for a lane's whole
/// timeout.
constexpr milliseconds kModelsWaitMax{10'000};

constexpr std::string_view kResponses = "/v1/responses";

std::optional<double> seconds_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 1e7)
    return std::nullopt;
  return value;
}

std::vector<RouteStep> steps_of(const ModelSettings* route, const std::string& model,
                                const std::string& service) {
  if (!route) return {{.service = service, .model = model}};
  std::vector<RouteStep> steps = route->steps;
  for (RouteStep& step : steps)
    if (step.service.empty()) step.service = service;
  return steps;
}

ApiError no_such_model(std::string_view id) {
  return {.name = "model_not_found",
          .message = "there is no model \"" + printable(id) + "\" here",
          .param = "model"};
}

/// An upstream's list of models without those that the caller may not use; anything else unchanged.
std::string allowed_models(const Caller& caller, std::string_view list) {
  if (!look_into_json(list, {}).valid) return std::string(list);
  const Api& api = *caller.api;
  std::string kept;
  JsonElements models(member_bytes(list, api.models_member));
  for (std::string_view model = models.next(); !model.empty(); model = models.next())
    if (caller.may_use_model(unquoted_json(member_bytes(model, api.model_id_member)).value_or("")))
      kept.append(kept.empty() ? "" : ",").append(model);
  kept = "[" + kept + "]";
  const JsonEdit edits[] = {{.key = api.models_member, .value = kept}};
  return edited_object(list, edits);
}

/// Why path or headers cannot go on to the upstream.
std::optional<ApiError> why_not_path(const HttpRequest& request) {
  if (std::optional<ApiError> error = why_not_forwarded(request.headers)) return error;
  if (path_climbs(request.path)) return bad_request("the path must not contain . or .. as a name");
  if (request.path.size() + request.query.size() > kForwardedBytesMax)
    return bad_request("the path has over " + std::to_string(kForwardedBytesMax) + " bytes");
  return std::nullopt;
}

/// Why a caller may not use the stored responses that a request names.
std::optional<ApiError> why_not_references(const Gateway& gateway, const Caller& caller,
                                           const HttpRequest& request, const BodyFields& fields) {
  if (request.path.starts_with(kStoredResponses))
    if (std::optional<ApiError> error =
            why_not_stored(gateway, caller, {.param = "id", .id = request.param("id")}))
      return error;
  std::vector<StoredReference> others;
  if (caller.is_bound_to_its_own()) caller.api->add_references(request.path, request.body.bytes(), others);
  for (const std::vector<StoredReference>* all : {&fields.stored, &std::as_const(others)})
    for (const StoredReference& stored : *all)
      if (std::optional<ApiError> error = why_not_stored(gateway, caller, stored)) return error;
  if (fields.in_conversation && request.path == kResponses)
    if (std::optional<ApiError> error = why_no_conversation(caller, "conversation")) return error;
  return std::nullopt;
}

/// Why a caller may not use a model, or not with this API, or another one that the body names beside it.
std::optional<ApiError> why_not_model(const Caller& caller, const std::string& model,
                                      const ModelSettings* route, const HttpRequest& request) {
  if (!model.empty() && !caller.may_use_model(model)) return forbidden_model(model, "model");
  if (route && route->api != caller.api)
    return bad_request("model \"" + printable(model) + "\" is one of " + std::string(route->api->maker) +
                           "'s API; requests are not translated from one API to the other",
                       "model");
  if (!caller.has_models()) return std::nullopt;
  std::string query = percent_decoded(request.query);
  std::transform(query.begin(), query.end(), query.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view word : {"model", "fallback", "engine", "deployment"})
    if (query.find(word) != std::string::npos) return forbidden_model(request.query, "query");
  return why_not_named_models(caller, request.body.bytes(), "");
}

/// Sets the marks by which a retry of the request finds this plan; or returns why it cannot.
std::optional<ApiError> add_retry_marks(const HttpRequest& request, JobPlan& plan) {
  auto asked = read_asked_again(request);
  if (!asked) return std::move(asked.error());
  plan.idempotency_key = std::move(asked->idempotency_key);
  plan.may_return = asked->sdk_retries;
  plan.is_retry = asked->is_retry;
  if (!plan.idempotency_key.empty() || plan.may_return)
    plan.fingerprint = fingerprint_of(plan.caller.name, request.method + request.path + "?" + request.query,
                                      request.body.bytes());
  return std::nullopt;
}

}  // namespace

tl::expected<CallerPatience, ApiError> patience_of(const Headers& headers) {
  CallerPatience patience;
  if (const std::string* text = headers.find("x-lanemq-timeout-ms")) {
    std::int64_t ms = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), ms);
    if (error != std::errc() || end != text->data() + text->size() || ms < 1 || ms > limits::duration_ms_max)
      return wrong("x-lanemq-timeout-ms must be a whole number 1.." +
                       std::to_string(limits::duration_ms_max) + ", not \"" + printable(*text, 64) + '"',
                   "x-lanemq-timeout-ms");
    patience.asked = milliseconds(ms);
  }
  for (const std::string_view name : {std::string_view("x-stainless-read-timeout"), kCutTimeout}) {
    const std::string* text = headers.find(name);
    const std::optional<double> seconds = text ? seconds_of(*text) : std::nullopt;
    if (!seconds) continue;
    const milliseconds said(std::max<std::int64_t>(static_cast<std::int64_t>(*seconds * 1000), 1));
    // Node's SDKs cut it to whole seconds: "1" is anything from 1 to 2 s. So their own timeout comes first,
    // and their next try, which joins the call, hears of its end.
    const bool is_cut = name == kCutTimeout && said < kSdkCutBelow && said.count() % 1000 == 0;
    patience.sdk = is_cut ? said + kSdkComesBack : said - std::min(said / kSdkMarginPart, kSdkMarginMax);
    break;
  }
  return patience;
}

void JobRoutes::add_to(Router& router) {
  for (const Api* api : kApis)
    for (const ApiRoute& route : api->routes)
      router.add(Route{
          .method = route.method,
          .pattern = route.pattern,
          .handler = [this, api, takes = route.takes](
                         HttpRequest request,
                         const ResponderPtr& responder) { post(std::move(request), responder, *api, takes); },
          .admit = [this, api](const HttpRequest& head) { return admit(head, *api); }});
  std::string_view before;  // the first APIs have the same path
  for (const Api* api : kApis)
    if (std::exchange(before, api->models_path) != api->models_path)
      for (const char* below : {"", "/{id*}"})
        router.add("GET", std::string(api->models_path) + below,
                   [this](HttpRequest request, const ResponderPtr& responder) {
                     models(std::move(request), responder);
                   });
}

HttpAnswer JobRoutes::refusal_of(const Caller& caller, const HttpRequest& request, const ApiError& error) {
  const std::string request_id = request_id_of(request);
  HttpAnswer answer = error_answer(*caller.api, error, request_id);
  add_request_id(*caller.api, request_id, answer.headers);
  limits_.describe(caller, gateway_.loop.now(), answer.headers);
  answer.held_back = note_refusal(gateway_, request, error);
  return answer;
}

/// Decides by the head, so that no body is kept of a caller that may not send it, or not now.
tl::expected<std::string, HttpAnswer> JobRoutes::admit(const HttpRequest& head, const Api& api) {
  tl::expected<Caller, ApiError> caller = gateway_.access.caller_of(head);
  if (!caller) return tl::unexpected(refusal(gateway_, head, caller.error()));
  caller->api = &api;
  if (gateway_.draining) return tl::unexpected(refusal_of(*caller, head, draining()));
  if (gateway_.broker_is_away()) return tl::unexpected(refusal_of(*caller, head, unavailable()));
  std::string_view lane = head.headers.get("x-lanemq-lane");
  if (lane.empty()) lane = head.headers.get("x-priority");
  const auto chosen =
      choose_lane({.header = lane, .prefix = head.lane_prefix, .suffix = {}, .service_tier = {}},
                  caller->lanes(), gateway_.settings.lanes);
  if (!chosen) return tl::unexpected(refusal_of(*caller, head, chosen.error()));
  if (std::optional<ApiError> over = limits_.why_not(*caller, gateway_.loop.now())) {
    ++gateway_.metrics.caller_limits_hit;
    return tl::unexpected(refusal_of(*caller, head, *over));
  }
  return caller->name;
}

void JobRoutes::post(HttpRequest request, const ResponderPtr& responder, const Api& api, Takes takes) {
  tl::expected<Caller, ApiError> caller = gateway_.access.caller_of(request);
  if (!caller) return responder->answer(refusal(gateway_, request, caller.error()));
  if (responder->has_hung_up()) return;
  caller->api = &api;
  if (request.body.size() <= kReadAsideFrom)
    return run(request, responder, plan_of(request, *caller, takes, api.read_call(request, takes)), *caller);
  struct Large {
    HttpRequest request;
    Caller caller;
    tl::expected<BodyFields, ApiError> fields{};
  };
  auto large = std::make_shared<Large>(Large{std::move(request), *std::move(caller)});
  gateway_.loop.aside(
      Loop::Side::texts, [large, &api, takes] { large->fields = api.read_call(large->request, takes); },
      [this, large, responder, takes] {
        if (responder->has_hung_up()) return;
        run(large->request, responder,
            plan_of(large->request, large->caller, takes, std::move(large->fields)), large->caller);
      });
}

namespace {

/// A request that waits for the broker's word, and what is to be done then.
struct Waits {
  HttpRequest request;
  JobPlan plan;
};

}  // namespace

void JobRoutes::run(const HttpRequest& request, const ResponderPtr& responder,
                    tl::expected<JobPlan, ApiError> plan, Caller caller) {
  const auto refuse = [&](const ApiError& error) { responder->answer(refusal_of(caller, request, error)); };
  if (!plan) return refuse(plan.error());
  if (gateway_.draining) return refuse(draining());
  if (gateway_.broker_is_away()) return refuse(unavailable());
  // The first step's shard alone: whether a route goes on is decided by what that one answers.
  if (const std::string shard = gateway_.away_shard(plan->steps.front().service, caller.client);
      !shard.empty())
    return refuse(unavailable(shard));
  if (plan->background_bytes > 0 && flights_.background_full(caller))
    return refuse(
        {.name = "gateway_full",
         .message =
             "the gateway follows " + std::to_string(BackgroundResponses::kKnownMax) +
             " responses in the background at most, and this key has its share; ask for those that are over",
         .retry_after = kFullRetryAfter});
  const std::int64_t spare = flights_.spare_places(*plan);
  const tl::expected<bool, ApiError> taken = limits_.try_take(caller, gateway_.loop.now(), spare);
  if (!taken) {
    ++gateway_.metrics.caller_limits_hit;
    return refuse(taken.error());
  }
  if (*taken) return board(request, responder, *std::move(plan), caller);
  const auto waits = std::make_shared<Waits>(Waits{request, *std::move(plan)});
  shares_->wait(caller, spare, [this, waits, responder, caller](const std::optional<ApiError>& over) {
    if (over) {
      if (over->name == kCallerLimit) ++gateway_.metrics.caller_limits_hit;
      return responder->answer(refusal_of(caller, waits->request, *over));
    }
    if (!responder->has_hung_up() && !gateway_.draining)
      return board(waits->request, responder, std::move(waits->plan), caller);
    limits_.give_back(caller);
    if (gateway_.draining) responder->answer(refusal_of(caller, waits->request, draining()));
  });
}

/// Puts a request that was counted in on its way.
void JobRoutes::board(const HttpRequest& request, const ResponderPtr& responder, JobPlan plan,
                      const Caller& caller) {
  const std::optional<trace::Context> at = gateway_.traces.begin(request.headers);
  if (at) plan.trace = trace::write_field(*at);
  const tl::expected<Flights::Boarded, ApiError> boarded = flights_.board(std::move(plan));
  if (!boarded) {
    limits_.give_back(caller);
    return responder->answer(refusal_of(caller, request, boarded.error()));
  }
  const auto relay = std::make_shared<Relay>(gateway_, limits_, caller, request_id_of(request),
                                             at ? at->parent_text() : "", responder);
  relay->follow(*boarded);
}

tl::expected<JobPlan, ApiError> JobRoutes::plan_of(const HttpRequest& request, const Caller& caller,
                                                   Takes takes,
                                                   tl::expected<BodyFields, ApiError> read) const {
  const Settings& settings = gateway_.settings;
  if (!read) return tl::unexpected(read.error());
  BodyFields fields = *std::move(read);
  if (fields.model.empty() && takes == Takes::body_with_model)
    return wrong("model is missing: the body must name it", "model");
  if (std::optional<ApiError> error = why_not_path(request)) return tl::unexpected(*std::move(error));

  const ModelAndLane named = split_model(fields.model, settings.lanes);
  if (auto error = why_no_lane_of_model(fields.model, settings.lanes, settings.models, "model"))
    return tl::unexpected(*std::move(error));
  const std::string model(named.model);
  if (model.empty() && takes == Takes::body_with_optional_model && caller.key && !caller.key->models.empty())
    return wrong("model is missing: this key may use certain models only, and has to name one of them",
                 "model");
  if (std::optional<ApiError> error = why_not_references(gateway_, caller, request, fields))
    return tl::unexpected(*std::move(error));
  const ModelSettings* route = find_route(settings.models, model);
  if (std::optional<ApiError> error = why_not_model(caller, model, route, request))
    return tl::unexpected(*std::move(error));

  std::string_view header = request.headers.get("x-lanemq-lane");
  if (header.empty()) header = request.headers.get("x-priority");
  tl::expected<std::string, ApiError> lane = choose_lane({.header = header,
                                                          .prefix = request.lane_prefix,
                                                          .suffix = named.lane,
                                                          .service_tier = fields.service_tier},
                                                         caller.lanes(), settings.lanes);
  if (!lane) return tl::unexpected(lane.error());
  const tl::expected<CallerPatience, ApiError> patience = patience_of(request.headers);
  if (!patience) return tl::unexpected(patience.error());

  JobPlan plan{.caller = caller, .lane = std::move(*lane), .path = request.path, .stream = fields.stream};
  const std::string& service = settings.services[*caller.api];
  if (!(route && !route->steps.front().service.empty()) && !caller.may_use_service(service))
    return tl::unexpected(forbidden_service(service));
  plan.steps = steps_of(route, model, service);
  if (route)
    plan.route = std::make_shared<const ModelSettings>(*route);  // a copy, since a reload may replace it
  if (request.headers.find("x-lanemq-no-fallback")) plan.steps.resize(1);
  plan.meta = upstream_meta(
      *caller.api, request,
      !fields.service_tier.empty() && caller.forwards_service_tier(settings.forward_service_tier)
          ? ServiceTier::goes_on
          : ServiceTier::stays);
  plan.cost = stated_cost(request.method, request.path);
  plan.owns_answer = caller.key && request.path.starts_with(kResponses) &&
                     (request.path == kResponses || !caller.key->any_stored_response);
  plan.owns_parts =
      caller.is_bound_to_its_own() && caller.api->keeps_parts(request.path, request.body.bytes());
  if (plan.meta.size() > kForwardedBytesMax + 1024)
    return wrong("the headers that go on to the upstream have over " + std::to_string(kForwardedBytesMax) +
                 " bytes");
  if (takes != Takes::no_body) plan.body = request.body;
  if (fields.background && is_followed(caller))
    plan.background_bytes = bytes_of_request(request.body.bytes());
  plan.timeout = patience->asked;
  if (!plan.timeout && !plan.stream) plan.timeout = patience->sdk;
  if (!plan.timeout && plan.stream) plan.first_content = patience->sdk;

  if (std::optional<ApiError> error = add_retry_marks(request, plan))
    return tl::unexpected(*std::move(error));
  return plan;
}

/// Lists the configured models, or else those of the upstream.
void JobRoutes::models(HttpRequest request, const ResponderPtr& responder) {
  tl::expected<Caller, ApiError> caller = gateway_.access.caller_of(request);
  if (!caller) return responder->answer(refusal(gateway_, request, caller.error()));
  if (responder->has_hung_up()) return;
  if (gateway_.settings.models.empty()) {
    tl::expected<JobPlan, ApiError> plan = plan_of(request, *caller, Takes::no_body, {});
    if (const std::string& id = request.param("id"); !id.empty() && !caller->may_use_model(id))
      plan = tl::unexpected(no_such_model(id));
    if (plan) {
      if (caller->key && !caller->key->models.empty())
        plan->edit = [who = *caller](const Blob& list) { return blob_of(allowed_models(who, list.bytes())); };
      plan->stream = false;
      plan->repeatable = true;
      plan->timeout = std::min(plan->timeout.value_or(kModelsWaitMax), kModelsWaitMax);
    }
    return run(request, responder, std::move(plan), *caller);
  }
  std::vector<std::string> names;
  const std::string& wanted = request.param("id");
  for (const ModelSettings& model : gateway_.settings.models)
    if (model.api == caller->api && caller->may_use_model(model.name) &&
        (wanted.empty() || wanted == model.name))
      names.push_back(model.name);
  if (!wanted.empty() && names.empty())
    return responder->answer(refusal(gateway_, request, no_such_model(wanted)));
  HttpAnswer answer = json_answer(
      200, wanted.empty() ? caller->api->model_list(names) : caller->api->model_document(names.front()));
  add_request_id(*caller->api, request_id_of(request), answer.headers);
  responder->answer(std::move(answer));
}

}  // namespace lanemq::gateway
