// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <csignal>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#include <lanemq/client.hpp>
#include <lanemq/codec.hpp>
#include <lanemq/text.hpp>

#include "client/job_id.hpp"
#include "client/link.hpp"
#include "client/session.hpp"

namespace lanemq {
namespace {

using client::Finished;
using client::Handler;
using client::Link;
using client::LinkEvent;
using client::Outcome;
using client::Received;
using client::Request;
using client::RequestKind;
using client::Session;
using client::TimePoint;
using std::chrono::milliseconds;

// A turn takes at most this many messages, so that what is to be sent does not wait for what is received.
constexpr std::size_t kReceivedPerTurn = 1'000;

TimePoint steady_now() {
  return std::chrono::steady_clock::now();
}

std::uint64_t unix_ms() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(since_epoch).count());
}

/// No signal comes to this thread, nor to those that it starts meanwhile, for good: signals are for the
/// program's threads, and a socket that is being made takes one for a failure.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// An eventfd that lives as long as this.
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
    static_cast<void>(!::write(fd_, &one, sizeof one));  // full means that it rings already
  }
  void hush() {
    std::uint64_t count = 0;
    static_cast<void>(!::read(fd_, &count, sizeof count));
  }

 private:
  int fd_;
};

/// What is absent on the wire has no data: an empty text of the caller is an absent one.
std::string_view wire_text(const std::string& text) {
  return text.empty() ? std::string_view() : text;
}

/// What would make a message that nobody can read, and so nobody answers.
std::optional<ClientError> unsendable(const JobRequest& job) {
  if (job.meta.empty() || !to_json(job.meta).empty()) return std::nullopt;
  return ClientError{.code = std::string(name_of(ErrorCode::bad_request)),
                     .message = "JobRequest::meta is not one msgpack value of at most " +
                                std::to_string(limits::header_bytes_max) + " bytes",
                     .local = true};
}

std::optional<std::int64_t> wire_ms(std::optional<milliseconds> value) {
  return value ? std::optional<std::int64_t>(value->count()) : std::nullopt;
}

/// Of every submit that is encoded here: the array, "LMQ1" and the op.
constexpr std::size_t kSubmitPreambleBytes = std::string_view("\x94\xA4LMQ1\xA6submit").size();

/// Sets the request's header, and its item where it may go in a batch of up to `batch_max`.
void encode_submit(const JobRequest& job, const Blob& body, std::size_t batch_max, Request& request) {
  thread_local Buffer ref_bytes, header, items;
  wire::Submit submit{.service = wire_text(job.service),
                      .id = request.id,
                      .lane = wire_text(job.lane),
                      .model = wire_text(job.model),
                      .client = wire_text(job.client),
                      .cost = job.cost,
                      .timeout_ms = wire_ms(job.timeout),
                      .delay_ms = wire_ms(job.delay),
                      .retain_ms = wire_ms(job.retain),
                      .durable = job.durable,
                      .batch = static_cast<std::int64_t>(batch_max > 1 ? batch_max : 0),
                      .ref = number_ref(request.ref, ref_bytes)};
  if (job.attempts_max) submit.attempts_max = *job.attempts_max;
  if (job.cancel_when_gone) submit.orphan = "cancel";
  submit.stream = request.kind == RequestKind::stream || (request.kind == RequestKind::leave && job.stream);
  submit.meta = {job.meta};
  if (request.kind == RequestKind::leave) submit.reply = "accepted";
  header.clear();
  if (body.size() > limits::inline_bytes_max) {
    encode(submit, header);
  } else {
    items.clear();
    request.item = write_item(submit, items);
    Batch(request.item, body.bytes(), items).write(items, header);
    request.item.begin = kSubmitPreambleBytes;
  }
  request.header = header.view();
}

template <class Message>
std::string encode_query(Message message, std::uint64_t ref) {
  Buffer ref_bytes, header;
  message.ref = number_ref(ref, ref_bytes);
  encode(message, header);
  return std::string(header.view());
}

