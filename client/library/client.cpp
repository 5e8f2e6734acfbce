// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <lanemq/client.hpp>

#include "client/library/fleet.hpp"
#include "client/library/handlers.hpp"
#include "client/library/request_desk.hpp"
#include "common/signals/signals_blocked.hpp"

namespace lanemq {
namespace {

using client::calling;
using client::Fetched;
using client::Fleet;
using client::Handler;
using client::Outcome;
using client::Request;
using client::RequestDesk;
using client::RequestKind;
using client::TimePoint;
using std::chrono::milliseconds;

/// An eventfd.
class WakeUp {
 public:
  WakeUp() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (fd_ < 0) throw std::runtime_error("cannot make an eventfd; raise the limit of open files");
  }
  ~WakeUp() { ::close(fd_); }
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  int fd() const { return fd_; }
  void ring() {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(fd_, &one, sizeof one));  // a full counter is readable already
  }
  void hush() {
    std::uint64_t count = 0;
    static_cast<void>(!::read(fd_, &count, sizeof count));
  }

 private:
  int fd_;
};

Blob blob_of(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const std::string_view bytes = *owner;
  return Blob::own(std::move(owner), bytes);
}

}  // namespace

/// The client's thread, and the inbox that it shares with callers and empties by a swap.
class Client::Core {
 public:
  explicit Core(ClientOptions options)
      : options_(std::move(options)), desk_(options_), fleet_(options_, desk_), thread_([this] { run(); }) {}

  ~Core() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.ring();
    thread_.join();
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  RequestDesk& desk() { return desk_; }
  void ask(RequestDesk::Made made, Handler handler);
  template <class T>
  std::future<Reply<T>> ask(RequestDesk::Made made);
  void seen(const std::string& id, std::int64_t seq);

  ClientCounters counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  struct Seen {
    std::string id;
    std::int64_t seq;
  };

  void ring_once(std::unique_lock<std::mutex> lock);

  void run();
  void take_inbox();
  bool may_sleep();
  void sleep();

  const ClientOptions options_;
  RequestDesk desk_;

  mutable std::mutex mutex_;  // guards the five below
  std::vector<Request> inbox_;
  std::vector<Seen> inbox_seen_;
  bool stopping_ = false;
  bool awake_ = true;  ///< the thread will look at the inbox by itself
  ClientCounters counters_;

  // Of the client's thread alone:
  WakeUp wake_;
  Fleet fleet_;
  std::vector<Request> taken_;
  std::vector<Seen> taken_seen_;
  bool stop_seen_ = false;
  std::thread thread_;  // last: it uses the other members
};

// ---- on the callers' threads --------------------------------------------------------------------------

void Client::Core::ask(RequestDesk::Made made, Handler handler) {
  if (!made) return handler(std::move(made.error()));
  made->handler = std::move(handler);
  std::unique_lock lock(mutex_);
  inbox_.push_back(std::move(*made));
  ring_once(std::move(lock));
}

template <class T>
std::future<Reply<T>> Client::Core::ask(RequestDesk::Made made) {
  auto promise = std::make_shared<std::promise<Reply<T>>>();
  std::future<Reply<T>> future = promise->get_future();
  ask(std::move(made), [promise = std::move(promise)](Outcome&& outcome) {
    promise->set_value(client::narrow<T>(std::move(outcome)));
  });
  return future;
}

void Client::Core::seen(const std::string& id, std::int64_t seq) {
  std::unique_lock lock(mutex_);
  // A reader reports only the newest piece, so there is one entry a stream.
  const auto known =
      std::find_if(inbox_seen_.rbegin(), inbox_seen_.rend(), [&](const Seen& one) { return one.id == id; });
  if (known != inbox_seen_.rend())
    known->seq = std::max(known->seq, seq);
  else
    inbox_seen_.push_back({id, seq});
  ring_once(std::move(lock));
}

/// Wakes a sleeping thread; once, however much comes.
void Client::Core::ring_once(std::unique_lock<std::mutex> lock) {
  const bool ring = !std::exchange(awake_, true);
  lock.unlock();
  if (ring) wake_.ring();
}

// ---- on the client's thread ---------------------------------------------------------------------------

void Client::Core::run() {
  while (true) {
    take_inbox();
    if (stop_seen_) break;
    fleet_.process();
    if (may_sleep()) sleep();
  }
  fleet_.close();
}

void Client::Core::take_inbox() {
  {
    const std::lock_guard lock(mutex_);
    awake_ = true;
    taken_.swap(inbox_);
    taken_seen_.swap(inbox_seen_);
    stop_seen_ = stopping_;
  }
  for (Request& request : taken_)
    fleet_.begin(std::move(request));
  for (const Seen& seen : taken_seen_)
    fleet_.seen(seen.id, seen.seq);
  taken_.clear();
  taken_seen_.clear();
}

