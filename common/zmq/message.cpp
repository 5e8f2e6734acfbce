// SPDX-License-Identifier: Apache-2.0
#include "common/zmq/message.hpp"

#include <utility>

namespace lanemq::socket {
namespace {

constexpr char kNoHeader[] = "no frame is an LMQ1 header: one starts with 93 A4 \"LMQ1\" or 94 A4 \"LMQ1\"";
constexpr char kBodyTwice[] = "the header holds a body and a body frame follows it; send one of them";

/// Keeps a lent body alive until libzmq has sent it.
struct Loan {
  std::shared_ptr<const void> owner;
  std::shared_ptr<Outstanding> outstanding;
  std::int64_t bytes;
};

void end_loan(void*, void* hint) {
  const std::unique_ptr<Loan> loan(static_cast<Loan*>(hint));
  if (loan->outstanding) loan->outstanding->fetch_sub(loan->bytes, std::memory_order_relaxed);
}

/// Makes a Blob of `bytes`, which lie in `frame`. Copies small ones, since a small frame may pin a whole
/// receive buffer. Larger ones keep the frame, whose bytes do not move.
Blob adopt(zmq::message_t&& frame, std::string_view bytes) {
  if (bytes.size() <= limits::inline_bytes_max) return Blob::copy(bytes);
  // A large message's buffer lies outside the message, so its address survives the move.
  return Blob::own(std::make_shared<zmq::message_t>(std::move(frame)), bytes);
}

}  // namespace

zmq::message_t lend(const Blob& body, std::shared_ptr<Outstanding> outstanding) {
  const auto bytes = static_cast<std::int64_t>(body.size());
  if (outstanding) outstanding->fetch_add(bytes, std::memory_order_relaxed);
  auto loan = std::make_unique<Loan>(Loan{body.owner(), std::move(outstanding), bytes});
  // libzmq does not write to sent bytes.
  return {const_cast<char*>(body.bytes().data()), body.size(), end_loan, loan.release()};
}

Blob Message::take_body(std::string_view inside, std::size_t borrow_max) {
  if (!apart_.empty()) return apart_;
  const std::string_view bytes = has_body_ ? view_of(body_) : inside;
  if (bytes.size() <= borrow_max) return Blob::borrow(bytes);
  if (has_body_) return adopt(std::move(body_), bytes);
  zmq::message_t header;
  header.copy(header_);  // shares the bytes, which stay where they are
  return adopt(std::move(header), bytes);
}

Blob Message::take_body_frame() {
  const std::string_view bytes = view_of(body_);
  return adopt(std::move(body_), bytes);
}

bool Message::receive(zmq::socket_ref socket) {
  const auto keep = [](std::string_view) -> const char* { return nullptr; };
  begin();
  if (!uninterrupted([&] { return socket.recv(header_, zmq::recv_flags::dontwait).has_value(); }))
    return false;
  take_before_header(keep);
  take_rest(socket, header_.more(), keep);
  return true;
}

void Message::begin() {
  has_header_ = has_body_ = false;
  apart_ = Blob();
  wire_.clear();
  envelope_frames_ = 0;
  fault_ = nullptr;
}

/// Takes the frame in body_, which is the body or one frame too many.
void Message::take_behind_header() {
  if (fault_ != nullptr) return;
  if (has_body_)
    fault_ = kTooManyFrames;
  else if (has_inline_body(header()))
    fault_ = kBodyTwice;
  has_body_ = true;
}

void Message::end() {
  if (has_header_) return;
  if (fault_ == nullptr) fault_ = kNoHeader;
  from_ = property("Peer-Address");
  header_.rebuild();
}

}  // namespace lanemq::socket
