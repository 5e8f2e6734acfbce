// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/shards.hpp>
#include <lanemq/worker.hpp>

#include "worker/handlers/echo/echo_handler.hpp"
#include "worker/session/session.hpp"

namespace lanemq {
namespace {

using std::chrono::milliseconds;

/// The broker's end of the socket, driven by the test.
class Broker {
 public:
  explicit Broker(const std::string& endpoint = "tcp://127.0.0.1:*") : socket_(context(), ZMQ_ROUTER) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvtimeo, 30'000);
    socket_.bind(endpoint);
    endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
  }

  const std::string& endpoint() const { return endpoint_; }

  /// The next message of the type, others skipped; absent when none came in time.
  template <class Message>
  std::optional<Message> next() {
    for (;;) {
      zmq::message_t address;
      if (!socket_.recv(address)) return std::nullopt;
      address_ = address.to_string();
      body_.clear();
      if (!socket_.recv(header_)) return std::nullopt;
      const DecodeError* error = decoder_.decode(header_.to_string_view(), report_);
      EXPECT_EQ(error, nullptr);
      body_ = std::string(decoder_.body());
      for (bool more = header_.more(); more;) {
        zmq::message_t frame;
        if (!socket_.recv(frame)) return std::nullopt;
        body_ += frame.to_string();
        more = frame.more();
      }
      if (const auto* message = std::get_if<Message>(&report_)) return *message;
    }
  }
  const std::string& body() const { return body_; }

  template <class Message>
  void say(const Message& message, const std::optional<std::string>& body_frame = std::nullopt) {
    Buffer header;
    encode(message, header);
    send(header.view(), body_frame);
  }
  void send(std::string_view header, const std::optional<std::string>& body_frame = std::nullopt) {
    socket_.send(zmq::buffer(address_), zmq::send_flags::sndmore);
    socket_.send(zmq::buffer(header), body_frame ? zmq::send_flags::sndmore : zmq::send_flags::none);
    if (body_frame) socket_.send(zmq::buffer(*body_frame), zmq::send_flags::none);
  }

