// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <lanemq/loop_client.hpp>

#include "client/library/fleet.hpp"
#include "client/library/handlers.hpp"
#include "client/library/request_desk.hpp"

namespace lanemq {

class LoopClient::Core {
 public:
  Core(ClientOptions options, std::function<void()> on_work)
      : options_(std::move(options)),
        on_work_(std::move(on_work)),
        desk_(options_),
        fleet_(options_, desk_) {}
  ~Core() { close(); }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  client::RequestDesk& desk() { return desk_; }
  const client::Fleet& fleet() const { return fleet_; }

  template <class T>
  void ask(client::RequestDesk::Made made, std::function<void(Reply<T>)> callback) {
    client::Handler handler = client::calling<T>(std::move(callback));
    if (closed_) return handler(closed(made));
    if (made) {
      made->handler = std::move(handler);
      fleet_.begin(std::move(*made));
    } else {
      fleet_.end(std::move(handler), std::move(made.error()));
    }
    call_for_work();
  }

  void seen(const std::string& id, std::int64_t seq) {
    if (fleet_.seen(id, seq)) call_for_work();
  }

  void process() {
    if (closed_) return;
    called_ = true;  // process() itself handles what callbacks ask for
    fleet_.process();
    called_ = false;
  }

  void close() {
    closed_ = true;
    fleet_.close();
  }

  std::optional<Clock::time_point> next_wakeup() const {
    return closed_ ? std::nullopt : fleet_.next_wakeup();
  }

 private:
  /// The error of a request that is made after close().
  ClientError closed(client::RequestDesk::Made& made) {
    if (!made) return std::move(made.error());
    desk_.give_back(made->body_bytes);
    return {.code = std::string(name_of(ErrorCode::cancelled)),
            .message = "the client is closed",
            .id = std::move(made->id),
            .local = true};
  }

  void call_for_work() {
    if (!std::exchange(called_, true) && on_work_) on_work_();
  }

  const ClientOptions options_;
  const std::function<void()> on_work_;
  client::RequestDesk desk_;
  client::Fleet fleet_;
  bool called_ = false;  ///< process() runs, or the loop knows that it is due
  bool closed_ = false;
};

LoopClient::LoopClient(ClientOptions options, std::function<void()> on_work)
    : core_(std::make_unique<Core>(std::move(options), std::move(on_work))) {}
LoopClient::~LoopClient() = default;

int LoopClient::fd() const {
  return core_->fleet().fd();
}
void LoopClient::process() {
  core_->process();
}
std::optional<LoopClient::Clock::time_point> LoopClient::next_wakeup() const {
  return core_->next_wakeup();
}
void LoopClient::close() {
  core_->close();
}

void LoopClient::submit(JobRequest request, const Blob& body, AnswerCallback callback) {
  core_->ask<JobDone>(core_->desk().submit(client::RequestKind::submit, std::move(request), body),
                      std::move(callback));
}

void LoopClient::leave(JobRequest request, const Blob& body,
                       std::function<void(Reply<JobAccepted>)> callback) {
  core_->ask<JobAccepted>(core_->desk().submit(client::RequestKind::leave, std::move(request), body),
                          std::move(callback));
}

void LoopClient::stream(JobRequest request, const Blob& body, StreamReader reader) {
  AnswerCallback on_end = std::move(reader.on_end);
  core_->ask<JobDone>(core_->desk().stream(std::move(request), body, reader), std::move(on_end));
}

void LoopClient::follow(const std::string& id, std::int64_t from_seq, StreamReader reader) {
  AnswerCallback on_end = std::move(reader.on_end);
  core_->ask<JobDone>(core_->desk().follow(id, from_seq, reader), std::move(on_end));
}

void LoopClient::seen(const std::string& id, std::int64_t seq) {
  core_->seen(id, seq);
}

void LoopClient::status(const std::string& id, std::function<void(Reply<JobStatus>)> callback,
                        std::string service, std::string client) {
  core_->ask<JobStatus>(core_->desk().status(id, std::move(service), std::move(client)), std::move(callback));
}

void LoopClient::cancel(const std::string& id, std::function<void(Reply<JobStatus>)> callback) {
  core_->ask<JobStatus>(core_->desk().cancel(id), std::move(callback));
}

void LoopClient::fetch(const std::string& id, std::chrono::milliseconds wait,
                       std::function<void(FetchAnswer)> callback) {
  core_->ask<client::Fetched>(core_->desk().fetch(id, wait), std::move(callback));
}

void LoopClient::ping(std::function<void(Reply<BrokerPong>)> callback, std::string shard) {
  core_->ask<BrokerPong>(core_->desk().ping(std::move(shard)), std::move(callback));
}

void LoopClient::spend(const SpendRequest& request, std::function<void(Reply<BrokerSpent>)> callback) {
  core_->ask<BrokerSpent>(core_->desk().spend(request), std::move(callback));
}

void LoopClient::stats(std::int64_t from, std::function<void(Reply<BrokerStats>)> callback,
                       std::string shard) {
  core_->ask<BrokerStats>(core_->desk().stats(from, std::move(shard)), std::move(callback));
}

void LoopClient::admin(const AdminRequest& request, std::function<void(Reply<AdminDocument>)> callback) {
  core_->ask<AdminDocument>(core_->desk().admin(request), std::move(callback));
}

std::string LoopClient::shard_of(const std::string& service, const std::string& client,
                                 const std::string& id) const {
  return std::string(core_->fleet().shard_of(service, client, id));
}

std::string LoopClient::shard_of_spend() const {
  return std::string(core_->fleet().shard_of_spend());
}

std::size_t LoopClient::pending() const {
  return core_->desk().pending();
}
ClientCounters LoopClient::counters() const {
  return core_->fleet().counters();
}

}  // namespace lanemq
