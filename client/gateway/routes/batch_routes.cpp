// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/routes/batch_routes.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <optional>
#include <system_error>

#include <unistd.h>

#include <lanemq/text.hpp>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/batches/batch_api.hpp"
#include "common/http/server/access/secret.hpp"
#include "common/http/server/bodies/disk_faults.hpp"

namespace lanemq::gateway {
namespace {

/// Bytes of a form besides its file.
constexpr std::size_t kFormBytes = std::size_t{64} * 1024;
constexpr std::size_t kBatchParamsBytesMax = std::size_t{64} * 1024;
constexpr std::size_t kPieceBytes = std::size_t{256} * 1024;  ///< of a download
constexpr std::size_t kLargeFileFrom = std::size_t{1} << 20;  ///< tens of milliseconds to scan
constexpr std::chrono::milliseconds kDrainRetryAfter{1'000};

ListRequest list_of(const HttpRequest& request, const BatchApi& batches) {
  return {.after = request.query_param(batches.after),
          .before = batches.before.empty() ? std::string() : request.query_param(batches.before),
          .limit = request.query_param("limit"),
          .order = request.query_param("order"),
          .purpose = request.query_param("purpose")};
}

/// The start of links. Never from the request's headers: a caller that follows a link shows its key there.
std::string base_url_of(const Settings& settings, const HttpRequest& request) {
  return settings.public_url.empty() ? std::string() : settings.public_url + std::string(request.prefix);
}

/// The error of an exception: the disk refused, or a fault of the program. On any thread.
ApiError error_of(DiskLog& log, const std::exception& error) {
  const auto* const fault = dynamic_cast<const StoreFault*>(&error);
  const bool full = fault != nullptr && fault->full;
  log.note(error.what());
  ApiError result{.name = full ? "store_full" : "internal",
                  .message = full ? "the gateway's disk is full; try again later"
                                  : "the gateway cannot read or write what it keeps; its log says why"};
  if (full) result.retry_after = std::chrono::seconds(60);
  return result;
}

/// Sends a file: reads it beside the loop, sends it on the loop, piece by piece.
class Download : public std::enable_shared_from_this<Download> {
 public:
  /// `owner`: of the file, whose key may be taken away meanwhile.
  Download(const Gateway& gateway, std::string owner, OpenFile file, ResponderPtr responder)
      : gateway_(gateway),
        owner_(std::move(owner)),
        file_(std::move(file)),
        responder_(std::move(responder)) {}
  ~Download() { ::close(file_.fd); }
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  void begin(Headers headers) {
    responder_->begin(200, std::move(headers));
    next();
  }

 private:
  void next() {
    if (responder_->gone()) return;
    if (sent_ == file_.bytes) return responder_->end();
    if (gateway_.settings.auth == Auth::keys && !gateway_.access.has_key(owner_)) return responder_->cut();
    auto piece = std::make_shared<std::string>();
    gateway_.loop.aside(
        Loop::Side::disk, [self = shared_from_this(), piece] { *piece = self->read(); },
        [self = shared_from_this(), piece] { self->send(std::move(*piece)); });
  }
  std::string read() const {
    std::string piece(static_cast<std::size_t>(std::min<std::int64_t>(
                          file_.bytes - sent_, static_cast<std::int64_t>(kPieceBytes))),
                      '\0');
    ssize_t got = -1;
    do {
      got = ::pread(file_.fd, piece.data(), piece.size(), static_cast<off_t>(sent_));
    } while (got < 0 && errno == EINTR);
    piece.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return piece;
  }
  void send(std::string piece) {
    // Cuts the connection, so that the reader sees that the file is not whole.
    if (piece.empty()) return responder_->cut();
    sent_ += static_cast<std::int64_t>(piece.size());
    responder_->write(blob_of(std::move(piece)), [self = shared_from_this()] { self->next(); });
  }

  const Gateway& gateway_;
  const std::string owner_;
  OpenFile file_;
  ResponderPtr responder_;
  std::int64_t sent_ = 0;
};

/// A request that the service works on. Belongs to the loop's thread, like its responder; moved between
/// threads, never shared.
struct Asked {
  HttpRequest request{};
  ResponderPtr responder{};
};

/// Called on the service's thread: `then` runs on the loop's, where the responder is released.
template <class Then>
void hand_back(Loop& loop, Asked asked, Then then) {
  loop.post([back = std::make_shared<Asked>(std::move(asked)), then = std::move(then)] { then(*back); });
}

}  // namespace

tl::expected<BatchCaller, ApiError> BatchRoutes::caller_of(const HttpRequest& request, const Api& api,
                                                           Takes takes) const {
  const tl::expected<Caller, ApiError> caller = gateway_.access.caller_of(request);
  if (!caller) return tl::unexpected(caller.error());
  if (std::optional<ApiError> error = batch_api_of(api).why_not(request))
    return tl::unexpected(*std::move(error));
  if (service_ == nullptr)
    return tl::unexpected(
        ApiError{.name = "not_kept", .message = "files and batches are not kept here: " + why_not_});
  const Settings& settings = gateway_.settings;
  if (takes == Takes::new_work) {
    if (std::optional<ApiError> error = why_not_forwarded(request.headers)) return tl::unexpected(*error);
    if (gateway_.draining)
      return tl::unexpected(ApiError{.name = "draining",
                                     .message = "this gateway is stopping and takes no work; try again",
                                     .retry_after = kDrainRetryAfter});
    const std::string& api_service = settings.services[api];
    if (!caller->may_use_service(api_service)) return tl::unexpected(forbidden_service(api_service));
    if (!caller->lanes().allows(settings.batches.lane))
      return tl::unexpected(ApiError{.name = "forbidden",
                                     .message = "batches run in lane \"" + settings.batches.lane +
                                                "\", which is not allowed with this key"});
  }
  BatchCaller result{
      .owner = caller->name, .client = caller->client, .base_url = base_url_of(settings, request)};
  if (caller->key != nullptr) {
    for (const std::string& pattern : caller->key->models)
      result.models += pattern + "\n";
    result.files_bytes_max = static_cast<std::int64_t>(caller->key->files_bytes_max);
  }
  if (request.method == "POST") {
    auto asked = read_asked_again(request);
    if (!asked) return tl::unexpected(std::move(asked.error()));
    result.asked = *std::move(asked);
    result.asked_retain = settings.idempotency_retain;
  }
  for (const std::string_view name : api.forwarded_headers) {
    const std::string_view value = request.headers.get(name);
    if (!value.empty()) result.headers.append(name).append(" ").append(value).append("\n");
  }
  return result;
}

void BatchRoutes::know_again(BatchCaller& caller, const HttpRequest& request, std::string_view content) {
  if (caller.asked.idempotency_key.empty() && !caller.asked.sdk_retries) return;
  caller.request = request.path + " " + sha256_hex(content);  // it may have 256 MiB
}

void BatchRoutes::serve(HttpRequest request, const ResponderPtr& responder, const Api& api, Takes takes,
                        const Ask& ask) {
  auto caller = caller_of(request, api, takes);
  if (!caller) return responder->answer(refusal(gateway_, request, caller.error()));
  if (takes == Takes::new_work) know_again(*caller, request, request.body.bytes());
  const auto holder = std::make_shared<Asked>(Asked{std::move(request), responder});
  service_->ask([this, holder, &api, ask, caller = *caller, began = gateway_.loop.now()](BatchDesk& desk,
                                                                                         WallTime now) {
    Asked asked = std::move(*holder);
    Reply reply;
    try {
      reply = ask(desk, caller, asked.request, now);
    } catch (const std::exception& error) {
      reply = tl::unexpected(error_of(gateway_.disk_log, error));
    }
    hand_back(gateway_.loop, std::move(asked),
              [this, &api, began, reply = std::move(reply)](const Asked& back) {
                HttpAnswer answer =
                    reply ? json_answer(200, *reply) : refusal(gateway_, back.request, reply.error());
                gateway_.metrics.took(gateway_.loop.now() - began);
                if (reply) add_request_id(api, request_id_of(back.request), answer.headers);
                back.responder->answer(std::move(answer));
              });
  });
}

/// An upload: the loop passes it to the service, which reserves room; then to the thread that reads and
/// writes it; then to the service, which adds its row. Moved, never shared, and released on the loop's
/// thread.
struct BatchRoutes::UnderWay {
  HttpRequest request{};
  ResponderPtr responder{};
  const Api* api = &kOpenai;
  BatchCaller caller{};
  Uploads uploads{};
  Loop::TimePoint began{};
  Upload upload{};
  Reply reply{};
};

void BatchRoutes::upload(HttpRequest request, const ResponderPtr& responder, const Api& api, Takes takes,
                         Uploads uploads) {
  auto caller = caller_of(request, api, takes);
  if (!caller) return responder->answer(refusal(gateway_, request, caller.error()));
  auto made = std::make_shared<UnderWay>(UnderWay{.request = std::move(request),
                                                  .responder = responder,
                                                  .api = &api,
                                                  .caller = *std::move(caller),
                                                  .uploads = uploads,
                                                  .began = gateway_.loop.now()});
  service_->ask([this, made = std::move(made)](BatchDesk& desk, WallTime) mutable {
    try {
      auto upload = desk.begin_upload(made->caller, *made->api, made->request.body.size());
      if (upload)
        made->upload = *std::move(upload);
      else
        made->reply = tl::unexpected(std::move(upload.error()));
    } catch (const std::exception& error) {
      made->reply = tl::unexpected(error_of(gateway_.disk_log, error));
    }
    Loop& loop = gateway_.loop;
    loop.post([this, made = std::move(made)] { made->reply ? read_upload(made) : end_upload(*made); });
  });
}

/// Scanning and writing a large file takes seconds, so neither callers nor batches wait for it, nor downloads
/// and small files of others.
void BatchRoutes::read_upload(std::shared_ptr<UnderWay> under_way) {
  const bool is_large = under_way->request.body.size() >= kLargeFileFrom;
  gateway_.loop.aside(
      is_large ? Loop::Side::files : Loop::Side::disk,
      [this, under_way, &settings = gateway_.settings.batches] {
        try {
          const DiskFaults faults;
          const auto read = under_way->uploads.read(settings, under_way->request, under_way->upload);
          if (!read)
            under_way->reply = tl::unexpected(read.error());
          else
            know_again(under_way->caller, under_way->request, under_way->upload.content);
          if (faults.happened())
            under_way->reply = tl::unexpected(ApiError{
                .name = "internal", .message = "the gateway's disk does not give back what was uploaded"});
        } catch (const std::exception& error) {
          under_way->reply = tl::unexpected(error_of(gateway_.disk_log, error));
        }
        under_way->request.body = {};
        if (!under_way->reply) under_way->upload.writing.reset();
      },
      [this, under_way] { under_way->reply ? add_upload(under_way) : end_upload(*under_way); });
}

void BatchRoutes::add_upload(std::shared_ptr<UnderWay> under_way) {
  service_->ask([this, under_way = std::move(under_way)](BatchDesk& desk, WallTime now) mutable {
    try {
      under_way->reply = under_way->uploads.add(desk, under_way->caller, under_way->upload, now);
    } catch (const std::exception& error) {
      under_way->reply = tl::unexpected(error_of(gateway_.disk_log, error));
    }
    under_way->upload.writing.reset();
    Loop& loop = gateway_.loop;
    loop.post([this, under_way = std::move(under_way)] { end_upload(*under_way); });
  });
}

void BatchRoutes::end_upload(const UnderWay& under_way) {
  const Reply& reply = under_way.reply;
  HttpAnswer answer = reply ? json_answer(200, *reply) : refusal(gateway_, under_way.request, reply.error());
  gateway_.metrics.took(gateway_.loop.now() - under_way.began);
  if (reply) add_request_id(*under_way.api, request_id_of(under_way.request), answer.headers);
  under_way.responder->answer(std::move(answer));
}

void BatchRoutes::send_file(HttpRequest request, const ResponderPtr& responder, const Api& api,
                            std::string_view type, const Open& open) {
  const auto caller = caller_of(request, api, Takes::no_work);
  if (!caller) return responder->answer(refusal(gateway_, request, caller.error()));
  const auto holder = std::make_shared<Asked>(Asked{std::move(request), responder});
  service_->ask([this, holder, &api, type, open, caller = *caller](BatchDesk& desk, WallTime) {
    Asked asked = std::move(*holder);
    tl::expected<OpenFile, ApiError> file;
    try {
      file = open(desk, caller, asked.request);
    } catch (const std::exception& error) {
      file = tl::unexpected(error_of(gateway_.disk_log, error));
    }
    hand_back(gateway_.loop, std::move(asked),
              [this, &api, type, file, owner = caller.owner](const Asked& back) {
                if (!file) return back.responder->answer(refusal(gateway_, back.request, file.error()));
                Headers headers{{"content-type", std::string(type)}, {"cache-control", "no-store"}};
                add_request_id(api, request_id_of(back.request), headers);
                std::make_shared<Download>(gateway_, owner, *file, back.responder)->begin(std::move(headers));
              });
  });
}

void BatchRoutes::add_to(Router& router) {
  const BatchSettings& settings = gateway_.settings.batches;
  const auto admit = [this](const Api& api, Takes takes) {
    return [this, &api, takes](const HttpRequest& head) -> tl::expected<std::string, HttpAnswer> {
      const auto caller = caller_of(head, api, takes);
      if (!caller) return tl::unexpected(refusal(gateway_, head, caller.error()));
      return caller->owner;
    };
  };
  const auto add = [&](const char* method, std::string pattern, const Api& api, Takes takes,
                       std::size_t body_bytes_max, Ask ask) {
    router.add(Route{
        .method = method,
        .pattern = pattern,
        .handler =
            [this, &api, takes, ask = std::move(ask)](HttpRequest request, const ResponderPtr& responder) {
              serve(std::move(request), responder, api, takes, ask);
            },
        .body_bytes_max = body_bytes_max,
        .admit = admit(api, takes)});
  };
  const auto add_upload_route = [&](const char* pattern, const Api& api, Takes takes,
                                    std::size_t body_bytes_max, std::string bound, Uploads uploads) {
    router.add(Route{.method = "POST",
                     .pattern = pattern,
                     .handler =
                         [this, &api, takes, uploads](HttpRequest request, const ResponderPtr& responder) {
                           upload(std::move(request), responder, api, takes, uploads);
                         },
                     .body_bytes_max = body_bytes_max,
                     .body_bound = std::move(bound),
                     .spool_folder = service_ == nullptr ? "" : settings.folder,
                     .admit = admit(api, takes)});
  };
  const auto add_file = [&](const char* pattern, const Api& api, std::string_view type, Open open) {
    router.add(
        "GET", pattern,
        [this, &api, type, open = std::move(open)](HttpRequest request, const ResponderPtr& responder) {
          send_file(std::move(request), responder, api, type, open);
        });
  };
  using Desk = BatchDesk;
  using Who = const BatchCaller;
  using What = const HttpRequest;
  const Api &openai = kOpenai, &anthropic = kAnthropic;

  add_upload_route(
      "/v1/files", openai, Takes::no_work, settings.file_bytes_max + kFormBytes, "file_bytes_max",
      {.read =
           [](const BatchSettings& bounds, What& request, Upload& upload) {
             return read_file_form(bounds, request.headers.get("content-type"), request.body.bytes(), upload);
           },
       .add = [](Desk& desk, Who& who, const Upload& upload,
                 WallTime now) { return desk.create_file(who, upload, now); }});
  add("GET", "/v1/files", openai, Takes::no_work, 0, [](Desk& desk, Who& who, What& request, WallTime) {
    return desk.files(who, list_of(request, kOpenaiBatches));
  });
  add("GET", "/v1/files/{id}", openai, Takes::no_work, 0,
      [](Desk& desk, Who& who, What& request, WallTime) { return desk.file(who, request.param("id")); });
  add("DELETE", "/v1/files/{id}", openai, Takes::no_work, 0,
      [](Desk& desk, Who& who, What& request, WallTime) {
        return desk.delete_file(who, request.param("id"));
      });
  add_file("/v1/files/{id}/content", openai, "application/octet-stream",
           [](Desk& desk, Who& who, What& request) { return desk.open_file(who, request.param("id")); });

  add("POST", "/v1/batches", openai, Takes::new_work, kBatchParamsBytesMax,
      [](Desk& desk, Who& who, What& request, WallTime now) {
        return desk.create_batch(who, request.body.bytes(), now);
      });
  add_upload_route(
      "/v1/messages/batches", anthropic, Takes::new_work, settings.message_batch_bytes_max,
      "message_batch_bytes_max",
      {.read = [](const BatchSettings& bounds, What& request,
                  Upload& upload) { return read_message_batch(bounds, request.body.bytes(), upload); },
       .add = [](Desk& desk, Who& who, const Upload& upload,
                 WallTime now) { return desk.create_message_batch(who, upload, now); }});
  for (const BatchApi* batches : kBatchApis) {
    const Api& api = *batches->api;
    const std::string path(batches->path);
    add("GET", path, api, Takes::no_work, 0, [batches](Desk& desk, Who& who, What& request, WallTime) {
      return desk.batches(who, *batches->api, list_of(request, *batches));
    });
    add("GET", path + "/{id}", api, Takes::no_work, 0, [&api](Desk& desk, Who& who, What& request, WallTime) {
      return desk.batch(who, api, request.param("id"));
    });
    add("POST", path + "/{id}/cancel", api, Takes::no_work, kBatchParamsBytesMax,
        [&api](Desk& desk, Who& who, What& request, WallTime now) {
          return desk.cancel_batch(who, api, request.param("id"), now);
        });
  }
  add("DELETE", "/v1/messages/batches/{id}", anthropic, Takes::no_work, 0,
      [](Desk& desk, Who& who, What& request, WallTime) {
        return desk.delete_message_batch(who, request.param("id"));
      });
  add_file("/v1/messages/batches/{id}/results", anthropic, "application/x-jsonl",
           [](Desk& desk, Who& who, What& request) { return desk.open_results(who, request.param("id")); });
}

}  // namespace lanemq::gateway