/// A reply as the one type that the request's replies have.
template <class T>
Reply<T> narrow(Outcome&& outcome) {
  return std::move(outcome).map([](auto value) { return std::get<T>(std::move(value)); });
}
using Fetched = std::variant<JobDone, JobStatus>;
template <>
Reply<Fetched> narrow(Outcome&& outcome) {
  return std::move(outcome).map([](auto value) -> Fetched {
    if (auto* done = std::get_if<JobDone>(&value)) return std::move(*done);
    return std::get<JobStatus>(std::move(value));
  });
}

template <class T>
Handler calling(std::function<void(Reply<T>)> callback) {
  return [callback = std::move(callback)](Outcome&& outcome) { callback(narrow<T>(std::move(outcome))); };
}

template <class T>
std::pair<Handler, std::future<Reply<T>>> promised() {
  auto promise = std::make_shared<std::promise<Reply<T>>>();
  std::future<Reply<T>> future = promise->get_future();
  Handler handler = [promise = std::move(promise)](Outcome&& outcome) {
    promise->set_value(narrow<T>(std::move(outcome)));
  };
  return {std::move(handler), std::move(future)};
}

Blob blob_of(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const std::string_view bytes = *owner;
  return Blob::own(std::move(owner), bytes);
}

}  // namespace

/// The thread and what it shares with the callers: an inbox, swapped as a whole, and the places taken.
class Client::Core {
 public:
  explicit Core(ClientOptions options)
      : options_(std::move(options)),
        ids_(client::system_entropy()),
        link_(options_.endpoint, options_.body_bytes_max),
        session_(steady_now(), options_.batch_max),
        decoder_(options_.body_bytes_max),
        thread_([this] { run(); }) {}

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

  /// `kind`: submit, stream or leave.
  void submit(RequestKind kind, JobRequest job, const Blob& body, Handler handler, StreamReader reader = {});
  void follow(const std::string& id, std::int64_t from_seq, Handler handler, StreamReader reader);
  void seen(const std::string& id, std::int64_t seq);
  void status(const std::string& id, Handler handler);
  void cancel(const std::string& id, Handler handler);
  void fetch(const std::string& id, milliseconds wait, Handler handler);
  template <class Message>
  void ask(RequestKind kind, std::string id, Message query, milliseconds timeout, Handler handler);

  std::size_t pending() const { return pending_.load(std::memory_order_relaxed); }
  ClientCounters counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
  }
  const ClientOptions& options() const { return options_; }

 private:
  struct Seen {
    std::string id;
    std::int64_t seq;
  };

  std::optional<ClientError> take_place(std::size_t body_bytes);
  static void set_reader(Request& request, StreamReader reader);
  void post(Request request);
  void ring_once(std::unique_lock<std::mutex> lock);

  void run();
  bool take_inbox();
  bool receive();
  void hear(Received& received, TimePoint now);
  void watch_link();
  void reopen(TimePoint now);
  bool send(TimePoint now);
  bool tell();
  template <class Call>
  void call_back(Call call);
  void sleep(bool for_room);
  void tell_if_heard_again();
  void log(const std::string& line);

  const ClientOptions options_;
  const client::JobIds ids_;
  std::atomic<std::uint64_t> last_ref_{0};
  std::atomic<std::size_t> pending_{0}, pending_bytes_{0};

  mutable std::mutex mutex_;  // guards the five below
  std::vector<Request> inbox_;
  std::vector<Seen> inbox_seen_;
  bool stopping_ = false;
  bool rung_ = false;
  ClientCounters counters_;

  // The thread's own.
  WakeUp wake_;
  Link link_;
  Session session_;
  Decoder decoder_;
  Items<wire::ClientReply> replies_;
  std::vector<Request> taken_;
  std::vector<Seen> taken_seen_;
  std::vector<client::Arrived> arrived_;
  std::vector<Finished> finished_;
  Received received_;
  bool stop_seen_ = false;
  bool told_silence_ = false;
  std::thread thread_;  // last: it uses all of the above
};

// ---- on the callers' threads --------------------------------------------------------------------------