  void welcome() {
    ASSERT_TRUE(next<wire::Ready>());
    say(wire::Welcome{.session = "s", .heartbeat_ms = 60'000});
  }
  void offer(std::uint64_t job, const std::optional<std::string>& body) {
    wire::JobOffer message;
    message.job = job;
    say(message, body);
  }

 private:
  static zmq::context_t& context() {
    static zmq::context_t one;
    return one;
  }

  zmq::socket_t socket_;
  std::string endpoint_, address_, body_;
  zmq::message_t header_;
  Decoder decoder_;
  wire::WorkerReport report_;
};

/// A worker on a thread of its own.
class Running {
 public:
  explicit Running(const std::string& endpoint, std::shared_ptr<Handler> handler = nullptr)
      : Running(endpoint, std::vector<Service>{{"echo", handler ? std::move(handler)
                                                                : std::make_shared<worker::EchoHandler>()}}) {
  }
  Running(const std::string& endpoint, std::vector<Service> services)
      : worker_(options(endpoint), std::move(services)), thread_([this] { end_ = worker_.run(); }) {}
  ~Running() {
    if (!thread_.joinable()) return;
    worker_.stop();
    worker_.stop();
    thread_.join();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void stop() { worker_.stop(); }
  WorkerEnd wait() {
    thread_.join();
    return end_;
  }

 private:
  static WorkerOptions options(const std::string& endpoint) {
    WorkerOptions options;
    options.broker = endpoint;
    options.name = "w";
    return options;
  }

  Worker worker_;
  WorkerEnd end_ = WorkerEnd::drained;
  std::thread thread_;
};

/// Does what the test says, on the worker's thread.
class ScriptedHandler final : public Handler {
 public:
  explicit ScriptedHandler(std::function<void(const JobCall&, Completion)> script)
      : script_(std::move(script)) {}
  void start(const JobCall& job, Completion done) override { script_(job, std::move(done)); }

 private:
  std::function<void(const JobCall&, Completion)> script_;
};

TEST(Worker, runs_jobs_with_bodies_inside_and_beside_the_header) {
  Broker broker;
  Running worker(broker.endpoint());
  broker.welcome();
  const std::string large(100'000, 'x');

  broker.offer(1, "small");
  broker.offer(2, large);
  broker.offer(3, std::nullopt);

  ASSERT_TRUE(broker.next<wire::Outcome>());
  EXPECT_EQ(broker.body(), "small");
  ASSERT_TRUE(broker.next<wire::Outcome>());
  EXPECT_EQ(broker.body(), large);
  const auto third = broker.next<wire::Outcome>();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->job, 3u);
  EXPECT_EQ(broker.body(), "");
}

TEST(Worker, survives_messages_that_it_cannot_read) {
  Broker broker;
  Running worker(broker.endpoint());
  broker.welcome();

  broker.send("");
  broker.send("nonsense", "and more");
  broker.send("\x93\xA4LMQ1\xA4zzzz\x80");
  Buffer inside;
  wire::JobOffer twice;
  twice.job = 1;
  encode(twice, "a body", inside);
  broker.send(inside.view(), "and another");
  broker.offer(2, "ok");

  const auto outcome = broker.next<wire::Outcome>();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->job, 2u);
}

TEST(Worker, takes_outcomes_from_other_threads) {
  Broker broker;
  std::vector<std::thread> threads;
  auto handler = std::make_shared<ScriptedHandler>([&](const JobCall& job, Completion done) {
    threads.emplace_back([body = job.body, kept = std::move(done)]() mutable { kept.success(body); });
  });
  {
    Running worker(broker.endpoint(), handler);
    broker.welcome();

    broker.offer(1, "from afar");

    ASSERT_TRUE(broker.next<wire::Outcome>());
    EXPECT_EQ(broker.body(), "from afar");
  }
  for (std::thread& thread : threads)
    thread.join();
}

/// Streams `pieces` pieces from a thread of its own, and no faster than its reader takes them.
class StreamingHandler final : public Handler {
 public:
  explicit StreamingHandler(int pieces) : pieces_(pieces) {}
  ~StreamingHandler() override {
    if (thread_.joinable()) thread_.join();
  }

  void start(const JobCall& job, Completion done) override {
    EXPECT_TRUE(job.stream);
    thread_ = std::thread([this, kept = std::move(done)]() mutable {
      for (int i = 0; i < pieces_; ++i)
        if (!kept.chunk(Blob::copy(std::to_string(i)))) wait_for_reader();
      kept.success({});
    });
  }
  void resume(wire::Lease) override {
    const std::lock_guard lock(mutex_);
    ++resumed_;
    resumes_.notify_one();
  }
  /// Waits until it has stopped for its reader so many times.
  void when_stopped(int times) const {
    for (int stops = stops_; stops < times; stops = stops_)
      stops_.wait(stops);
  }

 private:
  void wait_for_reader() {
    std::unique_lock lock(mutex_);
    ++stops_;
    stops_.notify_all();
    resumes_.wait(lock, [this] { return resumed_ >= stops_; });
  }

  const int pieces_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable resumes_;
  std::atomic<int> stops_{0};
  int resumed_ = 0;
};

TEST(Worker, streams_from_other_threads_no_faster_than_its_reader_takes) {
  constexpr int kPieces = 1'000, kTaken = 50;
  constexpr int kWindow = static_cast<int>(limits::stream_chunks_max);
  Broker broker;
  auto handler = std::make_shared<StreamingHandler>(kPieces);
  Running worker(broker.endpoint(), handler);
  broker.welcome();
  wire::JobOffer offer;
  offer.job = 1;
  offer.stream = true;

  broker.say(offer);

  for (int i = 0; i < kPieces; ++i) {
    const auto chunk = broker.next<wire::Chunk>();
    ASSERT_TRUE(chunk);
    ASSERT_EQ(chunk->seq, i);
    ASSERT_EQ(broker.body(), std::to_string(i));
    if (i % kTaken != kTaken - 1) continue;
    // What it was let go on to is less than all: so it stops, and only then it is let go on.
    if (i + 1 - kTaken + kWindow < kPieces) handler->when_stopped((i + 1) / kTaken);
    broker.say(wire::Window{.job = 1, .attempt = 1, .seq = i});
  }
  ASSERT_TRUE(broker.next<wire::Outcome>());
}

TEST(Worker, an_echo_streams_line_by_line_at_its_readers_pace) {
  constexpr std::int64_t kLines = 200;
  Broker broker;
  Running worker(broker.endpoint());
  broker.welcome();
  wire::JobOffer offer;
  offer.job = 1;
  offer.stream = true;
  std::string body;
  for (std::int64_t line = 0; line < kLines; ++line)
    body += std::to_string(line) + '\n';

  broker.say(offer, body);

  for (std::int64_t line = 0; line < kLines; ++line) {
    const auto chunk = broker.next<wire::Chunk>();
    ASSERT_TRUE(chunk);
    ASSERT_EQ(broker.body(), std::to_string(line) + '\n');
    if (line % 64 == 63) broker.say(wire::Window{.job = 1, .attempt = 1, .seq = chunk->seq});
  }
  ASSERT_TRUE(broker.next<wire::Outcome>());
  EXPECT_EQ(broker.body(), "");
}

/// Lives in the worker's loop: answers its jobs with what the test puts into its descriptor, or when their
/// time has come.
class LoopHandler final : public Handler {
 public:
  ~LoopHandler() override { close(descriptor_); }

  void start(const JobCall&, Completion done) override {
    EXPECT_EQ(std::this_thread::get_id(), loop());
    jobs_.push_back(std::move(done));
  }
  int descriptor() const override { return descriptor_; }
  void on_readable(TimePoint) override {
    EXPECT_EQ(std::this_thread::get_id(), loop());
    ++calls_;
    if (stays_readable_) return;
    std::uint64_t count = 0;
    EXPECT_EQ(read(descriptor_, &count, sizeof count), static_cast<ssize_t>(sizeof count));
    for (Completion& job : jobs_)
      job.success(Blob::copy(std::to_string(count)));
    jobs_.clear();
  }

  /// From any thread.
  void put(std::uint64_t count) const {
    EXPECT_EQ(write(descriptor_, &count, sizeof count), static_cast<ssize_t>(sizeof count));
  }
  void stay_readable() {
    stays_readable_ = true;
    put(1);
  }
  int calls() const { return calls_; }

 private:
  std::thread::id loop() {
    if (loop_ == std::thread::id()) loop_ = std::this_thread::get_id();
    return loop_;
  }

  const int descriptor_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::thread::id loop_;
  std::vector<Completion> jobs_;
  std::atomic<bool> stays_readable_{false};
  std::atomic<int> calls_{0};
};

/// Stands for the same descriptor as another one.
class SharingHandler final : public Handler {
 public:
  explicit SharingHandler(std::shared_ptr<LoopHandler> other) : other_(std::move(other)) {}
  void start(const JobCall& job, Completion done) override { other_->start(job, std::move(done)); }
  int descriptor() const override { return other_->descriptor(); }
  void on_readable(TimePoint) override { ADD_FAILURE() << "the first one is called"; }

 private:
  std::shared_ptr<LoopHandler> other_;
};

TEST(Worker, a_handler_may_live_in_its_loop) {
  Broker broker;
  const auto handler = std::make_shared<LoopHandler>();
  Running worker(broker.endpoint(), handler);
  broker.welcome();
  broker.offer(1, "x");
  broker.offer(2, "x");
  broker.say(wire::Heartbeat{});
  const auto inventory = broker.next<wire::Heartbeat>();
  ASSERT_TRUE(inventory);
  ASSERT_EQ(inventory->jobs.size(), 2u);

  handler->put(7);

  ASSERT_TRUE(broker.next<wire::Outcome>());
  EXPECT_EQ(broker.body(), "7");
  ASSERT_TRUE(broker.next<wire::Outcome>());
  EXPECT_EQ(broker.body(), "7");
  EXPECT_EQ(handler->calls(), 1);
}

TEST(Worker, of_handlers_that_share_a_descriptor_the_first_is_called) {
  Broker broker;
  const auto first = std::make_shared<LoopHandler>();
  Running worker(broker.endpoint(), {{"first", first}, {"second", std::make_shared<SharingHandler>(first)}});
  broker.welcome();
  wire::JobOffer offer;
  offer.job = 1;
  offer.service = "second";
  broker.say(offer);
  broker.say(wire::Heartbeat{});
  ASSERT_TRUE(broker.next<wire::Heartbeat>());

  first->put(3);

  ASSERT_TRUE(broker.next<wire::Outcome>());
  EXPECT_EQ(broker.body(), "3");
}

TEST(Worker, a_handler_that_always_has_something_to_do_holds_up_nobody) {
  Broker broker;
  const auto busy = std::make_shared<LoopHandler>();
  Running worker(broker.endpoint(), {{"busy", busy}, {"echo", std::make_shared<worker::EchoHandler>()}});
  broker.welcome();
  busy->stay_readable();
  wire::JobOffer offer;
  offer.service = "echo";

  for (std::uint64_t job = 1; job <= 100; ++job) {
    const int calls = busy->calls();
    offer.job = job;
    broker.say(offer);
    ASSERT_TRUE(broker.next<wire::Outcome>());
    broker.say(wire::Heartbeat{});
    ASSERT_TRUE(broker.next<wire::Heartbeat>());
    while (busy->calls() == calls)
      std::this_thread::yield();
  }
}

TEST(Worker, a_handler_that_throws_costs_one_attempt) {
  Broker broker;
  Running worker(broker.endpoint(), std::make_shared<ScriptedHandler>(
                                        [](const JobCall&, Completion) { throw std::runtime_error("no"); }));
  broker.welcome();

  broker.offer(1, "x");

  const auto failure = broker.next<wire::Failure>();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->error_class, "retry");
  EXPECT_EQ(failure->code, "abandoned");
}

TEST(Worker, says_goodbye_when_stopped) {
  Broker broker;
  Running worker(broker.endpoint());
  broker.welcome();

  worker.stop();

  EXPECT_TRUE(broker.next<wire::Bye>());
  EXPECT_EQ(worker.wait(), WorkerEnd::drained);
}

TEST(Worker, leaves_its_jobs_when_stopped_twice) {
  Broker broker;
  Running worker(broker.endpoint(), std::make_shared<worker::EchoHandler>(std::chrono::hours(1)));
  broker.welcome();
  broker.offer(1, "x");
  broker.say(wire::Heartbeat{});
  const auto inventory = broker.next<wire::Heartbeat>();
  ASSERT_TRUE(inventory);
  ASSERT_EQ(inventory->jobs.size(), 1u);

  worker.stop();
  worker.stop();

  EXPECT_TRUE(broker.next<wire::Bye>());
  EXPECT_EQ(worker.wait(), WorkerEnd::interrupted);
}

TEST(Worker, introduces_itself_to_a_broker_that_came_back) {
  auto broker = std::make_unique<Broker>();
  const std::string endpoint = broker->endpoint();
  Running worker(endpoint);
  broker->welcome();

  broker.reset();
  // The address is free again once the old socket is gone, which ZeroMQ does in its own time.
  for (const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30); !broker;)
    try {
      broker = std::make_unique<Broker>(endpoint);
    } catch (const zmq::error_t&) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
      std::this_thread::yield();
    }

