// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/batches/batch_service.hpp"
#include "client/gateway/door/gateway.hpp"
#include "common/http/server/router.hpp"

namespace lanemq::gateway {

/// Serves `/v1/files` and `/v1/batches` of OpenAI's API and `/v1/messages/batches` of Anthropic's with a
/// BatchService. Belongs to the loop's thread; lives as long as the loop runs.
class BatchRoutes {
 public:
  /// Without a service it refuses all requests, with the reason `why_not`.
  BatchRoutes(Gateway& gateway, BatchService* service, std::string why_not = {})
      : gateway_(gateway), service_(service), why_not_(std::move(why_not)) {}

  void add_to(Router& router);

 private:
  using Reply = BatchDesk::Reply;
  /// A route's call of the desk, on the service's thread.
  using Ask = std::function<Reply(BatchDesk&, const BatchCaller&, const HttpRequest&, WallTime)>;
  using Open =
      std::function<tl::expected<OpenFile, ApiError>(BatchDesk&, const BatchCaller&, const HttpRequest&)>;
  /// What a route does with an upload: Read beside the loop, Add on the service's thread.
  struct Uploads {
    tl::expected<void, ApiError> (*read)(const BatchSettings&, const HttpRequest&, Upload&);
    Reply (*add)(BatchDesk&, const BatchCaller&, const Upload&, WallTime);
  };
  enum class Takes : unsigned char { no_work, new_work };
  struct UnderWay;

  void serve(HttpRequest request, const ResponderPtr& responder, const Api& api, Takes takes, const Ask& ask);
  void upload(HttpRequest request, const ResponderPtr& responder, const Api& api, Takes takes,
              Uploads uploads);
  void read_upload(std::shared_ptr<UnderWay> under_way);
  void add_upload(std::shared_ptr<UnderWay> under_way);
  void end_upload(const UnderWay& under_way);
  void send_file(HttpRequest request, const ResponderPtr& responder, const Api& api, std::string_view type,
                 const Open& open);
  tl::expected<BatchCaller, ApiError> caller_of(const HttpRequest& request, const Api& api,
                                                Takes takes) const;
  static void know_again(BatchCaller& caller, const HttpRequest& request, std::string_view content);

  Gateway& gateway_;
  BatchService* service_;
  std::string why_not_;
};

}  // namespace lanemq::gateway
