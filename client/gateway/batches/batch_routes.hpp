// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "client/gateway/batches/batch_service.hpp"
#include "client/gateway/gateway.hpp"
#include "client/gateway/http/router.hpp"

namespace lanemq::gateway {

/// `/v1/files` and `/v1/batches` of OpenAI's API and `/v1/messages/batches` of Anthropic's, in front of a
/// BatchService. Belongs to the loop's thread, and lives as long as the loop runs.
class BatchRoutes {
 public:
  /// Without a service everything is refused, with `why_not` for a reason.
  BatchRoutes(Gateway& gateway, BatchService* service, std::string why_not = {})
      : gateway_(gateway), service_(service), why_not_(std::move(why_not)) {}

  void add_to(Router& router);

 private:
  using Reply = BatchDesk::Reply;
  /// What a route asks of the desk; on the service's thread.
  using Ask = std::function<Reply(BatchDesk&, const BatchCaller&, const HttpRequest&, WallTime)>;
  using Open =
      std::function<tl::expected<OpenFile, ApiError>(BatchDesk&, const BatchCaller&, const HttpRequest&)>;
  enum class Takes : unsigned char { no_work, new_work };

  void serve(HttpRequest request, const ResponderPtr& responder, Api api, Takes takes, const Ask& ask);
  void send_file(HttpRequest request, const ResponderPtr& responder, Api api, std::string_view type,
                 const Open& open);
  tl::expected<BatchCaller, ApiError> caller_of(const HttpRequest& request, Api api, Takes takes) const;

  Gateway& gateway_;
  BatchService* service_;
  std::string why_not_;
};

}  // namespace lanemq::gateway
