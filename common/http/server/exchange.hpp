// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/http/server/base/responder.hpp"
#include "common/http/server/server_core.hpp"

namespace lanemq::http {

/// The Responder of a connection's present request. Keeps the connection alive.
class HttpServer::Core::Exchange final : public Responder, public std::enable_shared_from_this<Exchange> {
 public:
  explicit Exchange(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  /// A handler that forgets its request has failed.
  ~Exchange() override;

  /// Ends an answer that the handler left open.
  void fail(std::string_view detail);
  void answer(HttpAnswer answer) override;
  void begin(int status, Headers headers) override;
  void write(Blob bytes, std::function<void()> written) override;
  void end() override;
  void cut() override;
  void tell(AnswerFacts facts) override { facts_ = std::move(facts); }
  void on_gone(std::function<void()> gone) override;
  bool gone() const override { return gone_; }
  bool has_hung_up() override;
  /// The caller left before its answer was whole.
  void caller_is_gone();

 private:
  void finish();
  void note_head(int status, const Headers& headers);
  void report();
  void answer_later(HttpAnswer answer);
  void forget_callback();

  std::shared_ptr<Connection> connection_;
  std::function<void()> gone_callback_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  AnswerFacts facts_;
  std::string request_id_;
  int status_ = 0;
  bool begun_ = false, over_ = false, gone_ = false, whole_ = true;
};

}  // namespace lanemq::http