std::optional<ClientError> Client::Core::take_place(std::size_t body_bytes) {
  const auto refusal = [](ErrorCode code, std::string message) {
    return ClientError{.code = std::string(name_of(code)), .message = std::move(message), .local = true};
  };
  if (body_bytes > options_.body_bytes_max)
    return refusal(ErrorCode::too_large, "the body has " + std::to_string(body_bytes) +
                                             " bytes, the limit is " +
                                             std::to_string(options_.body_bytes_max) + " (body_bytes_max)");
  if (pending_.fetch_add(1) >= options_.pending_max) {
    pending_.fetch_sub(1);
    return refusal(ErrorCode::client_full, "this client waits for " + std::to_string(options_.pending_max) +
                                               " answers (pending_max); wait for some of them first");
  }
  const std::size_t before = pending_bytes_.fetch_add(body_bytes);
  if (before > 0 && body_bytes > 0 && before + body_bytes > options_.pending_bytes_max) {
    pending_bytes_.fetch_sub(body_bytes);
    pending_.fetch_sub(1);
    return refusal(ErrorCode::client_full, "this client holds " + std::to_string(before) +
                                               " bytes of requests, " + "the limit is " +
                                               std::to_string(options_.pending_bytes_max) +
                                               " (pending_bytes_max); wait for some answers first");
  }
  return std::nullopt;
}

void Client::Core::submit(RequestKind kind, JobRequest job, const Blob& body, Handler handler,
                          StreamReader reader) {
  const std::uint64_t ref = last_ref_.fetch_add(1, std::memory_order_relaxed) + 1;
  std::string id = job.id.empty() ? ids_.make_id(ref, unix_ms()) : std::move(job.id);
  std::optional<ClientError> refused = unsendable(job);
  if (!refused) refused = take_place(body.size());
  if (refused) {
    refused->id = std::move(id);
    handler(tl::unexpected(std::move(*refused)));
    return;
  }
  Request request{.ref = ref, .kind = kind};
  request.id = std::move(id);
  encode_submit(job, body, options_.batch_max, request);
  request.body_bytes = body.size();
  if (body.size() > limits::inline_bytes_max) request.body = body.owned();
  request.asked = steady_now();
  if (kind == RequestKind::leave)
    request.deadline = request.asked + options_.control_timeout;
  else if (job.timeout)
    request.deadline = request.asked + *job.timeout + job.delay.value_or(milliseconds(0)) + options_.grace;
  request.handler = std::move(handler);
  if (kind == RequestKind::stream) set_reader(request, std::move(reader));
  post(std::move(request));
}

void Client::Core::set_reader(Request& request, StreamReader reader) {
  request.on_chunk = std::make_shared<const client::ChunkHandler>(std::move(reader.on_chunk));
  request.takes_at_once = reader.takes_at_once;
}

void Client::Core::follow(const std::string& id, std::int64_t from_seq, Handler handler,
                          StreamReader reader) {
  if (std::optional<ClientError> refused = take_place(0)) {
    refused->id = id;
    return handler(tl::unexpected(std::move(*refused)));
  }
  const std::uint64_t ref = last_ref_.fetch_add(1, std::memory_order_relaxed) + 1;
  Request request{.ref = ref, .kind = RequestKind::stream, .id = id};
  request.asked = steady_now();
  request.from_seq = std::max<std::int64_t>(from_seq, 0);
  request.handler = std::move(handler);
  set_reader(request, std::move(reader));
  post(std::move(request));
}

void Client::Core::status(const std::string& id, Handler handler) {
  ask(RequestKind::status, id, wire::StatusQuery{.id = id, .ids = {}, .ref = {}}, options_.control_timeout,
      std::move(handler));
}

void Client::Core::cancel(const std::string& id, Handler handler) {
  ask(RequestKind::cancel, id, wire::Cancel{.id = id, .ref = {}}, options_.control_timeout,
      std::move(handler));
}

