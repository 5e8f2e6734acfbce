// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>

#include <zmq.hpp>

#include "tests/bench/bench_keys.hpp"
#include "tests/bench/ends.hpp"
#include "tests/bench/process.hpp"

// The wire of the bare broker (bench_raw.cpp): a client sends [body] and gets [body] back, an empty body asks
// for an empty one; a worker sends ["", capacity] once and is answered ["", ""], then gets [client, body] and
// sends the same back. In batches a client sends [body body …] and gets the same, a worker gets
// [(size of the client's id, that id, body) …] and sends it back. Nothing else is on the wire.
namespace lanemq::bench {
namespace {

class BareClient final : public ClientEnd {
 public:
  BareClient(const std::string& endpoint, SendAhead ahead, std::size_t batch)
      : socket_(context_, zmq::socket_type::dealer), batch_(batch) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvtimeo, kReplyTimeoutMs);
    socket_.set(zmq::sockopt::rcvhwm, 0);
    if (ahead == SendAhead::unbounded) socket_.set(zmq::sockopt::sndhwm, 0);
    show_key(socket_, End::client);
    socket_.connect(endpoint);
  }

  void submit(const JobBody& body, Lane) override {
    std::memcpy(kept_.data() + kept_bytes_, &body, sizeof body);
    kept_bytes_ += sizeof body;
    if (kept_bytes_ == batch_ * sizeof body) push();
  }
  void push() override {
    if (kept_bytes_ == 0) return;
    socket_.send(zmq::const_buffer(kept_.data(), kept_bytes_), zmq::send_flags::none);
    kept_bytes_ = 0;
  }

  bool receive(JobBody& reply, Wait wait) override {
    if (left_ == 0) {
      if (!take(wait)) return false;
      left_ = message_.size();
      if (message_.empty() || message_.size() % kBodyBytes != 0 || message_.size() > batch_ * kBodyBytes)
        throw Failure("the bare broker sent a reply of another size");
    }
    std::memcpy(&reply, message_.data<char>() + message_.size() - left_, sizeof reply);
    left_ -= sizeof reply;
    return true;
  }

  void flush() override {
    socket_.send(zmq::const_buffer(), zmq::send_flags::none);
    take(Wait::until_reply);
    if (!message_.empty()) throw Failure("the bare broker sent a reply where none was due");
  }

 private:
  bool take(Wait wait) {
    const auto flags = wait == Wait::no ? zmq::recv_flags::dontwait : zmq::recv_flags::none;
    if (!socket_.recv(message_, flags)) {
      if (wait == Wait::no) return false;
      throw Failure("no reply from the bare broker within 10 s");
    }
    if (message_.more()) throw Failure("the bare broker sent more than one frame");
    return true;
  }

  zmq::context_t context_;
  zmq::socket_t socket_;
  zmq::message_t message_;
  std::size_t left_ = 0;  ///< bytes of the message that were not read yet
  const std::size_t batch_;
  std::array<char, kBatchMax * kBodyBytes> kept_;
  std::size_t kept_bytes_ = 0;
};

class BareWorker final : public WorkerEnd {
 public:
  BareWorker(const std::string& endpoint, const WorkerPlace& place)
      : socket_(context_, zmq::socket_type::dealer), capacity_(place.capacity), batch_(place.batch) {
    // The broker finds a worker by the second byte of its routing id, without a table.
    const std::array<char, 2> routing_id{'W', static_cast<char>(place.index)};
    socket_.set(zmq::sockopt::routing_id, zmq::const_buffer(routing_id.data(), routing_id.size()));
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndhwm, 0);
    socket_.set(zmq::sockopt::rcvhwm, 0);
    show_key(socket_, End::worker);
    socket_.connect(endpoint);
  }

  void announce() override {
    socket_.send(zmq::const_buffer(), zmq::send_flags::sndmore);
    socket_.send(zmq::const_buffer(&capacity_, sizeof capacity_), zmq::send_flags::none);
    socket_.set(zmq::sockopt::rcvtimeo, kReplyTimeoutMs);
    take();
    if (!client_.empty() || !body_.empty()) throw Failure("the bare broker sent no welcome");
    socket_.set(zmq::sockopt::rcvtimeo, -1);
  }

  [[noreturn]] void run(const Performer& performer) override {
    if (batch_ > 1) run_batches(performer);
    for (;;) {
      take();
      if (body_.size() != kBodyBytes) throw Failure("the bare broker sent a job of another size");
      performer.perform(body_.data());
      socket_.send(client_, zmq::send_flags::sndmore);
      socket_.send(body_, zmq::send_flags::none);
    }
  }

 private:
  [[noreturn]] void run_batches(const Performer& performer) {
    for (;;) {
      const bool got = socket_.recv(body_, zmq::recv_flags::none).has_value();
      if (!got || body_.more()) throw Failure("the bare broker sent another number of frames than one");
      for (std::size_t at = 0; at < body_.size(); at += kBodyBytes) {
        at += 1 + static_cast<unsigned char>(body_.data<char>()[at]);
        if (at + kBodyBytes > body_.size()) throw Failure("the bare broker sent a job of another size");
        performer.perform(body_.data<char>() + at);
      }
      socket_.send(body_, zmq::send_flags::none);
    }
  }

  void take() {
    const bool got = socket_.recv(client_, zmq::recv_flags::none).has_value();
    if (!got) throw Failure("no word from the bare broker within 10 s");
    if (!client_.more() || !socket_.recv(body_, zmq::recv_flags::none) || body_.more())
      throw Failure("the bare broker sent another number of frames than two");
  }

  zmq::context_t context_;
  zmq::socket_t socket_;
  std::int32_t capacity_;
  std::size_t batch_;
  zmq::message_t client_;
  zmq::message_t body_;
};

}  // namespace

std::unique_ptr<ClientEnd> make_bare_client(const std::string& endpoint, SendAhead ahead, std::size_t batch) {
  return std::make_unique<BareClient>(endpoint, ahead, batch);
}

std::unique_ptr<WorkerEnd> make_bare_worker(const std::string& endpoint, const WorkerPlace& place) {
  return std::make_unique<BareWorker>(endpoint, place);
}

}  // namespace lanemq::bench
