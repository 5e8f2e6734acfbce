// SPDX-License-Identifier: Apache-2.0
#include "broker/http/admin_http.hpp"

#include <thread>
#include <utility>

#include <lanemq/admin_table.hpp>

#include "broker/http/followers.hpp"
#include "broker/http/http_access.hpp"
#include "broker/http/openapi.hpp"
#include "broker/http/operator_link.hpp"
#include "broker/http/readiness.hpp"
#include "broker/http/sampler.hpp"
#include "broker/http/verb_requests.hpp"
#include "common/http/server/listen.hpp"
#include "common/http/server/server.hpp"
#include "common/log/log.hpp"
#include "common/signals/signals_blocked.hpp"

namespace lanemq::admin {
namespace {

using http::HttpAnswer;
using http::HttpRequest;
using http::ResponderPtr;

/// What the server itself refuses.
HttpAnswer refused_by_server(http::Refusal kind, std::string_view detail) {
  switch (kind) {
    case http::Refusal::bad_request:
      return refused(400, "bad_request", detail);
    case http::Refusal::header_too_large:
      return refused(431, "too_large", detail);
    case http::Refusal::target_too_long:
      return refused(414, "too_large", detail);
    case http::Refusal::expectation_failed:
      return refused(417, "bad_request", detail);
    case http::Refusal::not_implemented:
      return refused(501, "not_implemented", detail);
    case http::Refusal::version_not_supported:
      return refused(505, "not_implemented", detail);
    case http::Refusal::body_too_large:
      return refused(413, "too_large", detail);
    case http::Refusal::not_found:
      return refused(404, "not_found",
                     std::string(detail) + "; /v1/openapi.json lists what there is, by verbs of lanemq");
    case http::Refusal::method_not_allowed:
      return refused(405, "bad_request", detail);
    case http::Refusal::out_of_memory:
    case http::Refusal::disk_refuses:
      return refused(503, "busy", detail);
    case http::Refusal::failed:
      break;
  }
  return refused(500, "internal", detail);
}

HttpAnswer plain(int status, std::string text) {
  return {.status = status,
          .headers = {{"content-type", "text/plain; charset=utf-8"}, {"cache-control", "no-store"}},
          .body = http::blob_of(std::move(text))};
}

}  // namespace

class AdminHttp::Core {
 public:
  Core(const HttpOptions& options, HttpChange now, zmq::context_t& context, const std::string& operators)
      : access_(with_keys(options, now)),
        server_(
            options.server, router_,
            [](http::Refusal kind, const HttpRequest&, std::string_view detail) {
              return refused_by_server(kind, detail);
            },
            [this](const HttpRequest& head) { return access_.refused_at_door(head); }),
        link_(context, operators, server_),
        sampler_(link_, server_),
        url_(http::url_of(now.identity ? "https" : "http", options.server.address, server_.port())) {
    if (now.identity) server_.encrypt(std::move(now.identity));
    add_probes();
    add_looks();
    for (const AdminInfo& info : admin_table())
      add_verb(info);
    add_cancel();
    sampler_.on_sample([this](const auto& sample) { followers_.send(*sample); });
    const SignalsBlocked meanwhile;
    thread_ = std::thread([this] { serve(); });
  }

  ~Core() {
    server_.post([this] { server_.stop(); });
    thread_.join();
  }

  const std::string& url() const { return url_; }

  void change(HttpChange change) {
    server_.post([this, change = std::move(change)] {
      access_.replace(change.keys);
      // Whether TLS is spoken at all needs a restart.
      if (change.identity && url_.starts_with("https")) server_.encrypt(change.identity);
    });
  }

 private:
  static HttpOptions with_keys(HttpOptions options, const HttpChange& now) {
    options.keys = now.keys;
    return options;
  }

  void serve() {
    sampler_.begin();
    server_.run([] {}, [] {},
                [](std::string_view reason) {
                  log::event(log::Level::error, "http.failure",
                             {{"reason", reason}, {"do", "the connection was closed; report it"}});
                });
  }

  /// Adds a route for those with a role; `handle` is told who asks.
  template <class Handle>
  void add(std::string method, std::string path, Role role, Handle handle) {
    router_.add({.method = std::move(method),
                 .pattern = std::move(path),
                 .handler =
                     [this, role, handle](HttpRequest request, const ResponderPtr& responder) {
                       auto who = access_.caller_of(request, role, server_.now());
                       if (!who) return responder->answer(std::move(who.error()));
                       handle(std::move(request), responder, std::move(*who));
                     },
                 // No body is kept of somebody without permission.
                 .admit = [this, role](const HttpRequest& head) -> tl::expected<std::string, HttpAnswer> {
                   auto who = access_.caller_of(head, role, server_.now());
                   if (!who) return tl::unexpected(std::move(who.error()));
                   return std::string();
                 }});
  }