  // Heartbeats are a minute apart here: it is the connection that tells.
  EXPECT_TRUE(broker->next<wire::Ready>());
}

TEST(Worker, goes_to_the_next_endpoint_where_nobody_listens_any_more) {
  auto first = std::make_unique<Broker>();
  Broker second;
  Running worker(first->endpoint() + "," + second.endpoint());
  first->welcome();

  first.reset();

  // Heartbeats are a minute apart here: silence would be noticed after three.
  EXPECT_TRUE(second.next<wire::Ready>());
}

TEST(Worker, finds_the_endpoint_at_which_a_broker_listens_at_last) {
  const auto began = std::chrono::steady_clock::now();
  Broker broker;
  Running worker("tcp://127.0.0.1:1,tcp://127.0.0.1:2," + broker.endpoint());

  EXPECT_TRUE(broker.next<wire::Ready>());
  EXPECT_LT(std::chrono::steady_clock::now() - began, 2 * worker::kFirstWordWithin)
      << "it has waited for the word of those where nobody listens";
}

TEST(Worker, gives_up_where_it_was_told_to) {
  WorkerOptions options;
  options.broker = "tcp://127.0.0.1:1";
  options.connect_timeout = milliseconds(20);
  Worker worker(options, {{"echo", std::make_shared<worker::EchoHandler>()}});

  EXPECT_EQ(worker.run(), WorkerEnd::unreachable);
}

