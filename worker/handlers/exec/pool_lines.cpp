// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/pool_lines.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include <lanemq/text.hpp>

#include "common/json/base64.hpp"
#include "common/json/members.hpp"
#include "worker/handlers/exec/progress_lines.hpp"
#include "worker/handlers/extras.hpp"

namespace lanemq::worker {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kCodeBytesMax = 100;

/// A field that no map has, for what is wrong with a value.
struct Wrong {
  std::string what;
};

void add_text(std::string& line, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  line.append(",\"").append(name).append("\":").append(json_text(value));
}

/// Adds a value that is msgpack, such as a job's `meta`, as JSON.
void add_raw(std::string& line, std::string_view name, std::string_view msgpack) {
  if (msgpack.empty()) return;
  const Json value = Json::from_msgpack(msgpack.begin(), msgpack.end(), true, false);
  if (value.is_discarded()) return;
  line.append(",").append(json_text(name)).append(":");
  line.append(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Adds the `x-` fields.
void add_extras(std::string& line, const wire::Extras& extras) {
  const Json values = extras_as_json(extras);
  for (const auto& [name, value] : values.items())
    line.append(",")
        .append(json_text(name))
        .append(":")
        .append(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string line_of(std::string_view op, wire::Lease lease) {
  return "{\"op\":\"" + std::string(op) + "\",\"job\":" + std::to_string(lease.job) +
         ",\"attempt\":" + std::to_string(lease.attempt);
}

/// The member of an object; null: absent, or null itself.
const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::int64_t> whole(const Json& object, const char* name) {
  const Json* const value = member(object, name);
  if (!value) return std::nullopt;
  if (!value->is_number_integer() || (!value->is_number_unsigned() && value->get<std::int64_t>() < 0) ||
      (value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX))
    throw Wrong{std::string(name) + " must be a whole number, 0 or more"};
  return value->get<std::int64_t>();
}

std::string text(const Json& object, const char* name) {
  const Json* const value = member(object, name);
  if (!value) return {};
  if (!value->is_string()) throw Wrong{std::string(name) + " must be a string"};
  return value->get<std::string>();
}

std::string body_of(const Json& object) {
  if (!member(object, "body_base64")) return text(object, "body");
  if (member(object, "body")) throw Wrong{"there are body and body_base64"};
  std::optional<std::string> bytes = from_base64(text(object, "body_base64"));
  if (!bytes) throw Wrong{"body_base64 is no base64"};
  return std::move(*bytes);
}

const Json* map_of(const Json& object, const char* name) {
  const Json* const value = member(object, name);
  if (value && !value->is_object()) throw Wrong{std::string(name) + " must be an object"};
  return value;
}

std::optional<wire::Usage> usage_of(const Json& object) {
  const Json* const said = map_of(object, "usage");
  if (!said) return std::nullopt;
  return wire::Usage{.requests = whole(*said, "requests"),
                     .input_tokens = whole(*said, "input_tokens"),
                     .output_tokens = whole(*said, "output_tokens"),
                     .cached_tokens = whole(*said, "cached_tokens"),
                     .reasoning_tokens = whole(*said, "reasoning_tokens")};
}

std::optional<wire::UpstreamLimits> limits_of(const Json& object) {
  const Json* const said = map_of(object, "limits");
  if (!said) return std::nullopt;
  return wire::UpstreamLimits{.remaining_requests = whole(*said, "remaining_requests"),
                              .remaining_tokens = whole(*said, "remaining_tokens"),
                              .remaining_input_tokens = whole(*said, "remaining_input_tokens"),
                              .remaining_output_tokens = whole(*said, "remaining_output_tokens"),
                              .reset_requests_ms = whole(*said, "reset_requests_ms"),
                              .reset_tokens_ms = whole(*said, "reset_tokens_ms"),
                              .reset_input_tokens_ms = whole(*said, "reset_input_tokens_ms"),
                              .reset_output_tokens_ms = whole(*said, "reset_output_tokens_ms"),
                              .limit_requests = whole(*said, "limit_requests"),
                              .limit_tokens = whole(*said, "limit_tokens"),
                              .limit_input_tokens = whole(*said, "limit_input_tokens"),
                              .limit_output_tokens = whole(*said, "limit_output_tokens"),
                              .limit_concurrency = whole(*said, "limit_concurrency"),
                              .period_requests_ms = whole(*said, "period_requests_ms"),
                              .period_tokens_ms = whole(*said, "period_tokens_ms")};
}

JobFailure failure_of(const Json& object) {
  const std::string name = text(object, "class");
  if (name.empty()) throw Wrong{"class is missing"};
  // As the broker does with one that it does not know.
  JobFailure failure{.error_class = error_class(name).value_or(ErrorClass::retry),
                     .code = text(object, "code"),
                     .message = text(object, "message")};
  if (failure.code.size() > kCodeBytesMax)
    throw Wrong{"code has over " + std::to_string(kCodeBytesMax) + " bytes"};
  if (const auto after = whole(object, "retry_after_ms"))
    failure.retry_after = std::chrono::milliseconds(std::min<std::int64_t>(*after, limits::duration_ms_max));
  if (const auto status = whole(object, "upstream_status"))
    failure.upstream_status = static_cast<int>(std::min<std::int64_t>(*status, 999));
  failure.limited_by = limited_by(text(object, "limited_by"));
  return failure;
}

PoolAnswer answer_of(const Json& object) {
  PoolAnswer answer;
  const std::string op = text(object, "op");
  if (op == "chunk")
    answer.what = PoolAnswer::What::chunk;
  else if (op == "progress")
    answer.what = PoolAnswer::What::progress;
  else if (op == "error")
    answer.what = PoolAnswer::What::error;
  else if (op != "result")
    throw Wrong{"op is \"" + printable(op, 64) + "\", and must be chunk, progress, result or error"};
  const auto job = whole(object, "job");
  if (!job) throw Wrong{"job is missing"};
  answer.job = static_cast<std::uint64_t>(*job);
  answer.attempt = whole(object, "attempt");
  if (answer.what == PoolAnswer::What::progress) {
    // A word for people that is written badly is no reason to end the process and its other jobs.
    if (const Json* const pct = member(object, "pct"); pct && pct->is_number())
      answer.progress.pct = whole_percent(pct->get<double>());
    if (const Json* const note = member(object, "note"); note && note->is_string())
      answer.progress.note = note->get<std::string>();
    return answer;
  }
  answer.body = body_of(object);
  if (answer.what == PoolAnswer::What::chunk) {
    answer.seq = whole(object, "seq");
    return answer;
  }
  answer.usage = usage_of(object);
  answer.limits = limits_of(object);
  if (answer.what == PoolAnswer::What::error) answer.failure = failure_of(object);
  return answer;
}

}  // namespace

std::string job_line(const JobCall& job) {
  std::string line = line_of("job", job.lease);
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"id", job.id},       {"service", job.service}, {"lane", job.lane},
      {"model", job.model}, {"client", job.client},   {"key", job.key}};
  for (const auto& [name, value] : texts)
    add_text(line, name, value);
  if (job.stream) line += ",\"stream\":true";
  add_raw(line, "meta", job.meta.bytes);
  add_raw(line, "trace", job.trace.bytes);
  add_extras(line, job.extras);
  const std::string_view body = job.body.bytes();
  if (is_utf8(body))
    line.append(",\"body\":").append(json_text(body));
  else
    line.append(",\"body_base64\":\"").append(to_base64(body)).append("\"");
  return line;
}

std::string job_line_end(std::chrono::milliseconds left) {
  return ",\"timeout_ms\":" + std::to_string(left.count()) + "}\n";
}

std::string cancel_line(wire::Lease lease, std::string_view reason) {
  std::string line = line_of("cancel", lease);
  add_text(line, "reason", reason);
  return line + "}\n";
}

std::string window_line(wire::Lease lease, std::int64_t seq) {
  return line_of("window", lease) + ",\"seq\":" + std::to_string(seq) + "}\n";
}

std::optional<PoolAnswer> read_pool_line(std::string_view line, std::string& problem) try {
  const Json object = Json::parse(line.begin(), line.end(), nullptr, false);
  if (!object.is_object()) {
    problem = object.is_discarded() ? "is no JSON" : "is no JSON object";
    return std::nullopt;
  }
  return answer_of(object);
} catch (const Wrong& wrong) {
  problem = wrong.what;
  return std::nullopt;
}

}  // namespace lanemq::worker
