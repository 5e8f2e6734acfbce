// SPDX-License-Identifier: Apache-2.0
#include "worker/metrics/metrics_server.hpp"

#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "common/http/server/access/browsers.hpp"
#include "common/http/server/access/caller_key.hpp"
#include "common/http/server/access/secret.hpp"
#include "common/http/server/access/wrong_keys.hpp"
#include "common/http/server/base/tls.hpp"
#include "common/http/server/listen.hpp"
#include "common/http/server/router.hpp"
#include "common/http/server/server.hpp"
#include "common/log/log.hpp"
#include "common/metrics/families.hpp"
#include "common/settings/secrets/exposed_files.hpp"
#include "common/settings/start_check.hpp"
#include "common/settings/usage_error.hpp"
#include "common/signals/signals_blocked.hpp"

namespace lanemq::worker {
namespace {

/// The path of a file with a secret.
std::string noted(std::string path) {
  settings::note_secret_file(path);
  return path;
}

using http::HttpAnswer;
using http::HttpRequest;
using http::ResponderPtr;
using settings::UsageError;

std::string hash_of(const MetricsOptions& options, const settings::Environment& environment) {
  if (options.key.empty()) return {};
  static const std::string kNone;
  static const std::string kName = "metrics_key";
  return http::hash_of_key(
      {.name = kName, .secret = options.key, .sha256 = kNone, .maker = "openssl rand -hex 24"}, environment);
}

/// Null: no TLS, or a check takes one of its files as given.
std::shared_ptr<const http::TlsIdentity> identity_of(const MetricsOptions& options,
                                                     const settings::Environment& environment) try {
  if (options.tls_certificate.empty() != options.tls_key.empty())
    throw UsageError("metrics_tls_certificate and metrics_tls_key belong together; name both, or neither");
  if (options.tls_certificate.empty()) return nullptr;
  const std::string certificate = http::file_of(options.tls_certificate, environment),
                    key = noted(http::file_of(options.tls_key, environment));
  return certificate.empty() || key.empty() ? nullptr : http::TlsIdentity::read(certificate, key);
} catch (const UsageError&) {
  throw;
} catch (const std::runtime_error& error) {
  throw UsageError(std::string("metrics: ") + error.what());
}

void check_place(const MetricsOptions& options) {
  const std::string where = "metrics " + http::listen_of(options.server);
  if (!http::is_loopback(options.server.address) && (options.key.empty() || options.tls_certificate.empty()))
    throw UsageError(where +
                     " can be reached from other machines, which needs metrics_key, metrics_tls_certificate "
                     "and metrics_tls_key; set them, or listen on 127.0.0.1");
  if (const auto reason = settings::why_not_listen(options.server.address, options.server.port))
    throw UsageError(where + ": " + *reason);
}

HttpAnswer refused(int status, std::string text) {
  HttpAnswer answer = http::text_answer(status, std::move(text) + "\n");
  if (status == 401) answer.headers.set("www-authenticate", "Bearer");
  return answer;
}

}  // namespace

void check_metrics(const MetricsOptions& options, const settings::Environment& environment) {
  if (!options.is_on) return;
  static_cast<void>(hash_of(options, environment));
  static_cast<void>(identity_of(options, environment));
  check_place(options);
}

class MetricsServer::Core {
 public:
  Core(const MetricsOptions& options, const settings::Environment& environment,
       std::function<WorkerFigures()> figures)
      : options_(options),
        environment_(environment),
        key_hash_(hash_of(options, environment)),
        figures_(std::move(figures)),
        server_(
            options.server, router_,
            [](http::Refusal kind, const HttpRequest&, std::string_view detail) {
              return refused(http::status_of(kind), std::string(detail));
            },
            [this](const HttpRequest& head) { return refused_at_door(head); }) {
    auto identity = identity_of(options, environment);
    url_ = http::url_of(identity ? "https" : "http", options.server.address, server_.port());
    if (identity) server_.encrypt(std::move(identity));
    add_routes();
    const SignalsBlocked meanwhile;
    thread_ = std::thread([this] { serve(); });
  }

  ~Core() {
    server_.post([this] { server_.stop(); });
    thread_.join();
  }

  const std::string& url() const { return url_; }

  void read_again() {
    // A variable of this process stays as it was.
    const bool may_differ = !options_.key.empty() && !options_.key.starts_with("env:");
    std::string hash = may_differ ? hash_of(options_, environment_) : std::string();
    auto identity = identity_of(options_, environment_);
    server_.post([this, may_differ, hash = std::move(hash), identity = std::move(identity)] {
      if (may_differ) key_hash_ = hash;
      if (identity) server_.encrypt(identity);
    });
  }

