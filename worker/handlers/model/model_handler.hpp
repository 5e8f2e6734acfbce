// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/http_client.hpp"
#include "worker/handlers/http/http_credentials.hpp"
#include "worker/handlers/model/call_meta.hpp"
#include "worker/handlers/model/lane_times.hpp"
#include "worker/handlers/model/model_api.hpp"

namespace lanemq::worker {

/// Serves jobs with the calls of a model API: the handlers `openai` and `anthropic`.
///
/// A job's `meta` says which call (call_meta.hpp), its body is the request's, edited where it must be
/// (request_body.hpp), and goes to the upstream's base URL with the service's key and with
/// `x-client-request-id`, the job's id. A streamed answer goes back in pieces as event_answer.hpp says, any
/// other whole; failures are classed as upstream_failure.hpp says. A `meta` that cannot be followed is a
/// permanent failure `bad_meta`, and nothing was sent.
class ModelHandler final : public HttpCallHandler {
 public:
  /// Requires: http_url_problem(target.url) is empty. `api` must outlive it. The credentials
  /// serve any number of handlers.
  ModelHandler(std::shared_ptr<HttpClient> client, const ModelApi& api, HttpTarget target,
               std::shared_ptr<const CredentialBox> credentials, LaneTimes times);

  void start(const JobCall& job, Completion done) override;

 private:
  std::vector<std::string> header_lines(const JobCall& job, CallMeta meta, const HttpHeaders& shared) const;

  const ModelApi& api_;
  std::shared_ptr<const HttpTarget> target_;
  std::shared_ptr<const CredentialBox> credentials_;
  const LaneTimes times_;
};

}  // namespace lanemq::worker
