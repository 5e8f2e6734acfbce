// SPDX-License-Identifier: Apache-2.0
#include "client/library/link.hpp"

#include <mutex>
#include <stdexcept>
#include <utility>

#include <sys/epoll.h>
#include <unistd.h>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "common/signals/signals_blocked.hpp"
#include "common/zmq/curve.hpp"
#include "common/zmq/endpoints.hpp"

namespace lanemq::client {
namespace {

// In messages: what one side may queue while the other is busy. The pending bounds count bytes.
constexpr int kQueueMessagesMax = 1'000;
constexpr int kReconnectMs = 100;
constexpr int kHandshakeMs = 5'000;
constexpr std::int64_t kFrameSlackBytes = std::int64_t{1024} * 1024;  // a header beside an inline body

/// One context for all clients of the process: with several, libzmq was seen to crash.
std::shared_ptr<zmq::context_t> shared_context() {
  const SignalsBlocked meanwhile;  // the context starts threads
  static std::mutex mutex;
  static std::weak_ptr<zmq::context_t> shared;
  const std::lock_guard lock(mutex);
  std::shared_ptr<zmq::context_t> context = shared.lock();
  if (!context) shared = context = std::make_shared<zmq::context_t>(1);
  return context;
}

std::invalid_argument no_endpoint(const socket::BadEndpoint& bad) {
  return std::invalid_argument("\"" + printable(bad.endpoint) + "\" is no endpoint to connect to (" +
                               bad.reason + "); give one such as tcp://127.0.0.1:5570");
}

constexpr char kNoDescriptors[] = "cannot make a descriptor; raise the limit of open files";

}  // namespace

// ---- descriptors --------------------------------------------------------------------------------------

Descriptors::Descriptors() : fd_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (fd_ < 0) throw std::runtime_error(kNoDescriptors);
}

Descriptors::~Descriptors() {
  ::close(fd_);
}

void Descriptors::add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) != 0) throw std::runtime_error(kNoDescriptors);
}

void Descriptors::remove(int fd) {
  ::epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr);
}

// ---- the link -----------------------------------------------------------------------------------------

Link::Link(const std::string& endpoints, CurveKeys keys, std::size_t body_bytes_max)
    : context_(shared_context()),
      endpoints_(endpoints),
      keys_(std::move(keys)),
      frame_bytes_max_(static_cast<std::int64_t>(body_bytes_max) + kFrameSlackBytes),
      ends_(make_ends()) {
  if (endpoints_.several())
    if (const auto bad = socket::bad_endpoint(*context_, endpoints_.all())) throw no_endpoint(*bad);
  watch(ends_);
  look_up();
}

Link::~Link() {}

Link::Ends Link::make_ends() try {
  const SignalsBlocked meanwhile;
  Ends ends{zmq::socket_t(*context_, zmq::socket_type::dealer), socket::Monitor()};
  zmq::socket_t& socket = ends.socket;
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, kQueueMessagesMax);
  socket.set(zmq::sockopt::rcvhwm, kQueueMessagesMax);
  socket.set(zmq::sockopt::maxmsgsize, frame_bytes_max_);
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::ipv6, true);

  socket::show_keys(socket, keys_);
  ends.monitor =
      socket::Monitor(*context_, ends.socket,
                      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
                          ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL);
  awaits_address_ = socket::named_endpoint(endpoints_.current()).has_value();
  if (!awaits_address_) connect(socket);
  return ends;
} catch (const zmq::error_t& error) {
  if (error.num() == EMFILE || error.num() == ENFILE || error.num() == ENOMEM)
    throw std::runtime_error(std::string("cannot make a socket: ") + error.what() +
                             "; raise the limit of open files");
  throw no_endpoint({endpoints_.current(), error.what()});
}

/// Throws zmq::error_t.
void Link::connect(zmq::socket_t& socket) {
  reached_ = false;
  place_ = endpoints_.current();
  socket.connect(place_);
}