void Client::Core::fetch(const std::string& id, milliseconds wait, Handler handler) {
  wait = std::clamp(wait, milliseconds(0), Session::kFetchWait);
  wire::Fetch query;
  query.id = id;
  query.wait_ms = wait.count();
  ask(RequestKind::fetch, id, query, wait + options_.grace, std::move(handler));
}

template <class Message>
void Client::Core::ask(RequestKind kind, std::string id, Message query, milliseconds timeout,
                       Handler handler) {
  if (std::optional<ClientError> refused = take_place(0)) {
    refused->id = std::move(id);
    handler(tl::unexpected(std::move(*refused)));
    return;
  }
  const std::uint64_t ref = last_ref_.fetch_add(1, std::memory_order_relaxed) + 1;
  Request request{.ref = ref, .kind = kind, .header = encode_query(query, ref)};
  request.id = std::move(id);
  request.asked = steady_now();
  request.deadline = request.asked + timeout;
  request.handler = std::move(handler);
  post(std::move(request));
}

void Client::Core::post(Request request) {
  std::unique_lock lock(mutex_);
  inbox_.push_back(std::move(request));
  ring_once(std::move(lock));
}

void Client::Core::seen(const std::string& id, std::int64_t seq) {
  std::unique_lock lock(mutex_);
  // A reader that takes piece by piece says only the newest: so there is one entry a stream.
  const auto known =
      std::find_if(inbox_seen_.rbegin(), inbox_seen_.rend(), [&](const Seen& one) { return one.id == id; });
  if (known != inbox_seen_.rend())
    known->seq = std::max(known->seq, seq);
  else
    inbox_seen_.push_back({id, seq});
  ring_once(std::move(lock));
}

/// Wakes the thread, once per turn of it, however much comes.
void Client::Core::ring_once(std::unique_lock<std::mutex> lock) {
  const bool ring = !std::exchange(rung_, true);
  lock.unlock();
  if (ring) wake_.ring();
}

// ---- on the client's thread ---------------------------------------------------------------------------

void Client::Core::run() {
  while (true) {
    bool busy = take_inbox();
    if (stop_seen_) break;
    busy |= receive();
    watch_link();
    const TimePoint now = steady_now();
    session_.advance(now);
    if (session_.take_reopen(now)) reopen(now);
    const bool no_room = !send(now);
    busy |= tell();
    if (!busy) sleep(no_room);
  }
  session_.close();
  tell();
}

bool Client::Core::take_inbox() {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(inbox_);
    taken_seen_.swap(inbox_seen_);
    rung_ = false;
    stop_seen_ = stopping_;
    counters_ = session_.counters();
  }
  if (taken_.empty() && taken_seen_.empty()) return false;
  const TimePoint now = steady_now();
  for (Request& request : taken_)
    session_.begin(std::move(request), now);
  for (const Seen& seen : taken_seen_)
    session_.seen(seen.id, seen.seq, now);
  taken_.clear();
  taken_seen_.clear();
  return true;
}

bool Client::Core::receive() {
  const TimePoint now = steady_now();
  std::size_t count = 0;
  while (count < kReceivedPerTurn && link_.receive(received_)) {
    ++count;
    hear(received_, now);
  }
  if (count > 0) tell_if_heard_again();
  return count > 0;
}

void Client::Core::hear(Received& received, TimePoint now) {
  const auto frame = received.body ? std::optional(received.body->bytes()) : std::nullopt;
  if (received.malformed || received.header.empty() || (received.body && has_inline_body(received.header))) {
    session_.heard_nonsense(now);
    return;
  }
  const auto nonsense = [&](const DecodeError& error) {
    log("a message of the broker cannot be read: " + error.message);
    session_.heard_nonsense(now);
  };
  if (const DecodeError* error = decoder_.decode(received.header, frame, replies_)) return nonsense(*error);
  for (std::size_t i = 0; i < replies_.size(); ++i) {
    if (const DecodeError* error = replies_.error(i))
      nonsense(*error);
    else if (received.body && !replies_.is_batch())
      session_.heard(replies_[i], *received.body, now);
    else
      session_.heard(replies_[i], Blob::borrow(replies_.body(i)), now);
  }
}

