// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/zap_handler.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#include "broker/io/peers/key_ring.hpp"
#include "common/log/log.hpp"
#include "common/signals/signals_blocked.hpp"
#include "common/zmq/curve.hpp"
#include "common/zmq/message.hpp"

namespace lanemq::io {
namespace {

using socket::view_of;

constexpr char kEndpoint[] = "inproc://zeromq.zap.01";
constexpr std::size_t kKeyBytes = 32;
/// The frames of a request: version, request id, domain, address, identity, mechanism, credentials.
constexpr std::size_t kVersion = 0, kRequestId = 1, kDomain = 2, kAddress = 3, kMechanism = 5,
                      kCredentials = 6, kFrames = 7;

std::string text_of(const zmq::message_t& key) {
  std::array<char, kCurveKeyChars + 1> text{};
  zmq_z85_encode(text.data(), static_cast<const std::uint8_t*>(key.data()), key.size());
  return text.data();
}

}  // namespace

ZapHandler::ZapHandler(zmq::context_t& context, const KeyRing& keys, bool asks)
    : keys_(keys), asks_(asks), requests_(context, zmq::socket_type::rep), stop_(::eventfd(0, EFD_CLOEXEC)) {
  requests_.set(zmq::sockopt::linger, 0);
  requests_.bind(kEndpoint);
  const SignalsBlocked meanwhile;
  thread_ = std::thread([this] { serve(); });
}

ZapHandler::~ZapHandler() {
  ::eventfd_write(stop_, 1);
  thread_.join();
  ::close(stop_);
}

void ZapHandler::serve() {
  while (true) {
    std::array<zmq::pollitem_t, 2> items{
        {{requests_.handle(), 0, ZMQ_POLLIN, 0}, {nullptr, stop_, ZMQ_POLLIN, 0}}};
    socket::uninterrupted([&] { return zmq::poll(items); });
    if (items[1].revents != 0) return;
    if (items[0].revents != 0) answer();
  }
}

/// Writes who was refused.
void ZapHandler::log_refusal(std::string_view door, std::string_view address, const std::string& key,
                             const std::string& why) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  if (!lines_.may_write(std::chrono::steady_clock::now())) return;
  log::event(log::Level::warning, "peer.key_refused",
             {{"door", door},
              {"address", address},
              {"public_key", key},
              {"reason", why},
              {"left_out", lines_.take_left_out()}});
}

void ZapHandler::answer() {
  std::vector<zmq::message_t> request;
  do {
    request.emplace_back();
    static_cast<void>(socket::uninterrupted([&] { return requests_.recv(request.back()).has_value(); }));
  } while (request.back().more());
  std::string why, key;
  if (request.size() >= kCredentials && view_of(request[kMechanism]) == "NULL" &&
      (!asks_ || view_of(request[kDomain]) == kOperatorsDomain)) {
    // Nobody's key is looked at.
  } else if (request.size() != kFrames || view_of(request[kMechanism]) != "CURVE" ||
             request[kCredentials].size() != kKeyBytes) {
    why = "the broker takes CURVE keys alone";
    if (request.size() < kFrames) request.resize(kFrames);
  } else {
    key = text_of(request[kCredentials]);
    const Door door = view_of(request[kDomain]) == name_of(Door::workers) ? Door::workers : Door::clients;
    why = keys_.why_shut(key, door, std::chrono::system_clock::now());
  }
  if (!why.empty()) log_refusal(view_of(request[kDomain]), view_of(request[kAddress]), key, why);
  const auto put = [&](std::string_view frame, bool more = true) {
    requests_.send(zmq::buffer(frame), more ? zmq::send_flags::sndmore : zmq::send_flags::none);
  };
  put(view_of(request[kVersion]));
  put(view_of(request[kRequestId]));
  // The answer to a stranger reveals nothing about existing keys.
  put(why.empty() ? "200" : "400");
  put(why.empty() ? "" : "refused");
  put(why.empty() ? key : "");
  put("", false);
}

}  // namespace lanemq::io
