// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <zmq.hpp>

#include <lanemq/blob.hpp>
#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>

/// The protocol's messages on ZeroMQ's sockets: `[envelope...] header [body]`, read and lent without a copy.
namespace lanemq::socket {

/// What the call returns once no signal disturbs it.
template <class Call>
auto uninterrupted(Call call) {
  for (;;)
    try {
      return call();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
}

inline std::string_view view_of(const zmq::message_t& frame) {
  return {static_cast<const char*>(frame.data()), frame.size()};
}

/// Bytes that are lent to libzmq. It lets go of them on a thread of its own.
using Outstanding = std::atomic<std::int64_t>;

/// A frame that lends the bytes of `body` to libzmq and keeps them alive until it has sent them.
/// `outstanding`, where there is one, counts them until then. Requires: `body` owns its bytes.
zmq::message_t lend(const Blob& body, std::shared_ptr<Outstanding> outstanding = nullptr);

/// One message as it came, without its envelope. Used again from message to message; views live until the
/// next receive().
class Message {
 public:
  std::string_view header() const { return view_of(header_); }
  /// The frame behind the header, if there is one.
  std::optional<std::string_view> body_frame() const {
    return has_body_ ? std::optional(view_of(body_)) : std::nullopt;
  }
  /// Null, or why this is no message: no header, or frames too many. The header is empty where there is none.
  const char* fault() const { return fault_; }
  /// The file descriptor of the connection that it came by; -1 where the transport does not say. Requires:
  /// its body has not been taken.
  int descriptor() const { return zmq_msg_get(header_.handle(), ZMQ_SRCFD); }

  /// For keeping: the body frame's bytes, or `inside`, those inside the header that the decoder found. Up to
  /// `borrow_max` are only borrowed, larger ones take their frame along.
  Blob take_body(std::string_view inside, std::size_t borrow_max);
  /// For keeping: the body frame, up to limits::inline_bytes_max as a copy. Requires: there is one.
  Blob take_body_frame();

  /// Takes the next message of a DEALER without waiting; false: none is there. Nobody is told of its
  /// envelope.
  bool receive(zmq::socket_ref socket);
  /// Takes the rest of a message of a ROUTER, whose first frame, the address, was read; `more`: whether there
  /// is a rest. `keep` hears each frame of the envelope and returns null, or why that makes the message none.
  template <class Keep>
  void receive_rest(zmq::socket_ref socket, bool more, Keep keep);

 private:
  void begin();
  template <class Keep>
  void take_before_header(Keep keep);
  template <class Keep>
  void take_rest(zmq::socket_ref socket, bool more, Keep keep);
  void take_behind_header();
  void end();

  zmq::message_t header_, body_;
  bool has_header_ = false, has_body_ = false;
  std::size_t envelope_frames_ = 0;
  const char* fault_ = nullptr;
};

inline constexpr char kTooManyFrames[] = "too many frames: at most 5 before the header and one behind it";
static_assert(limits::envelope_frames_max == 5, "as the text says");

/// Takes the frame in header_: it is the header, or one of the envelope's.
template <class Keep>
void Message::take_before_header(Keep keep) {
  if (fault_ != nullptr) return;  // the rest of a message that is none
  has_header_ = is_header(header());
  if (has_header_) return;
  fault_ = ++envelope_frames_ > limits::envelope_frames_max ? kTooManyFrames : keep(header());
}

template <class Keep>
void Message::receive_rest(zmq::socket_ref socket, bool more, Keep keep) {
  begin();
  take_rest(socket, more, keep);
}

/// Takes what follows, if more does.
template <class Keep>
void Message::take_rest(zmq::socket_ref socket, bool more, Keep keep) {
  while (more) {
    zmq::message_t& frame = has_header_ ? body_ : header_;
    const bool behind = has_header_;
    static_cast<void>(uninterrupted([&] { return socket.recv(frame).has_value(); }));
    more = frame.more();
    if (behind)
      take_behind_header();
    else
      take_before_header(keep);
  }
  end();
}

}  // namespace lanemq::socket
