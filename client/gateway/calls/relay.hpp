// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/calls/flights.hpp"
#include "client/gateway/door/gateway.hpp"
#include "common/http/server/base/responder.hpp"

namespace lanemq::gateway {

/// Brings a flight's answer to its caller: status, headers, the body or a stream's pieces with keep-alives
/// between them, and errors in the API's form.
///
/// A stream's status is held back until there is content or an error, or the commit time is over; later
/// errors are sent inside the stream. A caller that hangs up leaves the flight. Its responder keeps it alive
/// until the answer's end.
class Relay final : public FlightWatcher, public std::enable_shared_from_this<Relay> {
 public:
  /// `traceparent`: where what the request causes stands; empty: nowhere.
  Relay(Gateway& gateway, CallerLimits& limits, Caller caller, std::string request_id,
        std::string traceparent, ResponderPtr responder);
  ~Relay() override;
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Follows the flight. Requires: limits.take() let the caller in; this relay gives it back.
  void follow(const Flights::Boarded& boarded);

  void on_chunk(std::int64_t seq, const Blob& bytes) override;
  void on_done(const JobDone& done) override;
  void on_failed(const ClientError& error) override;

 private:
  Headers headers() const;
  void tell(const std::optional<wire::Usage>& usage);
  void begin();
  void on_whole(const Blob& body);
  void commit_after(std::chrono::milliseconds time);
  bool may_be_refused() const;
  void commit();
  void watch_silence();
  void gone();
  void over();

  Gateway& gateway_;
  CallerLimits& limits_;
  const Caller caller_;
  const std::string request_id_, traceparent_;
  const Loop::TimePoint arrived_;
  ResponderPtr responder_;
  std::shared_ptr<Flight> flight_;
  std::unique_ptr<Loop::Timer> timer_;
  Loop::TimePoint written_at_;
  bool begun_ = false, over_ = false;
};

}  // namespace lanemq::gateway