TEST(Worker, beats_while_its_loop_turns_and_says_how_it_is) {
  Broker broker;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<WorkerBeat> beats;
  std::optional<Completion> held;
  const auto when = [&](const std::function<bool(const WorkerBeat&)>& holds) {
    std::unique_lock lock(mutex);
    beats.clear();
    return changed.wait_for(lock, std::chrono::minutes(2),
                            [&] { return !beats.empty() && holds(beats.back()); });
  };
  WorkerOptions options;
  options.broker = broker.endpoint();
  options.beat_every = milliseconds(1);
  options.on_beat = [&](const WorkerBeat& beat) {
    const std::lock_guard lock(mutex);
    beats.push_back(beat);
    changed.notify_all();
  };
  Worker worker(options, {{"echo", std::make_shared<ScriptedHandler>(
                                       [&](const JobCall&, Completion done) { held = std::move(done); })}});
  std::thread loop([&] { worker.run(); });

  EXPECT_TRUE(when([](const WorkerBeat& beat) { return !beat.connected && beat.running == 0; }));
  broker.welcome();
  EXPECT_TRUE(when([](const WorkerBeat& beat) { return beat.connected && beat.running == 0; }));
  broker.offer(1, "x");
  EXPECT_TRUE(when([](const WorkerBeat& beat) { return beat.running == 1; }));

  worker.stop();
  worker.stop();
  loop.join();
}