void Client::Core::watch_link() {
  while (const std::optional<LinkEvent> event = link_.next_event()) {
    if (*event == LinkEvent::connected)
      session_.connected();
    else
      session_.disconnected(steady_now());
  }
}

void Client::Core::reopen(TimePoint now) {
  if (session_.pending() > 0 && !std::exchange(told_silence_, true))
    log("no word from the broker at " + printable(options_.endpoint) + ": connecting again, " +
        std::to_string(session_.pending()) + " requests wait");
  // What the old socket has received is read before it goes.
  while (link_.receive(received_))
    hear(received_, now);
  try {
    link_.reopen();
  } catch (const std::exception& error) {
    log(error.what());
    session_.reopen_failed(now);
  }
}

/// Sends what there is; false: the socket has no room for more.
bool Client::Core::send(TimePoint now) {
  while (const std::optional<client::Outgoing> next = session_.next_send()) {
    if (!link_.send(*next)) return false;
    session_.sent(now);
  }
  return true;
}

/// Gives the callers what came for them: pieces first, as no stream has one behind its end.
bool Client::Core::tell() {
  session_.take_arrived(arrived_);
  session_.take_finished(finished_);
  for (client::Arrived& arrived : arrived_) {
    pending_bytes_.fetch_sub(arrived.freed_bytes, std::memory_order_relaxed);
    const std::int64_t seq = arrived.chunk.seq;
    if (*arrived.on_chunk) call_back([&] { (*arrived.on_chunk)(std::move(arrived.chunk)); });
    if (arrived.takes_at_once) session_.seen(arrived.ref, seq, steady_now());
  }
  for (Finished& finished : finished_) {
    pending_bytes_.fetch_sub(finished.body_bytes, std::memory_order_relaxed);
    pending_.fetch_sub(1, std::memory_order_relaxed);  // first, so that a callback may take the place
    call_back([&] { finished.handler(std::move(finished.outcome)); });
  }
  const bool any = !finished_.empty() || !arrived_.empty();
  arrived_.clear();
  finished_.clear();
  return any;
}

template <class Call>
void Client::Core::call_back(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    log(std::string("a callback threw: ") + error.what());
  } catch (...) {
    log("a callback threw something");
  }
}

