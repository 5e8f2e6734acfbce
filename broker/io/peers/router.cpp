// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/router.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

#include <lanemq/limits.hpp>

#include "common/settings/folders.hpp"
#include "common/zmq/curve.hpp"

namespace lanemq::io {
namespace {

constexpr char kEnvelopeTooLarge[] = "the frames before the header hold more than 1024 bytes";

/// Peers whose outstanding bytes are counted at a time, before idle ones are dropped.
constexpr std::size_t kOutstandingSweep = 1024;

void pack_frame(std::string& envelope, std::string_view frame) {
  const auto size = static_cast<std::uint16_t>(frame.size());
  envelope.append(reinterpret_cast<const char*>(&size), sizeof size);
  envelope.append(frame);
}

std::string_view next_frame(std::string_view& envelope) {
  std::uint16_t size = 0;
  std::memcpy(&size, envelope.data(), sizeof size);
  const std::string_view frame = envelope.substr(sizeof size, size);
  envelope.remove_prefix(sizeof size + size);
  return frame;
}

}  // namespace

std::string_view first_frame(std::string_view envelope) {
  return envelope.empty() ? envelope : next_frame(envelope);
}

const char* Incoming::keep_envelope_frame(std::string_view frame) {
  pack_frame(envelope_, frame);
  from_req_ = frame.empty();
  return envelope_.size() > limits::envelope_bytes_max ? kEnvelopeTooLarge : nullptr;
}

BindError::BindError(const std::string& endpoint, int error)
    : BindError(endpoint, error == EADDRINUSE ? "another program has that port, a broker perhaps"
                          : error == ENODEV   ? "give a numeric address of this machine, such as 127.0.0.1"
                                              : zmq_strerror(error)) {}

std::optional<std::string> why_no_socket_file(const std::string& endpoint) {
  constexpr std::string_view kIpc = "ipc://";
  if (!endpoint.starts_with(kIpc) || endpoint.ends_with(":*")) return std::nullopt;
  const std::string path = endpoint.substr(kIpc.size());
  struct stat there {};
  if (path.empty() || path == "*" || path.front() == '@' || ::lstat(path.c_str(), &there) != 0)
    return std::nullopt;
  if (!S_ISSOCK(there.st_mode)) return "there is a file that is no socket; remove it, or name another path";
  if (settings::listens_at(path)) return "another program listens there";
  return std::nullopt;
}

Router::Router(zmq::context_t& context, const RouterOptions& options)
    : socket_(context, zmq::socket_type::router),
      large_bytes_max_(options.large_bytes_max),
      is_encrypted_(!options.secret_key.empty()) {
  socket_.set(zmq::sockopt::router_mandatory, true);
  socket_.set(zmq::sockopt::rcvhwm, options.receive_hwm);
  socket_.set(zmq::sockopt::sndhwm, options.send_hwm);
  socket_.set(zmq::sockopt::maxmsgsize, options.frame_bytes_max);
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::backlog, 1024);
  // With ipv6 set an IPv4 endpoint is named ::ffff:127.0.0.1, which not every peer can connect to.
  socket_.set(zmq::sockopt::ipv6, options.endpoint.find('[') != std::string::npos);
  socket_.set(zmq::sockopt::handshake_ivl, 5000);
  // The kernel sees each packet, so it finds connections that a network dropped silently: within 15 s when
  // idle, 20 s with data on the way.
  socket_.set(zmq::sockopt::tcp_keepalive, 1);
  socket_.set(zmq::sockopt::tcp_keepalive_idle, 5);
  socket_.set(zmq::sockopt::tcp_keepalive_intvl, 5);
  socket_.set(zmq::sockopt::tcp_keepalive_cnt, 2);
  socket_.set(zmq::sockopt::tcp_maxrt, 20000);
  // No heartbeat of libzmq: a peer that does not know it would be cut, and while nothing is read all would.
  socket_.set(zmq::sockopt::heartbeat_ivl, 0);
  if (!options.zap_domain.empty()) socket_.set(zmq::sockopt::zap_domain, options.zap_domain);
  if (!options.secret_key.empty()) socket::ask_for_keys(socket_, options.secret_key);
  // Before the other one: endpoint() is the one that was bound last.
  if (!options.inner.empty()) socket_.bind(options.inner);
  if (const auto why_not = why_no_socket_file(options.endpoint)) throw BindError(options.endpoint, *why_not);
  // umask and not chmod afterwards: a stranger could connect in between.
  const mode_t before = options.private_file ? ::umask(0117) : mode_t{};
  const int bound = zmq_bind(socket_.handle(), options.endpoint.c_str());
  if (options.private_file) ::umask(before);
  if (bound != 0) throw BindError(options.endpoint, zmq_errno());
}

std::string Router::endpoint() const {
  return socket_.get(zmq::sockopt::last_endpoint);
}

bool Router::receive(Incoming& message) {
  if (!socket_.recv(message.address_, zmq::recv_flags::dontwait)) return false;
  message.envelope_.clear();
  message.from_req_ = message.was_held_ = false;
  message.receive_rest(socket_, message.address_.more(),
                       [&](std::string_view frame) { return message.keep_envelope_frame(frame); });
  if (message.header().empty()) message.envelope_.clear();
  return true;
}

std::shared_ptr<socket::Outstanding> Router::outstanding_of(std::string_view address) {
  if (outstanding_.size() >= kOutstandingSweep)
    absl::erase_if(outstanding_,
                   [](const auto& entry) { return entry.second->load(std::memory_order_relaxed) == 0; });
  auto& place = outstanding_[std::string(address)];
  if (!place) place = std::make_shared<socket::Outstanding>(0);
  return place;
}

void Router::shut_out(std::string_view address) {
  // Addresses are never used again, so that those of ended connections only take room.
  if (shut_out_.size() >= kShutOutMax) shut_out_.erase(shut_out_.begin());
  shut_out_.emplace(address);
}

SendStatus Router::send(std::string_view address, std::string_view envelope, std::string_view header,
                        const Blob& body) {
  if (!shut_out_.empty() && shut_out_.contains(address)) return SendStatus::gone;
  std::shared_ptr<socket::Outstanding> outstanding;
  if (!body.empty()) {
    outstanding = outstanding_of(address);
    if (outstanding->load(std::memory_order_relaxed) > large_bytes_max_) return SendStatus::slow;
  }
  const auto put = [&](zmq::message_t frame, bool more) {
    const auto flags = zmq::send_flags::dontwait | (more ? zmq::send_flags::sndmore : zmq::send_flags::none);
    return socket_.send(frame, flags).has_value();
  };
  try {
    if (!put(zmq::message_t(address.data(), address.size()), true)) return SendStatus::slow;
  } catch (const zmq::error_t& error) {
    if (error.num() == EHOSTUNREACH) return SendStatus::gone;
    throw;
  }
  while (!envelope.empty()) {
    const std::string_view frame = next_frame(envelope);
    put(zmq::message_t(frame.data(), frame.size()), true);
  }
  put(zmq::message_t(header.data(), header.size()), !body.empty());
  if (!body.empty()) put(socket::lend(body, std::move(outstanding)), false);
  return SendStatus::sent;
}

}  // namespace lanemq::io
