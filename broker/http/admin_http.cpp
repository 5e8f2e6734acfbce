// SPDX-License-Identifier: Apache-2.0
#include "broker/http/admin_http.hpp"

#include <thread>
#include <utility>

#include <lanemq/admin_table.hpp>

#include "broker/http/access/http_access.hpp"
#include "broker/http/access/operator_link.hpp"
#include "broker/http/feeds/followers.hpp"
#include "broker/http/feeds/history_feed.hpp"
#include "broker/http/feeds/sampler.hpp"
#include "broker/http/feeds/watch_feed.hpp"
#include "broker/http/metrics.hpp"
#include "broker/http/openapi.hpp"
#include "broker/http/page.hpp"
#include "broker/http/readiness.hpp"
#include "broker/http/scrapes.hpp"
#include "broker/http/verb_requests.hpp"
#include "common/explanation/explanation.hpp"
#include "common/http/server/listen.hpp"
#include "common/http/server/server.hpp"
#include "common/log/log.hpp"
#include "common/metrics/families.hpp"
#include "common/signals/signals_blocked.hpp"

namespace lanemq::admin {
namespace {

using http::HttpAnswer;
using http::HttpRequest;
using http::ResponderPtr;

std::string_view code_of(http::Refusal kind) {
  switch (kind) {
    case http::Refusal::bad_request:
    case http::Refusal::expectation_failed:
    case http::Refusal::method_not_allowed:
      return "bad_request";
    case http::Refusal::header_too_large:
    case http::Refusal::target_too_long:
    case http::Refusal::body_too_large:
      return "too_large";
    case http::Refusal::not_implemented:
    case http::Refusal::version_not_supported:
      return "not_implemented";
    case http::Refusal::not_found:
      return "not_found";
    case http::Refusal::out_of_memory:
    case http::Refusal::disk_refuses:
      return "busy";
    case http::Refusal::failed:
      break;
  }
  return "internal";
}

/// The refusals of the server itself.
HttpAnswer refused_by_server(http::Refusal kind, std::string_view detail) {
  std::string message(detail);
  if (kind == http::Refusal::not_found)
    message += "; /v1/openapi.json lists what there is, by verbs of lanemq";
  return refused(http::status_of(kind), code_of(kind), message);
}

/// The explanation of a job, as `lanemq explain` gives it.
Json explained(const Json& job) {
  JobNow now{.id = job.value("id", ""),
             .lane = job.value("lane", ""),
             .state = job.value("state", ""),
             .blocked_by = job.value("blocked_by", ""),
             .worker = job.value("worker", ""),
             .attempts = job.value("attempts", std::int64_t{0}),
             .error_code = job.value("code", ""),
             .error_message = job.value("message", "")};
  if (job.contains("eta_ms")) now.eta = std::chrono::milliseconds(job.value("eta_ms", std::int64_t{0}));
  const Explanation explanation = explain(now);
  return {{"what", explanation.what}, {"help", explanation.help}};
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
        scrapes_(link_, server_, options.metrics_clients),
        watches_(context, operators, server_),
        url_(http::url_of(now.identity ? "https" : "http", options.server.address, server_.port())) {
    if (now.identity) server_.encrypt(std::move(now.identity));
    add_probes();
    add_metrics();
    add_looks();
    add_page();
    for (const AdminInfo& info : admin_table())
      add_verb(info);
    add_cancel();
    sampler_.on_sample([this](const auto& sample) {
      history_.add(sample->at_ms, feed_.values(sample));
      followers_.send(*sample);
    });
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
    server_.run([](std::string_view reason) {
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
      responder->answer(http::text_answer(verdict.good ? 200 : 503, verdict.text));
    });
    router_.add("GET", "/readyz", [this](const HttpRequest&, const ResponderPtr& responder) {
      const auto& last = sampler_.last();
      const Verdict verdict = readiness(last ? &last->stats : nullptr, sampler_.age());
      responder->answer(http::text_answer(verdict.good ? 200 : 503, verdict.text));
    });
  }

  void add_metrics() {
    add("GET", "/metrics", Role::viewer,
        [this](const HttpRequest&, const ResponderPtr& responder, const std::string&) {
          // Old figures would look like a broker that goes on.
          if (Verdict alive = health(sampler_.age()); !alive.good)
            return responder->answer(refused(503, "unavailable", alive.text));
          scrapes_.ask([this, responder](const Scrapes::Rows& rows) {
            const auto& last = sampler_.last();
            if (!rows || !last)
              return responder->answer(refused(503, "unavailable", "the loop has not answered yet"));
            HttpAnswer answer = http::text_answer(200, metrics_text(last->stats, *rows));
            answer.headers.set("content-type", metrics::Families::kContentType);
            responder->answer(std::move(answer));
          });
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
    add("GET", "/v1/watch", Role::viewer,
        [this](const HttpRequest& request, const ResponderPtr& responder, std::string who) {
          if (watches_.full())
            return responder->answer(refused(503, "busy",
                                             std::to_string(WatchFeed::kReadersMax) +
                                                 " watch by HTTP already; close one, or use lanemq watch"));
          auto question = question_of_query(kWatchRequest, request);
          if (!question) return responder->answer(refused(400, "bad_request", question.error()));
          question->op = "watch";
          question->fields.erase(question->fields.begin());  // `do`
          question->who = std::move(who);
          watches_.add(std::move(*question), std::string(request.headers.get("last-event-id")), responder);
        });
    add("GET", "/v1/jobs/{id*}", Role::viewer,
        [this](const HttpRequest& request, const ResponderPtr& responder, std::string who) {
          link_.ask(
              {.op = "admin", .fields = {{"do", "job"}, {"id", request.param("id")}}, .who = std::move(who)},
              [responder](LoopAnswer answer) {
                if (answer.status == 200) answer.document["explanation"] = explained(answer.document);
                responder->answer(json_of(answer.status, answer.document));
              });
        });
  }

  /// The page for people, and its requests besides verbs. The files hold no data of the broker: everybody may
  /// read them.
  void add_page() {
    router_.add("GET", "/", [](const HttpRequest& request, const ResponderPtr& responder) {
      responder->answer(page_answer(*page_file(kFrontPage), request));
    });
    router_.add("GET", "/page/{name*}", [](const HttpRequest& request, const ResponderPtr& responder) {
      const PageFile* const file = page_file(request.param("name"));
      responder->answer(file != nullptr ? page_answer(*file, request)
                                        : refused(404, "not_found", "the page has no such file"));
    });
    add("GET", "/v1/history", Role::viewer,
        [this](const HttpRequest& request, const ResponderPtr& responder, const std::string&) {
          const std::string span = request.query_param("span");
          if (span != "15m" && span != "24h")
            return responder->answer(refused(400, "bad_request", "field \"span\" must be 15m or 24h"));
          HttpAnswer answer = http::json_answer(
              200, history_.json(span == "15m" ? HistorySpan::quarter_hour : HistorySpan::day,
                                 request.query_param("prefix")));
          answer.headers.set("cache-control", "no-store");
          answer.headers.set("x-content-type-options", "nosniff");
          responder->answer(std::move(answer));
        });
    add("GET", "/v1/me", Role::viewer,
        [this](const HttpRequest& request, const ResponderPtr& responder, const std::string& who) {
          const bool may_change = access_.caller_of(request, Role::manager, server_.now()).has_value();
          responder->answer(json_of(200, {{"who", who},
                                          {"role", name_of(may_change ? Role::manager : Role::viewer)},
                                          {"keys", access_.has_keys()}}));
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
  Scrapes scrapes_;
  WatchFeed watches_;
  History history_;
  HistoryFeed feed_;
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
