// SPDX-License-Identifier: Apache-2.0
#include "client/link.hpp"

#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include <sys/epoll.h>
#include <unistd.h>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "client/signals_blocked.hpp"

namespace lanemq::client {
namespace {

// Messages, not bytes: what one side may hold while the other is busy. The pending bounds hold beside them.
constexpr int kQueueMessagesMax = 1'000;
constexpr int kReconnectMs = 100;
constexpr int kHandshakeMs = 5'000;
constexpr std::size_t kFramesMax = limits::envelope_frames_max + 2;
constexpr std::int64_t kFrameSlackBytes = std::int64_t{1024} * 1024;  // a header beside an inline body

/// One context for all clients of the process: several in one process have been seen to crash libzmq.
std::shared_ptr<zmq::context_t> shared_context() {
  const SignalsBlocked meanwhile;  // it starts threads
  static std::mutex mutex;
  static std::weak_ptr<zmq::context_t> shared;
  const std::lock_guard lock(mutex);
  std::shared_ptr<zmq::context_t> context = shared.lock();
  if (!context) shared = context = std::make_shared<zmq::context_t>(1);
  return context;
}

std::string monitor_name() {
  static std::atomic<std::uint64_t> made{0};
  return "inproc://lanemq-client-monitor-" + std::to_string(++made);
}

std::string_view view_of(const zmq::message_t& message) {
  return {static_cast<const char*>(message.data()), message.size()};
}

/// A message that lends the Blob's bytes to libzmq and keeps them alive until it is done with them.
zmq::message_t lend(const Blob& body) {
  auto keeper = std::make_unique<Blob>(body);
  zmq::message_t message(
      const_cast<char*>(body.bytes().data()), body.size(),
      [](void*, void* hint) { delete static_cast<Blob*>(hint); }, keeper.get());
  static_cast<void>(keeper.release());
  return message;
}

/// A Blob that keeps the message it came in.
Blob adopt(zmq::message_t&& message) {
  auto owner = std::make_shared<zmq::message_t>(std::move(message));
  const std::string_view bytes = view_of(*owner);
  return Blob::own(std::move(owner), bytes);
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

Link::Link(std::string endpoint, std::size_t body_bytes_max)
    : context_(shared_context()),
      endpoint_(std::move(endpoint)),
      frame_bytes_max_(static_cast<std::int64_t>(body_bytes_max) + kFrameSlackBytes),
      ends_(make_ends()) {
  watch(ends_);
}

Link::~Link() {
  // Silenced first: the monitor must not outlive its reader.
  if (ends_.socket) zmq_socket_monitor(ends_.socket.handle(), nullptr, 0);
}

Link::Ends Link::make_ends() try {
  const SignalsBlocked meanwhile;
  Ends ends{zmq::socket_t(*context_, zmq::socket_type::dealer),
            zmq::socket_t(*context_, zmq::socket_type::pair)};
  zmq::socket_t& socket = ends.socket;
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, kQueueMessagesMax);
  socket.set(zmq::sockopt::rcvhwm, kQueueMessagesMax);
  socket.set(zmq::sockopt::maxmsgsize, frame_bytes_max_);
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::ipv6, true);

  ends.monitor.set(zmq::sockopt::linger, 0);
  const std::string name = monitor_name();
  if (zmq_socket_monitor(socket.handle(), name.c_str(),
                         ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) != 0)
    throw zmq::error_t();
  ends.monitor.connect(name);
  socket.connect(endpoint_);
  return ends;
} catch (const zmq::error_t& error) {
  if (error.num() == EMFILE || error.num() == ENFILE || error.num() == ENOMEM)
    throw std::runtime_error(std::string("cannot make a socket: ") + error.what() +
                             "; raise the limit of open files");
  throw std::invalid_argument("\"" + printable(endpoint_) + "\" is no endpoint to connect to (" +
                              error.what() + "); give one such as tcp://127.0.0.1:5570");
}

void Link::reopen() {
  Ends fresh = make_ends();
  watch(fresh);
  unwatch(ends_);
  zmq_socket_monitor(ends_.socket.handle(), nullptr, 0);
  ends_ = std::move(fresh);
}

void Link::watch(const Ends& ends) {
  watched_.add(ends.socket.get(zmq::sockopt::fd));
  try {
    watched_.add(ends.monitor.get(zmq::sockopt::fd));
  } catch (const std::exception&) {
    watched_.remove(ends.socket.get(zmq::sockopt::fd));
    throw;
  }
}

void Link::unwatch(const Ends& ends) {
  watched_.remove(ends.socket.get(zmq::sockopt::fd));
  watched_.remove(ends.monitor.get(zmq::sockopt::fd));
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
  // Room for a message's first frame is room for all of it: libzmq counts messages. Should the second fail
  // nevertheless, the connection is replaced on silence and the request sent again.
  zmq::message_t body = lend(*outgoing.body);
  static_cast<void>(ends_.socket.send(body, zmq::send_flags::dontwait));
  return true;
}

bool Link::receive(Received& received) {
  received = {};
  if (!ends_.socket.recv(header_, zmq::recv_flags::dontwait)) return false;
  std::size_t frames = 1;
  bool more = header_.more();
  // Frames before the header are envelope; what comes behind the body is nobody's.
  while (more && !is_header(view_of(header_))) {
    static_cast<void>(ends_.socket.recv(header_));
    more = header_.more();
    if (++frames > kFramesMax) received.malformed = true;
  }
  while (more) {
    zmq::message_t frame;
    static_cast<void>(ends_.socket.recv(frame));
    more = frame.more();
    if (received.body || ++frames > kFramesMax)
      received.malformed = true;
    else
      received.body = adopt(std::move(frame));
  }
  if (is_header(view_of(header_))) received.header = view_of(header_);
  return true;
}

std::optional<LinkEvent> Link::next_event() {
  zmq::message_t event, address;
  if (!ends_.monitor.recv(event, zmq::recv_flags::dontwait)) return std::nullopt;
  if (event.more()) static_cast<void>(ends_.monitor.recv(address));
  std::uint16_t number = 0;
  std::memcpy(&number, event.data(), sizeof number);
  return number == ZMQ_EVENT_DISCONNECTED ? LinkEvent::disconnected : LinkEvent::connected;
}

}  // namespace lanemq::client
