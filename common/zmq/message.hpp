// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <zmq.hpp>

#include <lanemq/blob.hpp>
#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>

/// The protocol's messages on ZeroMQ's sockets: `[envelope...] header [body]`, received and sent without
/// copies.
namespace lanemq::socket {

/// Repeats a call while a signal interrupts it, and returns its result.
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

/// Bytes lent to libzmq, which releases them on a thread of its own.
using Outstanding = std::atomic<std::int64_t>;

/// A frame that lends the bytes of `body` to libzmq and keeps them alive until they are sent. `outstanding`,
/// if given, counts them until then. Requires: `body` owns its bytes.
zmq::message_t lend(const Blob& body, std::shared_ptr<Outstanding> outstanding = nullptr);

/// One received message without its envelope. Used again for the next one; views are valid until the next
/// receive().
class Message {
 public:
  std::string_view header() const { return view_of(header_); }
  /// The frame behind the header, if there is one.
  std::optional<std::string_view> body_frame() const {
    if (!has_body_) return std::nullopt;
    return apart_.empty() ? view_of(body_) : apart_.bytes();
  }
  /// Why this is no message: it has no header, or too many frames; then header() is empty. Null: it is one.
  const char* fault() const { return fault_; }
  /// The descriptor of its connection; -1 where the transport does not tell.
  int descriptor() const { return zmq_msg_get(header_.handle(), ZMQ_SRCFD); }
  /// A property of its connection (zmq_msg_gets(3)); empty: it has none.
  std::string_view property(const char* name) const {
    const char* const value = zmq_msg_gets(header_.handle(), name);
    return value != nullptr ? std::string_view(value) : std::string_view();
  }

  /// Where its peer connects from, without a port; empty: the transport does not tell.
  std::string_view peer_address() const { return has_header_ ? property("Peer-Address") : from_; }

  /// The body to keep: the body frame, or `inside`, the body that the decoder found in the header. Up to
  /// `borrow_max` bytes are borrowed; a larger body takes its frame along, or shares the header's bytes: the
  /// header can be read as before.
  Blob take_body(std::string_view inside, std::size_t borrow_max);
  /// Gives it the body back that was taken out of it, or the same one elsewhere. Requires: `body` owns its
  /// bytes.
  void put_back(Blob body) { apart_ = std::move(body); }
  /// The body frame to keep, copied up to limits::inline_bytes_max. Requires: there is one.
  Blob take_body_frame();

  /// Receives a DEALER's next message without waiting; false: there is none. Drops its envelope.
  bool receive(zmq::socket_ref socket);
  /// Receives the rest of a ROUTER's message, after its address; `more`: whether there is a rest. `keep` gets
  /// each frame of the envelope, and returns null or why the message is invalid.
  template <class Keep>
  void receive_rest(zmq::socket_ref socket, bool more, Keep keep);

  /// Bytes that the message had on its connection, with what ZMTP 3.1 puts around frames; `encrypted`: by
  /// CURVE.
  std::uint64_t wire_bytes(bool encrypted) const { return wire_.bytes(encrypted); }

 private:
  /// RFC 37 (ZMTP): a frame has a flag and its length in one byte, or in eight from 256 bytes on. RFC 26
  /// (CURVE): it is a MESSAGE command of 33 bytes more.
  class WireSize {
   public:
    void clear() { *this = {}; }
    void add(std::size_t frame_bytes) {
      ++frames_;
      bytes_ += frame_bytes;
      long_ += frame_bytes > kShortMax ? 1 : 0;
      long_encrypted_ += frame_bytes + kEncryption > kShortMax ? 1 : 0;
    }
    std::uint64_t bytes(bool encrypted) const {
      const std::uint64_t longs = encrypted ? long_encrypted_ : long_;
      return bytes_ + frames_ * (2 + (encrypted ? kEncryption : 0)) + longs * 7;
    }

   private:
    static constexpr std::size_t kShortMax = 255, kEncryption = 33;
    std::uint64_t frames_ = 0, bytes_ = 0, long_ = 0, long_encrypted_ = 0;
  };

  void begin();
  template <class Keep>
  void take_before_header(Keep keep);
  template <class Keep>
  void take_rest(zmq::socket_ref socket, bool more, Keep keep);
  void take_behind_header();
  void end();

  zmq::message_t header_, body_;
  Blob apart_;  ///< the body, where it was put back
  WireSize wire_;
  bool has_header_ = false, has_body_ = false;
  std::size_t envelope_frames_ = 0;
  const char* fault_ = nullptr;
  std::string from_;  // of one without a header: that frame is not kept
};

inline constexpr char kTooManyFrames[] = "too many frames: at most 5 before the header and one behind it";
static_assert(limits::envelope_frames_max == 5, "as the text says");

/// Takes the frame in header_, which is the header or belongs to the envelope.
template <class Keep>
void Message::take_before_header(Keep keep) {
  if (fault_ != nullptr) return;  // reads the invalid message to its end
  has_header_ = is_header(header());
  if (has_header_) return;
  fault_ = ++envelope_frames_ > limits::envelope_frames_max ? kTooManyFrames : keep(header());
}

template <class Keep>
void Message::receive_rest(zmq::socket_ref socket, bool more, Keep keep) {
  begin();
  take_rest(socket, more, keep);
}

/// Receives the following frame, if there is one.
template <class Keep>
void Message::take_rest(zmq::socket_ref socket, bool more, Keep keep) {
  while (more) {
    zmq::message_t& frame = has_header_ ? body_ : header_;
    const bool behind = has_header_;
    static_cast<void>(uninterrupted([&] { return socket.recv(frame).has_value(); }));
    more = frame.more();
    wire_.add(frame.size());
    if (behind)
      take_behind_header();
    else
      take_before_header(keep);
  }
  end();
}

}  // namespace lanemq::socket
