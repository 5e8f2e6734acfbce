// SPDX-License-Identifier: Apache-2.0
#include "broker/http/candidate_http.hpp"

#include <thread>
#include <utility>

#include "broker/http/access/http_access.hpp"
#include "common/http/server/server.hpp"
#include "common/log/log.hpp"
#include "common/signals/signals_blocked.hpp"

namespace lanemq::admin {

using http::HttpAnswer;
using http::HttpRequest;
using http::ResponderPtr;

class CandidateHttp::Core {
 public:
  Core(const HttpOptions& options, HttpChange now, Candidacy candidacy)
      : access_(options),
        candidacy_(std::move(candidacy)),
        server_(
            options.server, router_,
            [this](http::Refusal kind, const HttpRequest&, std::string_view detail) {
              return refused_by_server(kind, detail);
            },
            [this](const HttpRequest& head) { return access_.refused_at_door(head); }) {
    access_.replace(std::move(now.keys));
    is_encrypted_ = now.identity != nullptr;
    if (now.identity) server_.encrypt(std::move(now.identity));
    router_.add("GET", "/healthz", [](const HttpRequest&, const ResponderPtr& responder) {
      responder->answer(http::text_answer(200, "ok\n"));
    });
    router_.add("GET", "/readyz", [this](const HttpRequest&, const ResponderPtr& responder) {
      responder->answer(http::text_answer(503, readiness(candidacy_).text));
    });
    const SignalsBlocked meanwhile;
    thread_ = std::thread([this] {
      server_.run([](std::string_view reason) {
        log::event(log::Level::error, "http.failure",
                   {{"reason", reason}, {"do", "the connection was closed; report it"}});
      });
    });
  }

  ~Core() {
    server_.post([this] { server_.stop(); });
    thread_.join();
  }

  std::uint16_t port() const { return server_.port(); }

  void tell(Candidacy candidacy) {
    server_.post([this, candidacy = std::move(candidacy)]() mutable { candidacy_ = std::move(candidacy); });
  }

  void change(HttpChange change) {
    server_.post([this, change = std::move(change)] {
      access_.replace(change.keys);
      if (change.identity && is_encrypted_) server_.encrypt(change.identity);
    });
  }

 private:
  /// Whatever the owner would serve has no route here.
  HttpAnswer refused_by_server(http::Refusal kind, std::string_view detail) const {
    if (kind != http::Refusal::not_found) return refused(http::status_of(kind), "bad_request", detail);
    return refused(503, "not_owner",
                   "this broker serves nobody now: " + candidacy_.why +
                       "; ask the broker that owns the store, or look at /readyz");
  }

  HttpAccess access_;
  Candidacy candidacy_;
  bool is_encrypted_ = false;
  http::Router router_{http::Router::Prefixes::none};
  http::HttpServer server_;
  std::thread thread_;
};

CandidateHttp::CandidateHttp(const HttpOptions& options, HttpChange now, Candidacy candidacy)
    : core_(std::make_unique<Core>(options, std::move(now), std::move(candidacy))) {}

CandidateHttp::~CandidateHttp() = default;

std::uint16_t CandidateHttp::port() const {
  return core_->port();
}

void CandidateHttp::tell(Candidacy candidacy) {
  core_->tell(std::move(candidacy));
}

void CandidateHttp::change(HttpChange change) {
  core_->change(std::move(change));
}

}  // namespace lanemq::admin