  void beat(const WorkerBeat& beat) {
    const std::lock_guard lock(mutex_);
    beat_ = beat;
    beat_at_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void serve() {
    server_.run([](std::string_view reason) {
      log::event(log::Level::error, "http.failure",
                 {{"reason", reason}, {"do", "the connection was closed; report it"}});
    });
  }

  std::optional<HttpAnswer> refused_at_door(const HttpRequest& head) const {
    if (!key_hash_.empty()) return std::nullopt;
    static const std::vector<std::string> kNoHosts;
    const auto why =
        http::why_not_without_keys(head, {.name = "worker", .cure = "set metrics_key", .hosts = kNoHosts});
    if (!why) return std::nullopt;
    return refused(why->is_form ? 415 : 403, why->message);
  }

  void add_routes() {
    router_.add("GET", "/healthz", [this](const HttpRequest&, const ResponderPtr& responder) {
      const auto silence = silence_too_long();
      responder->answer(silence ? http::text_answer(503, *silence) : http::text_answer(200, "ok\n"));
    });
    router_.add("GET", "/readyz", [this](const HttpRequest&, const ResponderPtr& responder) {
      if (const auto silence = silence_too_long()) return responder->answer(http::text_answer(503, *silence));
      responder->answer(last_beat().connected
                            ? http::text_answer(200, "ok\n")
                            : http::text_answer(503, "no broker has welcomed this worker\n"));
    });
    router_.add("GET", "/metrics", [this](const HttpRequest& request, const ResponderPtr& responder) {
      if (auto refusal = refused_key(request)) return responder->answer(std::move(*refusal));
      // Old figures would look like a worker that goes on.
      if (const auto silence = silence_too_long()) return responder->answer(http::text_answer(503, *silence));
      WorkerFigures figures = figures_();
      figures.beat = last_beat();
      HttpAnswer answer = http::text_answer(200, metrics_text(figures));
      answer.headers.set("content-type", metrics::Families::kContentType);
      responder->answer(std::move(answer));
    });
  }

  /// Hashes are compared, so that how long that takes tells nothing of the secret.
  std::optional<HttpAnswer> refused_key(const HttpRequest& request) {
    if (key_hash_.empty()) return std::nullopt;
    const std::string& hash = http::secret_hash_of(request);
    if (hash == key_hash_) return std::nullopt;
    HttpAnswer answer =
        refused(401, hash.empty() ? "metrics_key is needed: send it as \"Authorization: Bearer KEY\""
                                  : "this is not the metrics_key of this worker");
    if (!hash.empty()) answer.held_back = wrong_keys_.note(request.peer, server_.now());
    return answer;
  }

  WorkerBeat last_beat() const {
    const std::lock_guard lock(mutex_);
    return beat_;
  }

  /// What is wrong where the loop does not turn.
  std::optional<std::string> silence_too_long() const {
    const std::lock_guard lock(mutex_);
    const auto silence = Clock::now() - beat_at_;
    if (silence < kSilenceMax) return std::nullopt;
    return "the worker's loop has not turned for " +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(silence).count()) +
           " s: a handler blocks it\n";
  }

  const MetricsOptions options_;
  const settings::Environment environment_;
  std::string key_hash_;  ///< empty: no key is needed; of the server's thread
  const std::function<WorkerFigures()> figures_;
  http::WrongKeys wrong_keys_;
  mutable std::mutex mutex_;
  WorkerBeat beat_{};                         // under mutex_
  Clock::time_point beat_at_ = Clock::now();  // under mutex_
  std::string url_;
  http::Router router_{http::Router::Prefixes::none};
  http::HttpServer server_;
  std::thread thread_;  // last: it uses the other members
};

MetricsServer::MetricsServer(const MetricsOptions& options, const settings::Environment& environment,
                             std::function<WorkerFigures()> figures) try {
  check_place(options);
  core_ = std::make_unique<Core>(options, environment, std::move(figures));
} catch (const UsageError&) {
  throw;
} catch (const std::runtime_error& error) {
  throw UsageError(std::string("metrics: ") + error.what());
}

MetricsServer::~MetricsServer() = default;

const std::string& MetricsServer::url() const {
  return core_->url();
}

void MetricsServer::read_again() {
  core_->read_again();
}

void MetricsServer::beat(const WorkerBeat& beat) {
  core_->beat(beat);
}

}  // namespace lanemq::worker