void Link::let_go() try {
  if (reached_ && !place_.empty()) ends_.socket.disconnect(std::exchange(place_, {}));
} catch (const zmq::error_t&) {  // it was not connected
}

void Link::look_up() {
  addresses_.begin(endpoints_.named());
  if (!looks_ && addresses_.fd() >= 0) {
    watched_.add(addresses_.fd());
    looks_ = true;
  }
}

std::size_t Link::take_addresses() {
  endpoints_.set_addresses(addresses_.known());
  return endpoints_.all().size();
}

/// The present endpoint's name has been looked up, or is not known in time.
std::optional<LinkEvent> Link::take_address() {
  take_addresses();
  if (socket::named_endpoint(endpoints_.current())) {
    if (addresses_.awaits(endpoints_.current())) return std::nullopt;
    awaits_address_ = false;
    return LinkEvent::nobody;
  }
  awaits_address_ = false;
  try {
    connect(ends_.socket);
  } catch (const zmq::error_t&) {  // an address that this libzmq does not take
    return LinkEvent::nobody;
  }
  return std::nullopt;
}

void Link::reopen() {
  take_addresses();
  endpoints_.turn();
  look_up();  // also for the next time
  place_.clear();
  Ends fresh = make_ends();
  watch(fresh);
  unwatch(ends_);
  ends_.monitor = std::move(fresh.monitor);
  ends_.socket = std::move(fresh.socket);
}

std::size_t Link::learn(const std::vector<std::string>& told) {
  socket::learn(*context_, endpoints_, told);
  return endpoints_.all().size();
}

std::size_t Link::forget(const std::vector<std::string>& endpoints) {
  for (const std::string& endpoint : endpoints)
    endpoints_.forget(endpoint);
  return endpoints_.all().size();
}

void Link::watch(const Ends& ends) {
  watched_.add(ends.socket.get(zmq::sockopt::fd));
  try {
    watched_.add(ends.monitor.descriptor());
  } catch (const std::exception&) {
    watched_.remove(ends.socket.get(zmq::sockopt::fd));
    throw;
  }
}

void Link::unwatch(const Ends& ends) {
  watched_.remove(ends.socket.get(zmq::sockopt::fd));
  watched_.remove(ends.monitor.descriptor());
}

bool Link::may_go_on() const {
  return ends_.socket.get(zmq::sockopt::events) != 0;
}

bool Link::send(const Outgoing& outgoing) {
  const bool has_body = outgoing.body != nullptr;
  zmq::message_t header(outgoing.header.data(), outgoing.header.size());
  const auto flags =
      zmq::send_flags::dontwait | (has_body ? zmq::send_flags::sndmore : zmq::send_flags::none);
  if (!ends_.socket.send(header, flags)) return false;
  if (!has_body) return true;
  // libzmq counts messages, so room for the first frame is room for the whole message. Should the second
  // frame fail all the same, silence leads to a new connection, which sends the request again.
  zmq::message_t body = socket::lend(*outgoing.body);
  static_cast<void>(ends_.socket.send(body, zmq::send_flags::dontwait));
  return true;
}

bool Link::receive(Received& received) {
  received = {};
  if (!message_.receive(ends_.socket)) return false;
  received.malformed = message_.fault() != nullptr;
  received.header = message_.header();
  if (!received.malformed && message_.body_frame()) received.body = message_.take_body_frame();
  return true;
}

std::optional<LinkEvent> Link::next_event() {
  if (looks_) addresses_.heed();
  if (awaits_address_)
    if (const std::optional<LinkEvent> nobody = take_address()) return nobody;
  while (const auto event = ends_.monitor.next())
    switch (event->number) {
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        reached_ = true;
        return LinkEvent::connected;
      case ZMQ_EVENT_DISCONNECTED:
        return LinkEvent::disconnected;
      case ZMQ_EVENT_CONNECT_RETRIED:
        return LinkEvent::nobody;
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return LinkEvent::refused;
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        if (event->value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) return LinkEvent::other_kind;
        break;
      default:
        break;
    }
  return std::nullopt;
}

}  // namespace lanemq::client