bool Client::Core::may_sleep() {
  const std::lock_guard lock(mutex_);
  counters_ = fleet_.counters();
  awake_ = !inbox_.empty() || !inbox_seen_.empty() || stopping_;
  return !awake_;
}

void Client::Core::sleep() {
  int timeout_ms = -1;
  if (const std::optional<TimePoint> wakeup = fleet_.next_wakeup()) {
    const auto left = std::chrono::ceil<milliseconds>(*wakeup - std::chrono::steady_clock::now());
    timeout_ms = static_cast<int>(std::clamp(left, milliseconds(0), milliseconds(60'000)).count());
  }
  pollfd watched[] = {{fleet_.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
  if (::poll(watched, 2, timeout_ms) > 0 && watched[1].revents != 0) wake_.hush();
}

// ---- the face -----------------------------------------------------------------------------------------

Client::Client(ClientOptions options) {
  const SignalsBlocked for_core;
  core_ = std::make_unique<Core>(std::move(options));
}
Client::~Client() = default;

std::future<Answer> Client::submit(JobRequest request, const Blob& body) {
  return core_->ask<JobDone>(core_->desk().submit(RequestKind::submit, std::move(request), body));
}

std::future<Answer> Client::submit(JobRequest request, std::string body) {
  return submit(std::move(request), blob_of(std::move(body)));
}

void Client::submit(JobRequest request, const Blob& body, AnswerCallback callback) {
  core_->ask(core_->desk().submit(RequestKind::submit, std::move(request), body),
             calling<JobDone>(std::move(callback)));
}

void Client::submit(JobRequest request, std::string body, AnswerCallback callback) {
  submit(std::move(request), blob_of(std::move(body)), std::move(callback));
}

std::future<Reply<JobAccepted>> Client::leave(JobRequest request, const Blob& body) {
  return core_->ask<JobAccepted>(core_->desk().submit(RequestKind::leave, std::move(request), body));
}

std::future<Reply<JobAccepted>> Client::leave(JobRequest request, std::string body) {
  return leave(std::move(request), blob_of(std::move(body)));
}

void Client::leave(JobRequest request, const Blob& body, std::function<void(Reply<JobAccepted>)> callback) {
  core_->ask(core_->desk().submit(RequestKind::leave, std::move(request), body),
             calling<JobAccepted>(std::move(callback)));
}

void Client::stream(JobRequest request, const Blob& body, StreamReader reader) {
  Handler on_end = calling<JobDone>(std::move(reader.on_end));
  core_->ask(core_->desk().stream(std::move(request), body, reader), std::move(on_end));
}

void Client::follow(const std::string& id, std::int64_t from_seq, StreamReader reader) {
  Handler on_end = calling<JobDone>(std::move(reader.on_end));
  core_->ask(core_->desk().follow(id, from_seq, reader), std::move(on_end));
}

void Client::seen(const std::string& id, std::int64_t seq) {
  core_->seen(id, seq);
}

void Client::watch(const WatchRequest& request, WatchReader reader) {
  Handler on_end = [on_end = std::move(reader.on_end)](Outcome&& outcome) {
    if (on_end && !outcome) on_end(std::move(outcome.error()));
  };
  core_->ask(core_->desk().watch(request, reader), std::move(on_end));
}

std::future<Reply<BrokerPong>> Client::ping(std::string shard) {
  return core_->ask<BrokerPong>(core_->desk().ping(std::move(shard)));
}

std::future<Reply<BrokerStats>> Client::stats(std::int64_t from, std::string shard) {
  return core_->ask<BrokerStats>(core_->desk().stats(from, std::move(shard)));
}

std::future<Reply<JobStatus>> Client::status(const std::string& id) {
  return core_->ask<JobStatus>(core_->desk().status(id));
}

void Client::status(const std::string& id, std::function<void(Reply<JobStatus>)> callback) {
  core_->ask(core_->desk().status(id), calling<JobStatus>(std::move(callback)));
}

std::future<Reply<JobStatus>> Client::cancel(const std::string& id) {
  return core_->ask<JobStatus>(core_->desk().cancel(id));
}

void Client::cancel(const std::string& id, std::function<void(Reply<JobStatus>)> callback) {
  core_->ask(core_->desk().cancel(id), calling<JobStatus>(std::move(callback)));
}

std::future<Reply<AdminDocument>> Client::admin(const AdminRequest& request) {
  return core_->ask<AdminDocument>(core_->desk().admin(request));
}

std::future<FetchAnswer> Client::fetch(const std::string& id, milliseconds wait) {
  return core_->ask<Fetched>(core_->desk().fetch(id, wait));
}

void Client::fetch(const std::string& id, milliseconds wait, std::function<void(FetchAnswer)> callback) {
  core_->ask(core_->desk().fetch(id, wait), calling<Fetched>(std::move(callback)));
}

std::size_t Client::pending() const {
  return core_->desk().pending();
}
ClientCounters Client::counters() const {
  return core_->counters();
}

}  // namespace lanemq
