// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/model/model_handler.hpp"

#include <algorithm>
#include <utility>

#include "worker/handlers/http/http_handler.hpp"
#include "worker/handlers/model/event_answer.hpp"
#include "worker/handlers/model/request_body.hpp"

namespace lanemq::worker {
namespace {

/// A base URL means the same with and without a slash at its end.
HttpTarget without_last_slash(HttpTarget target) {
  while (target.url.ends_with('/'))
    target.url.pop_back();
  return target;
}

/// Counting tokens uses none, nor does cancelling or reading an earlier response.
bool takes_no_tokens(HttpMethod method, std::string_view path) {
  path = path.substr(0, path.find('?'));
  return method != HttpMethod::post || path.ends_with("/count_tokens") || path.ends_with("/input_tokens") ||
         path.ends_with("/cancel");
}

bool names(std::string_view line, std::string_view header) {
  return line.substr(0, line.find(':')) == header;
}

}  // namespace

ModelHandler::ModelHandler(std::shared_ptr<HttpClient> client, const ModelApi& api, HttpTarget target,
                           std::shared_ptr<const CredentialBox> credentials, LaneTimes times)
    : HttpCallHandler(std::move(client)),
      api_(api),
      target_(std::make_shared<const HttpTarget>(without_last_slash(std::move(target)))),
      credentials_(std::move(credentials)),
      times_(std::move(times)) {}

void ModelHandler::start(const JobCall& job, Completion done) {
  JobFailure failure;
  std::shared_ptr<const HttpHeaders> headers = credentials_->headers_for(job, failure);
  if (!headers) return done.failure(std::move(failure));
  CallMeta meta = read_call_meta(job.meta);
  if (!meta.problem.empty())
    return done.failure(unsent_failure(ErrorClass::permanent, "bad_meta", std::move(meta.problem)));

  std::string path = api_.path(std::move(meta.path), job.model);
  const HttpMethod method = meta.method;
  const RequestBody edited =
      method != HttpMethod::post
          ? RequestBody{}
          : edit_request(job.body.bytes(), {.model = job.model,
                                            .drop_service_tier = !meta.forwards_service_tier,
                                            .ask_usage = api_.has_usage_option(path)});
  Blob body = job.body;
  if (edited.text) {
    auto text = std::make_shared<const std::string>(std::move(*edited.text));
    body = Blob::own(text, *text);
  }
  std::unique_ptr<AnswerReader> reader;
  // A GET streams only if its job says so; the upstream's headers tell whether it does.
  if (edited.streams || api_.streams(path) || (method == HttpMethod::get && job.stream))
    reader =
        std::make_unique<EventAnswer>(api_, EventAnswer::Options{.in_pieces = job.stream,
                                                                 .strips_usage = edited.usage_added,
                                                                 .answer_bytes_max = job.answer_bytes_max,
                                                                 .headers = headers});
  const bool free = takes_no_tokens(method, path);
  client().call({.target = target_,
                 .path = std::move(path),
                 .method = method,
                 .headers = headers,
                 .lines = header_lines(job, std::move(meta), *headers),
                 .lease = job.lease,
                 .body = std::move(body),
                 .takes_no_tokens = free,
                 .answers_json = true,
                 .times = times_.of(job.lane),
                 .deadline = job.deadline,
                 .answer_bytes_max = job.answer_bytes_max,
                 .reader = std::move(reader),
                 .done = std::move(done)});
}

/// The job cannot replace a header that the operator has set.
std::vector<std::string> ModelHandler::header_lines(const JobCall& job, CallMeta meta,
                                                    const HttpHeaders& shared) const {
  std::vector<std::string> lines = std::move(meta.header_lines);
  std::erase_if(lines, [&](const std::string& line) { return shared.has(line.substr(0, line.find(':'))); });
  const bool says_version = shared.has(api_.version_header) ||
                            std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
                              return names(line, api_.version_header);
                            });
  if (!api_.version_header.empty() && !says_version)
    lines.push_back(std::string(api_.version_header) + ": " + std::string(api_.version));
  lines.push_back("x-client-request-id: " + header_name_of(job));
  add_trace(job, *target_, shared, lines);
  return lines;
}

}  // namespace lanemq::worker
