// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <zmq.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/messages.hpp>

namespace lanemq::test {

/// A broker of one thread that answers every submit with its own body, until it is told otherwise.
class FakeBroker {
 public:
  /// What it does with a submit that it was sent.
  enum class Manner : unsigned char { echo, ignore };

  /// Without an endpoint a free port is taken.
  explicit FakeBroker(const std::string& endpoint = "tcp://127.0.0.1:*", Manner manner = Manner::echo)
      : manner_(manner), socket_(context_, zmq::socket_type::router) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndhwm, 100'000);
    socket_.set(zmq::sockopt::ipv6, true);
    socket_.bind(endpoint);
    endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
    thread_ = std::thread([this] { serve(); });
  }
  /// All its connections go with it.
  ~FakeBroker() {
    stopping_ = true;
    thread_.join();
  }
  FakeBroker(const FakeBroker&) = delete;
  FakeBroker& operator=(const FakeBroker&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  std::size_t submits() const { return submits_; }

 private:
  void serve() {
    while (!stopping_) {
      zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
      if (zmq::poll(&item, 1, std::chrono::milliseconds(10)) == 0) continue;
      std::vector<zmq::message_t> frames(1);
      (void)socket_.recv(frames[0]);
      while (frames.back().more())
        (void)socket_.recv(frames.emplace_back());
      answer(frames);
    }
    socket_.close();
  }

  static std::string_view view(const zmq::message_t& message) {
    return {static_cast<const char*>(message.data()), message.size()};
  }

  void answer(std::vector<zmq::message_t>& frames) {
    wire::ClientRequest request;
    if (frames.size() < 2 || decoder_.decode(view(frames[1]), request) != nullptr) return;
    header_.clear();
    if (const auto* submit = std::get_if<wire::Submit>(&request)) {
      ++submits_;
      if (manner_ == Manner::ignore) return;
      const wire::JobResult result{.id = submit->id, .lane = "normal", .ref = submit->ref};
      if (frames.size() > 2)
        encode(result, header_);
      else
        encode(result, decoder_.body(), header_);
    } else if (const auto* ping = std::get_if<wire::Ping>(&request)) {
      encode(wire::Pong{.now_ms = 1, .version = "fake", .ref = ping->ref}, header_);
    } else {
      return;
    }
    const bool body = frames.size() > 2;
    socket_.send(frames[0], zmq::send_flags::sndmore);
    socket_.send(zmq::buffer(header_.view()), body ? zmq::send_flags::sndmore : zmq::send_flags::none);
    if (body) socket_.send(frames[2], zmq::send_flags::none);
  }

  const Manner manner_;
  zmq::context_t context_;
  zmq::socket_t socket_;
  std::string endpoint_;
  Decoder decoder_;
  Buffer header_;
  std::atomic<std::size_t> submits_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace lanemq::test
