// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <zmq.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/messages.hpp>

namespace lanemq::test {

/// What a FakeBroker answers to streams.
struct FakeStreams {
  std::int64_t pieces = 0;
  std::int64_t sent_max = pieces;  ///< fewer than all: the rest and the end do not come
};

/// A broker of one thread that answers every submit with its own body, until it is told otherwise. A stream
/// it answers with the pieces "0", "1", ..., no more ahead of what was seen than a window; a fetch reads it
/// from anywhere, whoever submitted it.
class FakeBroker {
 public:
  /// What it does with a submit that it was sent.
  enum class Manner : unsigned char { echo, ignore };
  using Streams = FakeStreams;

  /// Without an endpoint a free port is taken.
  explicit FakeBroker(const std::string& endpoint = "tcp://127.0.0.1:*", Manner manner = Manner::echo,
                      Streams streams = {})
      : manner_(manner), streams_(streams), socket_(context_, zmq::socket_type::router) {
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
  std::int64_t pieces_sent() const { return pieces_sent_; }
  std::size_t seen_messages() const { return seen_messages_; }

 private:
  struct Reader {
    std::string address, ref;
    std::int64_t next = 0, seen = -1;
    bool ended = false;
  };
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
    const auto* fetch = std::get_if<wire::Fetch>(&request);
    if (const auto* submit = std::get_if<wire::Submit>(&request)) {
      ++submits_;
      if (manner_ == Manner::ignore) return;
      if (submit->stream && submit->reply.empty()) return add_reader(frames[0], submit->ref, 0);
      if (submit->reply == "accepted") {
        encode(wire::Accepted{.id = submit->id, .lane = "normal", .ref = submit->ref}, header_);
        return say(view(frames[0]));
      }
      const wire::JobResult result{.id = submit->id, .lane = "normal", .ref = submit->ref};
      if (frames.size() > 2)
        encode(result, header_);
      else
        encode(result, decoder_.body(), header_);
    } else if (const auto* ping = std::get_if<wire::Ping>(&request)) {
      encode(wire::Pong{.now_ms = 1, .version = "fake", .ref = ping->ref}, header_);
    } else if (fetch != nullptr && fetch->from_seq) {
      return add_reader(frames[0], fetch->ref, *fetch->from_seq);
    } else if (fetch != nullptr) {
      encode(wire::JobResult{.id = fetch->id, .lane = "normal", .ref = fetch->ref}, "kept", header_);
    } else if (const auto* status = std::get_if<wire::StatusQuery>(&request)) {
      encode(wire::StatusReply{.id = status->id, .state = "running", .ref = status->ref}, header_);
    } else if (const auto* cancel = std::get_if<wire::Cancel>(&request)) {
      encode(wire::StatusReply{.id = cancel->id, .state = "cancelled", .ref = cancel->ref}, header_);
    } else if (const auto* seen = std::get_if<wire::Seen>(&request)) {
      ++seen_messages_;
      return note_seen(view(frames[0]), *seen);
    } else {
      return;
    }
    const bool body = frames.size() > 2;
    socket_.send(frames[0], zmq::send_flags::sndmore);
    socket_.send(zmq::buffer(header_.view()), body ? zmq::send_flags::sndmore : zmq::send_flags::none);
    if (body) socket_.send(frames[2], zmq::send_flags::none);
  }

  void say(std::string_view address) {
    socket_.send(zmq::buffer(address), zmq::send_flags::sndmore);
    socket_.send(zmq::buffer(header_.view()), zmq::send_flags::none);
  }

  void add_reader(const zmq::message_t& address, wire::Raw ref, std::int64_t from_seq) {
    readers_.push_back({std::string(view(address)), std::string(ref.bytes), from_seq, from_seq - 1});
    send_pieces(readers_.back());
  }

  void note_seen(std::string_view address, const wire::Seen& seen) {
    for (Reader& reader : readers_) {
      if (reader.address != address || reader.ref != seen.ref.bytes) continue;
      reader.seen = seen.seq;
      send_pieces(reader);
    }
  }

  void send_pieces(Reader& reader) {
    constexpr auto kWindow = static_cast<std::int64_t>(limits::stream_chunks_max);
    for (; reader.next < streams_.sent_max && reader.next - reader.seen <= kWindow; ++reader.next) {
      header_.clear();
      const wire::ChunkReply chunk{.seq = reader.next, .ref = {reader.ref}};
      encode(chunk, std::to_string(reader.next), header_);
      say(reader.address);
      ++pieces_sent_;
    }
    if (reader.next < streams_.pieces || std::exchange(reader.ended, true)) return;
    header_.clear();
    encode(wire::JobResult{.lane = "normal", .chunks = streams_.pieces, .ref = {reader.ref}}, header_);
    say(reader.address);
  }

  const Manner manner_;
  const Streams streams_;
  zmq::context_t context_;
  zmq::socket_t socket_;
  std::string endpoint_;
  Decoder decoder_;
  Buffer header_;
  std::vector<Reader> readers_;
  std::atomic<std::size_t> submits_{0}, seen_messages_{0};
  std::atomic<std::int64_t> pieces_sent_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace lanemq::test
