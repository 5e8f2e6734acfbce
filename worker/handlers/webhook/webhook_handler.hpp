// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/http_client.hpp"
#include "worker/handlers/webhook/hook_hosts.hpp"
#include "worker/handlers/webhook/hook_signature.hpp"

namespace lanemq::worker {

/// The secrets of a service, which may be replaced while its jobs run. Thread-safe.
class HookSecretBox {
 public:
  explicit HookSecretBox(std::vector<HookSecret> secrets) { use(std::move(secrets)); }
  /// For jobs that start from now on.
  void use(std::vector<HookSecret> secrets);
  std::shared_ptr<const std::vector<HookSecret>> now() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const std::vector<HookSecret>> secrets_;  ///< under mutex_
};

/// How a service's webhooks go out.
struct WebhookRules {
  std::vector<HookHost> hosts;
  bool private_addresses = false;  ///< of names; an address that is an entry may always be called
  std::chrono::milliseconds timeout{15'000};
  std::function<bool(const std::string& url)> traced;  ///< whether a URL's host gets the job's trace
};

/// Posts each job's body to the URL that the job names, signed by the Standard Webhooks specification 1.0.0.
///
/// The URL is the job's field `x-webhook-url`. It has to fall under an entry of the rules' hosts, and lead to
/// a public address unless the rules allow others, and the body has a bound; if not, the job fails as
/// `permanent`. The id of the message is the job's, so that a receiver knows a message that comes again. 2xx
/// is success; the result is the status and the milliseconds it took, as JSON. 3xx, 410 and other 4xx are
/// `permanent`, but 408, 409, 425 and 429, 5xx and calls without an answer are `retry`. Messages name host
/// and port, never path or query, which may hold a secret of the receiver's.
class WebhookHandler final : public HttpCallHandler {
 public:
  /// Of a job's body: it is hashed in the worker's loop, a few milliseconds at this size.
  static constexpr std::size_t kBodyBytesMax = std::size_t{1024} * 1024;
  /// Of a refusal's body.
  static constexpr std::size_t kKeptBytesMax = 1024;
  /// Hosts of which it is remembered whether they can be reached.
  static constexpr std::size_t kTargetsMax = 256;

  WebhookHandler(std::shared_ptr<HttpClient> client, WebhookRules rules,
                 std::shared_ptr<const HookSecretBox> secrets);

  void start(const JobCall& job, Completion done) override;

 private:
  std::shared_ptr<const HttpTarget> target_of(const HookHost& entry, const std::string& origin);

  const WebhookRules rules_;
  const std::shared_ptr<const HookSecretBox> secrets_;
  const std::shared_ptr<const HttpHeaders> headers_;
  std::deque<std::shared_ptr<const HttpTarget>> targets_;  ///< at most kTargetsMax, the newest last
};

/// What the end of a call means for its job. `host`: for messages.
std::function<void(const CallReport&, Completion&)> hook_judge(std::string host);

}  // namespace lanemq::worker