  void add_probes() {
    router_.add("GET", "/healthz", [this](const HttpRequest&, const ResponderPtr& responder) {
      const Verdict verdict = health(sampler_.age());
      responder->answer(plain(verdict.good ? 200 : 503, verdict.text));
    });
    router_.add("GET", "/readyz", [this](const HttpRequest&, const ResponderPtr& responder) {
      const auto& last = sampler_.last();
      const Verdict verdict = readiness(last ? &last->stats : nullptr, sampler_.age());
      responder->answer(plain(verdict.good ? 200 : 503, verdict.text));
    });
  }

  void add_looks() {
    add("GET", "/v1/openapi.json", Role::viewer,
        [](const HttpRequest&, const ResponderPtr& responder, const std::string&) {
          responder->answer(json_of(200, openapi()));
        });
    add("GET", "/v1/stats", Role::viewer,
        [this](const HttpRequest& request, const ResponderPtr& responder, std::string who) {
          static constexpr AdminInfo kStats{{}, "stats", "", "from", ""};
          auto question = question_of_query(kStats, request);
          if (question) {
            question->op = "stats";
            question->fields.erase(question->fields.begin());  // `do`
          }
          ask(std::move(question), responder, std::move(who));
        });
    add("GET", "/v1/events", Role::viewer,
        [this](const HttpRequest&, const ResponderPtr& responder, const std::string&) {
          if (followers_.full())
            return responder->answer(
                refused(503, "busy",
                        std::to_string(Followers::kFollowersMax) +
                            " follow the events already; close one, or ask for /v1/stats"));
          followers_.add(responder, sampler_.last());
        });
    add("GET", "/v1/jobs/{id*}", Role::viewer,
        [this](const HttpRequest& request, const ResponderPtr& responder, std::string who) {
          ask(Question{.op = "admin", .fields = {{"do", "job"}, {"id", request.param("id")}}}, responder,
              std::move(who));
        });
  }

  void add_verb(const AdminInfo& info) {
    const std::string path = "/v1/" + std::string(info.name);
    const bool looks = only_looks(info.verb);
    if (looks && info.needs.empty())
      add("GET", path, Role::viewer,
          [this, info](const HttpRequest& request, const ResponderPtr& responder, std::string who) {
            ask(question_of_query(info, request), responder, std::move(who));
          });
    add("POST", path, looks ? Role::viewer : Role::manager,
        [this, info](const HttpRequest& request, const ResponderPtr& responder, std::string who) {
          ask(question_of_body(info, request), responder, std::move(who));
        });
  }

  /// `cancel` is an op of its own, and no verb.
  void add_cancel() {
    add("POST", "/v1/cancel", Role::manager,
        [this](const HttpRequest& request, const ResponderPtr& responder, std::string who) {
          static constexpr AdminInfo kCancel{{}, "cancel", "id", "", ""};
          auto question = question_of_body(kCancel, request);
          if (question) {
            question->op = "cancel";
            question->fields.erase(question->fields.begin());  // `do`
          }
          ask(std::move(question), responder, std::move(who));
        });
  }

  void ask(tl::expected<Question, std::string> question, const ResponderPtr& responder, std::string who) {
    if (!question) return responder->answer(refused(400, "bad_request", question.error()));
    question->who = std::move(who);
    link_.ask(*question, [responder](const LoopAnswer& answer) {
      responder->answer(json_of(answer.status, answer.document));
    });
  }

  HttpAccess access_;
  Followers followers_;
  http::Router router_{http::Router::Prefixes::none};
  http::HttpServer server_;
  OperatorLink link_;
  Sampler sampler_;
  const std::string url_;
  std::thread thread_;
};

AdminHttp::AdminHttp(const HttpOptions& options, HttpChange now, zmq::context_t& context,
                     const std::string& operators)
    : core_(std::make_unique<Core>(options, std::move(now), context, operators)) {}

AdminHttp::~AdminHttp() = default;

const std::string& AdminHttp::url() const {
  return core_->url();
}

void AdminHttp::change(HttpChange change) {
  core_->change(std::move(change));
}

}  // namespace lanemq::admin