TEST(Worker, names_the_option_that_cannot_be) {
  const auto complaint =
      [](const std::function<void(WorkerOptions&, std::vector<Service>&)>& spoil) -> std::string {
    WorkerOptions options;
    std::vector<Service> services{{"echo", std::make_shared<worker::EchoHandler>()}};
    spoil(options, services);
    try {
      Worker(options, services).run();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return {};
  };

  EXPECT_NE(complaint([](auto& options, auto&) { options.capacity = 0; }).find("capacity 0"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& options, auto&) { options.name = "\xFF"; }).find("name"), std::string::npos);
  EXPECT_NE(complaint([](auto& options, auto&) { options.lanes = {""}; }).find("lane"), std::string::npos);
  EXPECT_NE(complaint([](auto& options, auto&) { options.broker = "x"; }).find("tcp://"), std::string::npos);
  EXPECT_NE(complaint([](auto&, auto& services) { services.clear(); }).find("service"), std::string::npos);
  EXPECT_NE(complaint([](auto&, auto& services) { services.push_back(services[0]); }).find("twice"),
            std::string::npos);
  EXPECT_NE(complaint([](auto&, auto& services) { services[0].handler.reset(); }).find("handler"),
            std::string::npos);
}

/// Two brokers of two shards, of which the worker is told the first.
class Shards : public testing::Test {
 protected:
  Shards() {
    told_ = encode_shards(ShardMap(std::vector<Shard>{{.name = "a", .endpoints = {a_.endpoint()}},
                                                      {.name = "b", .endpoints = {b_.endpoint()}}}));
  }

