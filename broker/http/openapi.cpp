// SPDX-License-Identifier: Apache-2.0
#include "broker/http/openapi.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/admin_table.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/version.hpp>

#include "broker/http/access/options.hpp"
#include "broker/http/verb_requests.hpp"

namespace lanemq::admin {
namespace {

const char* const kJson = "application/json";

Json content(const char* type, Json schema) {
  return {{type, {{"schema", std::move(schema)}}}};
}
Json reference(const std::string& name) {
  return {{"$ref", "#/components/schemas/" + name}};
}

Json schema_of(std::string_view field) {
  Json schema{{"type", type_of_field(field)}};
  if (field == "from") schema["minimum"] = 0;
  if (field == "limit") {
    schema["minimum"] = 1;
    schema["maximum"] = limits::page_rows_max;
  }
  return schema;
}

bool lists(AdminVerb verb) {
  return only_looks(verb) && verb != AdminVerb::job;
}

/// The shape of a verb's answer: rows under its name, one job, or what has changed.
Json answer_schema(const AdminInfo& info) {
  const std::string name(info.name);
  if (info.verb == AdminVerb::job)
    return {{"type", "object"},
            {"required", {"id", "state"}},
            {"properties", {{"id", {{"type", "string"}}}, {"state", {{"type", "string"}}}}}};
  if (!lists(info.verb)) return {{"type", "object"}};
  return {{"type", "object"},
          {"required", Json::array({name})},
          {"properties",
           {{name, {{"type", "array"}, {"items", {{"type", "object"}}}}},
            {"next", {{"type", "integer"}, {"description", "where there may be more: the next `from`"}}}}}};
}

Json answers(Json schema, const char* type = kJson) {
  return {{"200", {{"description", "the answer"}, {"content", content(type, std::move(schema))}}},
          {"default", {{"description", "why not"}, {"content", content(kJson, reference("error"))}}}};
}

Json get_of(const AdminInfo& info) {
  Json parameters = Json::array();
  for (const std::string_view field : fields_of(info.takes))
    parameters.push_back({{"name", field}, {"in", "query"}, {"schema", schema_of(field)}});
  return {{"summary", info.meaning},
          {"parameters", std::move(parameters)},
          {"responses", answers(answer_schema(info))}};
}

Json post_of(const AdminInfo& info) {
  Json properties = Json::object(), required = Json::array();
  for (const std::string_view field : fields_of(info.needs)) {
    properties[std::string(field)] = schema_of(field);
    required.push_back(field);
  }
  for (const std::string_view field : fields_of(info.takes))
    properties[std::string(field)] = schema_of(field);
  const bool needs_body = !required.empty();
  Json schema{{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
  if (needs_body) schema["required"] = std::move(required);
  return {{"summary", info.meaning},
          {"x-lanemq-role", name_of(only_looks(info.verb) ? Role::viewer : Role::manager)},
          {"requestBody", {{"required", needs_body}, {"content", content(kJson, std::move(schema))}}},
          {"responses", answers(answer_schema(info))}};
}

Json simple(const char* summary, Json schema, const char* type = kJson) {
  return {{"summary", summary}, {"responses", answers(std::move(schema), type)}};
}

Json cancel() {
  return {{"summary", "end a job"},
          {"x-lanemq-role", name_of(Role::manager)},
          {"requestBody",
           {{"required", true},
            {"content", content(kJson, {{"type", "object"},
                                        {"additionalProperties", false},
                                        {"required", {"id"}},
                                        {"properties", {{"id", {{"type", "string"}}}}}})}}},
          {"responses", answers({{"type", "object"}, {"required", {"id", "state"}}})}};
}

Json error_schema() {
  return {{"type", "object"},
          {"required", {"error"}},
          {"properties",
           {{"error",
             {{"type", "object"},
              {"required", {"code", "message"}},
              {"properties",
               {{"code", {{"type", "string"}}},
                {"message", {{"type", "string"}}},
                {"retry_after_ms", {{"type", "integer"}}}}}}}}}};
}

}  // namespace

Json openapi() {
  const Json text{{"type", "string"}};
  Json paths = Json::object();
  paths["/healthz"]["get"] = simple("whether the broker's loop answers", text, "text/plain");
  paths["/readyz"]["get"] = simple("whether the broker takes work, and why not", text, "text/plain");
  paths["/metrics"]["get"] = simple("metrics for Prometheus", text, "text/plain");
  paths["/v1/openapi.json"]["get"] = simple("this description", {{"type", "object"}});
  Json stats =
      simple("the broker's statistics", {{"type", "object"}, {"required", {"version", "lanes", "counters"}}});
  stats["parameters"] = Json::array({{{"name", "from"}, {"in", "query"}, {"schema", schema_of("from")}}});
  paths["/v1/stats"]["get"] = std::move(stats);
  paths["/v1/events"]["get"] =
      simple("a sample of the statistics each second, as server-sent events", text, "text/event-stream");
  Json watch = get_of(kWatchRequest);
  watch["responses"] = answers(text, "text/event-stream");
  paths["/v1/watch"]["get"] = std::move(watch);
  for (const AdminInfo& info : admin_table()) {
    const std::string path = "/v1/" + std::string(info.name);
    if (lists(info.verb)) paths[path]["get"] = get_of(info);
    paths[path]["post"] = post_of(info);
  }
  Json job =
      simple("all that is known of one job",
             answer_schema(*std::find_if(admin_table().begin(), admin_table().end(),
                                         [](const AdminInfo& info) { return info.verb == AdminVerb::job; })));
  job["parameters"] = Json::array({{{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", text}}});
  paths["/v1/jobs/{id}"]["get"] = std::move(job);
  paths["/v1/cancel"]["post"] = cancel();
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "LaneMQ, for operators"}, {"version", version()}}},
          {"paths", std::move(paths)},
          {"components",
           {{"schemas", {{"error", error_schema()}}},
            {"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
          {"security", Json::array({Json::object(), {{"key", Json::array()}}})}};
}

}  // namespace lanemq::admin
