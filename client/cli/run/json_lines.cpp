// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/json_lines.hpp"

#include <utility>

#include <lanemq/limits.hpp>

namespace lanemq::cli {
namespace {

std::string usable_model(const std::string& model) {
  return model.size() <= limits::name_bytes_max ? model : std::string();
}

// The urls of OpenAI's batches. A service's base URL ends in kUrlBase already.
constexpr std::string_view kUrlBase = "/v1", kUsualUrl = "/v1/chat/completions";

bool is_url(const JsonMember& url) {
  return url.kind == JsonMember::Kind::text && url.text.starts_with(std::string(kUrlBase) + "/");
}

InputLine read_batch(std::string_view line) {
  JsonMember picked[] = {{.key = "custom_id"}, {.key = "body"}, {.key = "url"}};
  const auto& [custom_id, body, url] = picked;
  const JsonLook look = look_into_json(line, picked, "body");
  InputLine read;
  if (custom_id.kind == JsonMember::Kind::text) read.custom_id = custom_id.text;
  if (!look.valid) {
    read.custom_id.reset();  // a broken line has no name
    read.problem = look.problem;
  } else if (!look.is_object) {
    read.problem = "is no JSON object";
  } else if (custom_id.twice || body.twice) {
    read.problem = std::string("names `") + (body.twice ? "body" : "custom_id") + "` twice";
  } else if (!read.custom_id || read.custom_id->empty()) {
    read.custom_id.reset();
    read.problem = "has no `custom_id`, which must be a text that is not empty";
  } else if (!body.present()) {
    read.problem = "has no `body`";
  } else if (url.twice || (url.present() && !is_url(url))) {
    read.problem = "has a `url` that does not begin with /v1/, such as /v1/embeddings";
  } else {
    if (url.present() && url.text != kUsualUrl) read.path = url.text.substr(kUrlBase.size());
    read.body = member_bytes(line, "body");
    read.model = usable_model(look.model);
  }
  return read;
}

InputLine read_plain(std::string_view line) {
  const JsonLook look = look_into_json(line, {});
  InputLine read{.body = line};  // named by its bytes
  if (look.valid)
    read.model = usable_model(look.model);
  else
    read.problem = look.problem;
  return read;
}

constexpr std::string_view kBatchIdStart = "batch_req_";  // as OpenAI's

// ---- writing ------------------------------------------------------------------------------------------

std::string response_object(int status, std::string_view job_id, std::string_view body) {
  std::string out = "{\"status_code\":";
  out += std::to_string(status);
  out += ",\"request_id\":";
  out += json_text(job_id);
  out += ",\"body\":";
  out += as_json_value(body);
  out += '}';
  return out;
}

int http_status(const ClientError& error) {
  const std::optional<ErrorCode> code = error.known_code();
  return code ? error_info(*code).http_status : 500;
}

}  // namespace

std::optional<LineFormat> format_of(std::string_view line) {
  JsonMember picked[] = {{.key = "custom_id"}, {.key = "body"}};
  if (!look_into_json(line, picked).valid) return std::nullopt;
  return picked[0].present() && picked[1].present() ? LineFormat::batch : LineFormat::plain;
}

InputLine read_input(LineFormat format, std::string_view line) {
  return format == LineFormat::batch ? read_batch(line) : read_plain(line);
}

std::string write_output(const LineName& name, std::string_view job_id, const Answer& answer) {
  const bool batch = name.format == LineFormat::batch;
  std::string out = "{\"id\":" + json_text((batch ? std::string(kBatchIdStart) : "") + std::string(job_id));
  if (batch)
    out += ",\"custom_id\":" + (name.custom_id ? json_text(*name.custom_id) : "null");
  else
    out += ",\"line\":" + std::to_string(name.number);
  out += ",\"response\":";
  if (answer)
    out += response_object(200, job_id, answer->body.bytes());
  else if (!answer.error().body.empty())
    out += response_object(http_status(answer.error()), job_id, answer.error().body.bytes());
  else
    out += "null";
  out += ",\"error\":";
  if (answer)
    out += "null";
  else
    out += "{\"code\":" + json_text(answer.error().code) +
           ",\"message\":" + json_text(answer.error().message) + "}";
  out += "}\n";
  return out;
}

std::optional<OutputLine> read_output(std::string_view line) {
  JsonMember picked[] = {
      {.key = "id"}, {.key = "custom_id"}, {.key = "line"}, {.key = "response"}, {.key = "error"}};
  auto& [id, custom_id, number, response, error] = picked;
  if (!look_into_json(line, picked).valid || !response.present() || !error.present()) return std::nullopt;
  OutputLine read{.failed = error.kind != JsonMember::Kind::null};
  read.job_id = id.text.starts_with(kBatchIdStart) ? id.text.substr(kBatchIdStart.size()) : id.text;
  if (number.kind == JsonMember::Kind::number) {
    read.name = {.format = LineFormat::plain, .number = number.number};
  } else if (custom_id.kind == JsonMember::Kind::text) {
    read.name.custom_id = std::move(custom_id.text);
  } else if (custom_id.kind != JsonMember::Kind::null || !read.failed) {
    return std::nullopt;
  }
  return read;
}

}  // namespace lanemq::cli
