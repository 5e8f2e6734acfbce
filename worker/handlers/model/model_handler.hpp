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

/// Serves jobs with calls of a model API: the handlers `openai` and `anthropic`.
///
/// A job's `meta` says which call (call_meta.hpp). The job's body, edited where it must be
/// (request_body.hpp), goes to the upstream's base URL with the service's key and the job's id as
/// `x-client-request-id`. A streamed answer goes back in pieces (event_answer.hpp), any other whole;
/// upstream_failure.hpp classifies failures. A bad `meta` is a permanent failure `bad_meta`, and nothing is
/// sent.
class ModelHandler final : public HttpCallHandler {
 public:
  /// Requires: http_url_problem(target.url) is empty. `api` must outlive it. Several handlers may share the
  /// credentials.
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