void Client::Core::sleep(bool for_room) {
  std::optional<milliseconds> timeout;
  if (const std::optional<TimePoint> wakeup = session_.next_wakeup()) {
    const auto left = std::chrono::ceil<milliseconds>(*wakeup - steady_now());
    timeout = std::clamp(left, milliseconds(0), milliseconds(60'000));
  }
  link_.wait(timeout, for_room, wake_.fd());
  wake_.hush();
}

void Client::Core::tell_if_heard_again() {
  if (std::exchange(told_silence_, false))
    log("the broker at " + printable(options_.endpoint) + " answers again");
}

void Client::Core::log(const std::string& line) {
  if (options_.log) options_.log(line);
}

// ---- the face -----------------------------------------------------------------------------------------

Client::Client(ClientOptions options) {
  const SignalsBlocked for_core;
  core_ = std::make_unique<Core>(std::move(options));
}
Client::~Client() = default;

std::future<Answer> Client::submit(JobRequest request, const Blob& body) {
  auto [handler, future] = promised<JobDone>();
  core_->submit(RequestKind::submit, std::move(request), body, std::move(handler));
  return std::move(future);
}

std::future<Answer> Client::submit(JobRequest request, std::string body) {
  return submit(std::move(request), blob_of(std::move(body)));
}

void Client::submit(JobRequest request, const Blob& body, AnswerCallback callback) {
  core_->submit(RequestKind::submit, std::move(request), body, calling<JobDone>(std::move(callback)));
}

void Client::submit(JobRequest request, std::string body, AnswerCallback callback) {
  submit(std::move(request), blob_of(std::move(body)), std::move(callback));
}

std::future<Reply<JobAccepted>> Client::leave(JobRequest request, const Blob& body) {
  auto [handler, future] = promised<JobAccepted>();
  core_->submit(RequestKind::leave, std::move(request), body, std::move(handler));
  return std::move(future);
}

std::future<Reply<JobAccepted>> Client::leave(JobRequest request, std::string body) {
  return leave(std::move(request), blob_of(std::move(body)));
}

void Client::leave(JobRequest request, const Blob& body, std::function<void(Reply<JobAccepted>)> callback) {
  core_->submit(RequestKind::leave, std::move(request), body, calling<JobAccepted>(std::move(callback)));
}

void Client::stream(JobRequest request, const Blob& body, StreamReader reader) {
  Handler on_end = calling<JobDone>(std::move(reader.on_end));
  core_->submit(RequestKind::stream, std::move(request), body, std::move(on_end), std::move(reader));
}

void Client::follow(const std::string& id, std::int64_t from_seq, StreamReader reader) {
  Handler on_end = calling<JobDone>(std::move(reader.on_end));
  core_->follow(id, from_seq, std::move(on_end), std::move(reader));
}

void Client::seen(const std::string& id, std::int64_t seq) {
  core_->seen(id, seq);
}

std::future<Reply<BrokerPong>> Client::ping() {
  auto [handler, future] = promised<BrokerPong>();
  core_->ask(RequestKind::ping, {}, wire::Ping{}, core_->options().control_timeout, std::move(handler));
  return std::move(future);
}

std::future<Reply<BrokerStats>> Client::stats(std::int64_t from) {
  auto [handler, future] = promised<BrokerStats>();
  core_->ask(RequestKind::stats, {}, wire::StatsQuery{.from = from}, core_->options().control_timeout,
             std::move(handler));
  return std::move(future);
}

std::future<Reply<JobStatus>> Client::status(const std::string& id) {
  auto [handler, future] = promised<JobStatus>();
  core_->status(id, std::move(handler));
  return std::move(future);
}

void Client::status(const std::string& id, std::function<void(Reply<JobStatus>)> callback) {
  core_->status(id, calling<JobStatus>(std::move(callback)));
}

std::future<Reply<JobStatus>> Client::cancel(const std::string& id) {
  auto [handler, future] = promised<JobStatus>();
  core_->cancel(id, std::move(handler));
  return std::move(future);
}

void Client::cancel(const std::string& id, std::function<void(Reply<JobStatus>)> callback) {
  core_->cancel(id, calling<JobStatus>(std::move(callback)));
}

std::future<Reply<AdminDocument>> Client::admin(const AdminRequest& request) {
  auto [handler, future] = promised<AdminDocument>();
  const wire::AdminQuery query{.verb = request.verb,
                               .what = wire_text(request.what),
                               .name = wire_text(request.name),
                               .id = wire_text(request.id),
                               .lane = wire_text(request.lane),
                               .service = wire_text(request.service),
                               .client = wire_text(request.client),
                               .model = wire_text(request.model),
                               .state = wire_text(request.state),
                               .code = wire_text(request.code),
                               .key = wire_text(request.key),
                               .setting = wire_text(request.setting),
                               .value = wire_text(request.value),
                               .reason = wire_text(request.reason),
                               .path = wire_text(request.path),
                               .from = request.from,
                               .limit = request.limit,
                               .dry_run = request.dry_run};
  core_->ask(RequestKind::admin, request.id, query,
             request.timeout.value_or(core_->options().control_timeout), std::move(handler));
  return std::move(future);
}

std::future<FetchAnswer> Client::fetch(const std::string& id, milliseconds wait) {
  auto [handler, future] = promised<Fetched>();
  core_->fetch(id, wait, std::move(handler));
  return std::move(future);
}

void Client::fetch(const std::string& id, milliseconds wait, std::function<void(FetchAnswer)> callback) {
  core_->fetch(id, wait, calling<Fetched>(std::move(callback)));
}

std::size_t Client::pending() const {
  return core_->pending();
}
ClientCounters Client::counters() const {
  return core_->counters();
}

}  // namespace lanemq
