// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/line_calls.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/calls/upstream_meta.hpp"
#include "client/gateway/door/access.hpp"
#include "client/gateway/door/lane_choice.hpp"
#include "client/gateway/door/models.hpp"
#include "common/http/server/base/message.hpp"
#include "common/json/members.hpp"

namespace lanemq::gateway {

using std::chrono::milliseconds;

namespace {

/// Null: there is no route, and the upstream knows the model's name.
const ModelSettings* route_of(const Settings& settings, const StoredBatch& batch, std::string_view model) {
  const ModelSettings* const route = find_route(settings.models, split_model(model, settings.lanes).model);
  return route != nullptr && route->api == batch.api ? route : nullptr;
}

}  // namespace

bool line_falls_back(const Settings& settings, const StoredBatch& batch, std::string_view model,
                     std::size_t step, const ClientError& error) {
  const ModelSettings* const route = route_of(settings, batch, model);
  return route != nullptr && step + 1 < route->steps.size() && falls_back(*route, error);
}

std::optional<ClientError> why_not_line(const Settings& settings, const StoredBatch& batch,
                                        std::string_view model, std::string_view body) {
  constexpr milliseconds kLookAgain{10'000};
  if (settings.keys.empty()) return std::nullopt;
  const auto key = std::find_if(settings.keys.begin(), settings.keys.end(),
                                [&](const KeySettings& one) { return one.name == batch.owner; });
  if (key == settings.keys.end())
    return ClientError{.code = std::string(name_of(ErrorCode::client_full)),
                       .message = "the batch's key is no more",
                       .retry_after = kLookAgain,
                       .local = true};
  const auto forbidden = [](const ApiError& why) {
    return ClientError{
        .code = std::string(name_of(ErrorCode::forbidden)), .message = why.message, .local = true};
  };
  const Caller caller{.name = batch.owner, .key = &*key};
  const std::string_view plain = split_model(model, settings.lanes).model;
  if (!caller.may_use_model(plain)) return forbidden(forbidden_model(plain, "body.model"));
  if (const std::optional<ApiError> why = why_not_named_models(caller, body, "body.")) return forbidden(*why);
  const std::string& service = settings.services[*batch.api];
  if (!caller.may_use_service(service)) return forbidden(forbidden_service(service));
  if (!key->lanes.allows(batch.lane))
    return forbidden(
        {.name = "forbidden", .message = "lane \"" + batch.lane + "\" is not allowed with this key"});
  return std::nullopt;
}

LineJob job_of_line(const Settings& settings, const StoredBatch& batch, std::string_view model,
                    std::string_view body, std::size_t number) {
  RouteStep step{.service = settings.services[*batch.api],
                 .model = std::string(split_model(model, settings.lanes).model)};
  if (const ModelSettings* const route = route_of(settings, batch, model)) {
    const RouteStep& taken = route->steps[std::min(number, route->steps.size() - 1)];
    step.model = taken.model;
    if (!taken.service.empty()) step.service = taken.service;
  }

  std::vector<JsonEdit> edits{{.key = "service_tier"}};
  const std::string model_text = json_text(step.model);
  if (step.model != model) edits.push_back({.key = "model", .value = model_text});

  HttpRequest call{.method = "POST", .path = batch.endpoint};
  for (std::string_view rest = batch.headers; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t space = std::min(line.find(' '), line.size());
    call.headers.add(std::string(line.substr(0, space)),
                     std::string(line.substr(std::min(space + 1, line.size()))));
  }
  return {.request = {.service = std::move(step.service),
                      .model = std::move(step.model),
                      .cost = stated_cost(call.method, call.path),
                      .meta = upstream_meta(*batch.api, call, ServiceTier::stays)},
          .body = edited_object(body, edits),
          .owner = batch.owner};
}

}  // namespace lanemq::gateway
