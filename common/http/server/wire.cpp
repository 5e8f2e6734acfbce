// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/wire.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace lanemq::http {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kTlsRecordBytes = std::size_t{16} * 1024;

}  // namespace

Wire::Wire(Socket socket, std::shared_ptr<const TlsIdentity> identity)
    : socket_(std::move(socket)), identity_(std::move(identity)) {
  ErrorCode ignored;
  socket_.non_blocking(true, ignored);
}

std::string_view Wire::peek(std::span<char> room, bool& ended) {
  const ssize_t bytes = ::recv(socket_.native_handle(), room.data(), room.size(), MSG_PEEK | MSG_DONTWAIT);
  ended = bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR);
  return {room.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
}

std::size_t Wire::read(std::span<char> to, ErrorCode& error) {
  if (!tls_) return socket_.read_some(asio::buffer(to.data(), to.size()), error);
  std::size_t all = 0;
  TlsStep step = TlsStep::done;
  while (step == TlsStep::done && all < to.size()) {
    std::size_t came = 0;
    step = tls_->read(to.data() + all, to.size() - all, came);
    all += came;
  }
  if (all > 0 || step == TlsStep::done) return all;
  const bool waits = step == TlsStep::wants_read || step == TlsStep::wants_write;
  error = waits ? ErrorCode(asio::error::would_block) : ErrorCode(asio::error::eof);
  return 0;
}

std::size_t Wire::write(const Outgoing& out, std::span<char> scratch, ErrorCode& error) {
  if (!tls_) return socket_.write_some(out.gather(0), error);
  std::size_t written = 0;
  while (written < Gathered::kBytesMax && written < out.unwritten()) {
    const Gathered gathered = out.gather(written);
    const std::size_t size = asio::buffer_copy(asio::buffer(scratch.data(), kTlsRecordBytes), gathered);
    std::size_t went = 0;
    const TlsStep step = tls_->write({scratch.data(), size}, went);
    written += went;
    if (step == TlsStep::done) continue;
    if (written > 0) break;
    error = step == TlsStep::wants_write ? ErrorCode(asio::error::would_block)
                                         : ErrorCode(asio::error::connection_reset);
    break;
  }
  return written;
}

bool Wire::has_peer_closed() {
  pollfd looked_at{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&looked_at, 1, 0) > 0;
}

std::size_t Wire::unacknowledged() {
  int bytes = 0;
  if (::ioctl(socket_.native_handle(), SIOCOUTQ, &bytes) != 0) return 0;
  return static_cast<std::size_t>(bytes);
}

void Wire::end_writing() {
  if (tls_) tls_->say_end();
  ErrorCode ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void Wire::close() {
  ErrorCode ignored;
  socket_.close(ignored);
}

}  // namespace lanemq::http