  /// Takes a `ready` for so many places.
  static void expect_ready(Broker& broker, std::int64_t capacity) {
    const auto ready = broker.next<wire::Ready>();
    ASSERT_TRUE(ready);
    EXPECT_EQ(ready->capacity, capacity);
  }
  void welcome(Broker& broker, std::string_view shard) const {
    wire::Welcome message{.session = "s", .heartbeat_ms = 60'000};
    message.shard = shard;
    message.shards = {told_};
    broker.say(message);
  }
  /// Goes on until each has half of the places.
  void meet() {
    expect_ready(a_, 16);
    welcome(a_, "a");
    expect_ready(a_, 15);
    expect_ready(b_, 0);
    welcome(a_, "a");
    expect_ready(b_, 1);
    welcome(b_, "b");
    welcome(b_, "b");
    expect_ready(a_, 8);
    welcome(a_, "a");
    expect_ready(b_, 8);
    welcome(b_, "b");
  }

  Broker a_, b_;
  std::string told_;
};

TEST_F(Shards, get_half_of_the_places_each_and_none_before_the_other_has_given_it_up) {
  const Running worker(a_.endpoint());

  meet();
}

TEST_F(Shards, that_give_equal_numbers_get_their_own_answers) {
  std::vector<std::pair<std::uint64_t, Completion>> jobs;
  const auto handler = std::make_shared<ScriptedHandler>([&](const JobCall& job, Completion done) {
    jobs.emplace_back(job.lease.job, std::move(done));
    if (jobs.size() < 2) return;
    EXPECT_NE(jobs[0].first, jobs[1].first);
    // The second one first.
    jobs[1].second.success(Blob::copy("second"));
    jobs[0].second.success(Blob::copy("first"));
  });
  const Running worker(a_.endpoint(), handler);
  meet();

  a_.offer(5, "x");
  a_.say(wire::Heartbeat{});
  ASSERT_TRUE(a_.next<wire::Heartbeat>());  // behind the job
  b_.offer(5, "y");

  const auto of_a = a_.next<wire::Outcome>(), of_b = b_.next<wire::Outcome>();
  ASSERT_TRUE(of_a && of_b);
  EXPECT_EQ(of_a->job, 5u);
  EXPECT_EQ(of_b->job, 5u);
  EXPECT_EQ(a_.body(), "first");
  EXPECT_EQ(b_.body(), "second");
}

TEST_F(Shards, that_are_away_hold_up_no_other_one) {
  const Running worker(a_.endpoint());
  expect_ready(a_, 16);
  welcome(a_, "a");
  expect_ready(a_, 15);  // one is kept for b, which never answers
  welcome(a_, "a");

  a_.offer(1, "x");

  EXPECT_TRUE(a_.next<wire::Outcome>());
  EXPECT_EQ(a_.body(), "x");
}

TEST_F(Shards, that_are_not_named_any_more_are_left) {
  const Running worker(a_.endpoint());
  meet();

  told_ = encode_shards(ShardMap(std::vector<Shard>{{.name = "a", .endpoints = {a_.endpoint()}}}));
  welcome(a_, "a");

  EXPECT_TRUE(b_.next<wire::Bye>());
  expect_ready(a_, 16);
}

TEST_F(Shards, are_all_told_when_the_worker_ends_now) {
  std::vector<Completion> held;
  const auto handler = std::make_shared<ScriptedHandler>(
      [&](const JobCall&, Completion done) { held.push_back(std::move(done)); });
  Running worker(a_.endpoint(), handler);
  meet();
  for (Broker* broker : {&a_, &b_}) {
    broker->offer(5, "x");
    broker->say(wire::Heartbeat{});
    ASSERT_TRUE(broker->next<wire::Heartbeat>());  // behind the job
  }

  worker.stop();
  expect_ready(a_, 1);
  expect_ready(b_, 1);
  worker.stop();

  EXPECT_TRUE(a_.next<wire::Bye>());
  EXPECT_TRUE(b_.next<wire::Bye>());
  EXPECT_EQ(worker.wait(), WorkerEnd::interrupted);
}

TEST_F(Shards, are_all_left_before_the_worker_ends) {
  Running worker(a_.endpoint());
  meet();

  worker.stop();

  EXPECT_TRUE(a_.next<wire::Bye>());
  EXPECT_TRUE(b_.next<wire::Bye>());
  EXPECT_EQ(worker.wait(), WorkerEnd::drained);
}

}  // namespace
}  // namespace lanemq
