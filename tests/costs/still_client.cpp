// SPDX-License-Identifier: Apache-2.0
#include "tests/costs/still_client.hpp"

#include <cstdlib>
#include <utility>
#include <variant>

#include <lanemq/codec.hpp>
#include <lanemq/loop_client.hpp>

#include "client/library/handlers.hpp"
#include "client/library/request_desk.hpp"
#include "client/library/session.hpp"

namespace lanemq {
namespace costs {

StillWire& still_wire() {
  static StillWire wire;
  return wire;
}

}  // namespace costs

class LoopClient::Core {
 public:
  explicit Core(ClientOptions options)
      : options_(std::move(options)), desk_(options_), session_(Clock::now(), options_.batch_max) {
    costs::StillWire& wire = costs::still_wire();
    wire.process = [this] { process(); };
    wire.hear = [this](std::string_view header) { hear(header); };
    session_.connected();
  }
  ~Core() {
    session_.close();
    tell();
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  client::RequestDesk& desk() { return desk_; }
  client::Session& session() { return session_; }

  template <class T>
  void ask(client::RequestDesk::Made made, std::function<void(Reply<T>)> callback) {
    if (!made) std::abort();
    made->handler = client::calling<T>(std::move(callback));
    session_.begin(std::move(*made), Clock::now());
  }

  void process() {
    const client::TimePoint now = Clock::now();
    session_.advance(now);
    while (const std::optional<client::Outgoing> next = session_.next_send()) {
      if (const auto& sent = costs::still_wire().sent) sent(next->header, next->body);
      session_.sent(now);
    }
    tell();
  }

 private:
  void hear(std::string_view header) {
    if (decoder_.decode(header, {}, replies_) != nullptr) std::abort();
    const client::TimePoint now = Clock::now();
    for (std::size_t i = 0; i < replies_.size(); ++i)
      session_.heard(replies_[i], Blob::borrow(replies_.body(i)), now);
    tell();
  }

  void tell() {
    session_.take_arrived(arrived_);
    session_.take_finished(finished_);
    for (client::Arrived& arrived : arrived_) {
      desk_.give_back_bytes(arrived.freed_bytes);
      (*arrived.on_chunk)(std::move(arrived.chunk));
    }
    for (client::Finished& finished : finished_) {
      if (finished.takes_place) desk_.give_back(finished.body_bytes);
      finished.handler(std::move(finished.outcome));
    }
    arrived_.clear();
    finished_.clear();
  }

  const ClientOptions options_;
  client::RequestDesk desk_;
  client::Session session_;
  Decoder decoder_;
  Items<wire::ClientReply> replies_;
  std::vector<client::Arrived> arrived_;
  std::vector<client::Finished> finished_;
};

LoopClient::LoopClient(ClientOptions options, std::function<void()>)
    : core_(std::make_unique<Core>(std::move(options))) {}
LoopClient::~LoopClient() = default;

void LoopClient::submit(JobRequest request, const Blob& body, AnswerCallback callback) {
  core_->ask<JobDone>(core_->desk().submit(client::RequestKind::submit, std::move(request), body),
                      std::move(callback));
}
void LoopClient::stream(JobRequest request, const Blob& body, StreamReader reader) {
  AnswerCallback on_end = std::move(reader.on_end);
  core_->ask<JobDone>(core_->desk().stream(std::move(request), body, reader), std::move(on_end));
}
void LoopClient::seen(const std::string& id, std::int64_t seq) {
  core_->session().seen(id, seq, Clock::now());
}
ClientCounters LoopClient::counters() const {
  return core_->session().counters();
}

// What no path asks for.
int LoopClient::fd() const {
  std::abort();
}
void LoopClient::process() {
  std::abort();
}
std::optional<LoopClient::Clock::time_point> LoopClient::next_wakeup() const {
  std::abort();
}
void LoopClient::close() {
  std::abort();
}
void LoopClient::leave(JobRequest, const Blob&, std::function<void(Reply<JobAccepted>)>) {
  std::abort();
}
void LoopClient::follow(const std::string&, std::int64_t, StreamReader) {
  std::abort();
}
void LoopClient::status(const std::string&, std::function<void(Reply<JobStatus>)>, std::string, std::string) {
  std::abort();
}
void LoopClient::cancel(const std::string&, std::function<void(Reply<JobStatus>)>) {
  std::abort();
}
void LoopClient::fetch(const std::string&, std::chrono::milliseconds, std::function<void(FetchAnswer)>) {
  std::abort();
}
void LoopClient::ping(std::function<void(Reply<BrokerPong>)>, std::string) {
  std::abort();
}
void LoopClient::spend(const SpendRequest&, std::function<void(Reply<BrokerSpent>)>) {
  std::abort();
}
void LoopClient::stats(std::int64_t, std::function<void(Reply<BrokerStats>)>, std::string) {
  std::abort();
}
void LoopClient::admin(const AdminRequest&, std::function<void(Reply<AdminDocument>)>) {
  std::abort();
}
std::string LoopClient::shard_of(const std::string&, const std::string&, const std::string&) const {
  std::abort();
}
std::string LoopClient::shard_of_spend() const {
  std::abort();
}
std::size_t LoopClient::pending() const {
  std::abort();
}

}  // namespace lanemq
