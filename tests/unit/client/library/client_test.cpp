// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.hpp>

#include <lanemq/client.hpp>

#include "client/library/session.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/client/library/fake_broker.hpp"

namespace lanemq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::eventually;
using test::FakeBroker;
using testing::HasSubstr;

constexpr seconds kPatience{30};
constexpr char kNobody[] = "tcp://127.0.0.1:1";  // a port that nobody listens on

template <class T>
T get(std::future<T> future) {
  EXPECT_EQ(future.wait_for(kPatience), std::future_status::ready);
  return future.get();
}

TEST(Client, brings_answers_back) {
  FakeBroker broker;
  Client client({.endpoint = broker.endpoint()});

  const Answer small = get(client.submit({.service = "echo", .id = "mine"}, std::string("hello")));
  const Answer empty = get(client.submit({.service = "echo"}));
  const std::string bytes(1'000'000, 'L');
  const Answer large = get(client.submit({.service = "echo"}, bytes));
  const Reply<BrokerPong> pong = get(client.ping());

  ASSERT_TRUE(small && empty && large && pong);
  EXPECT_EQ(small->body.bytes(), "hello");
  EXPECT_EQ(small->id, "mine");
  EXPECT_EQ(small->lane, "normal");
  EXPECT_EQ(empty->body.bytes(), "");
  EXPECT_EQ(empty->id.size(), 26u) << "an id was made";
  EXPECT_EQ(large->body.bytes(), bytes);
  EXPECT_EQ(pong->version, "fake");
  EXPECT_GT(pong->round_trip.count(), 0);
  EXPECT_EQ(client.pending(), 0u);
}

TEST(Client, serves_many_threads_and_callbacks_that_submit) {
  constexpr int kThreads = 4, kChains = 50, kLinks = 10;
  FakeBroker broker;
  Client client({.endpoint = broker.endpoint()});
  std::atomic<int> answered{0}, failed{0};

  const std::function<void(int)> chain = [&](int links) {
    client.submit({.service = "echo"}, std::to_string(links), [&, links](Answer answer) {
      if (!answer || answer->body.bytes() != std::to_string(links)) ++failed;
      if (links > 1) chain(links - 1);
      ++answered;
    });
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < kChains; ++j)
        chain(kLinks);
    });
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_TRUE(eventually([&] { return answered == kThreads * kChains * kLinks; }));
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(client.pending(), 0u);
}

TEST(Client, waits_for_a_broker_that_comes_later) {
  std::string endpoint;
  { endpoint = FakeBroker().endpoint(); }
  Client client({.endpoint = endpoint});
  std::future<Answer> answer = client.submit({.service = "echo"}, std::string("early"));

  const FakeBroker broker(endpoint);

  EXPECT_EQ(get(std::move(answer))->body.bytes(), "early");
}

TEST(Client, sends_again_what_a_broker_took_into_its_grave) {
  auto broker = std::make_unique<FakeBroker>("tcp://127.0.0.1:*", FakeBroker::Manner::ignore);
  const std::string endpoint = broker->endpoint();
  Client client({.endpoint = endpoint});
  const std::string large(100'000, 'x');
  std::future<Answer> one = client.submit({.service = "echo"}, std::string("one"));
  std::future<Answer> two = client.submit({.service = "echo"}, large);
  ASSERT_TRUE(eventually([&] { return broker->submits() >= 2; }));

  broker.reset();
  broker = std::make_unique<FakeBroker>(endpoint);

  EXPECT_EQ(get(std::move(one))->body.bytes(), "one");
  EXPECT_EQ(get(std::move(two))->body.bytes(), large);
  EXPECT_GE(client.counters().reconnected, 1u);
  EXPECT_GE(client.counters().resent, 2u);
}

TEST(Client, more_than_pending_max_is_refused_inside_the_call) {
  Client client({.endpoint = kNobody, .pending_max = 2});
  std::future<Answer> first = client.submit({.service = "echo"});
  std::future<Answer> second = client.submit({.service = "echo"});

  std::string told;
  client.submit({.service = "echo", .id = "third"}, Blob(), [&](Answer answer) {
    told = answer.error().code + " " + answer.error().id + ": " + answer.error().message;
    EXPECT_TRUE(answer.error().local);
  });

  EXPECT_THAT(told, HasSubstr("client_full third: "));
  EXPECT_THAT(told, HasSubstr("2 answers (pending_max)"));
  EXPECT_EQ(client.pending(), 2u);
  EXPECT_EQ(client.ping().get().error().code, "client_full");
}

TEST(Client, bodies_are_bounded_one_by_one_and_together) {
  Client client({.endpoint = kNobody, .pending_bytes_max = 1'000, .body_bytes_max = 5'000});
  const auto code = [&](std::size_t bytes) {
    std::future<Answer> answer = client.submit({.service = "echo"}, std::string(bytes, 'x'));
    if (answer.wait_for(seconds(0)) != std::future_status::ready) return std::string("pending");
    return answer.get().error().code;
  };

  EXPECT_EQ(code(5'001), "too_large");
  EXPECT_EQ(code(5'000), "pending") << "one body alone may be over the bound of all";
  EXPECT_EQ(code(1), "client_full");
  EXPECT_EQ(code(0), "pending");
}

TEST(Client, a_place_is_free_again_after_an_answer) {
  FakeBroker broker;
  Client client({.endpoint = broker.endpoint(), .pending_max = 1, .pending_bytes_max = 10});
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(get(client.submit({.service = "echo"}, std::string(10, 'x'))).has_value());
}

TEST(Client, a_job_that_nobody_answers_ends_by_its_deadline) {
  Client client({.endpoint = kNobody, .grace = milliseconds(20), .control_timeout = milliseconds(30)});

  const Answer answer = get(client.submit({.service = "echo", .timeout = milliseconds(30)}));
  const Reply<BrokerStats> stats = get(client.stats());

  EXPECT_EQ(answer.error().code, "deadline");
  EXPECT_TRUE(answer.error().local);
  EXPECT_EQ(stats.error().code, "deadline");
  EXPECT_EQ(client.counters().heard, std::nullopt);
}

TEST(Client, ends_everything_when_it_is_destroyed) {
  std::vector<std::future<Answer>> answers;
  std::atomic<int> called{0};
  {
    Client client({.endpoint = kNobody});
    for (int i = 0; i < 100; ++i)
      answers.push_back(client.submit({.service = "echo"}));
    client.submit({.service = "echo"}, Blob(),
                  [&](Answer answer) { called += answer.error().code == "cancelled"; });
  }
  for (std::future<Answer>& answer : answers)
    EXPECT_EQ(answer.get().error().code, "cancelled");
  EXPECT_EQ(called, 1);
}

TEST(Client, survives_a_callback_that_throws) {
  FakeBroker broker;
  std::atomic<int> logged{0};
  Client client({.endpoint = broker.endpoint(), .log = [&](std::string_view) { ++logged; }});
  client.submit({.service = "echo"}, Blob(), [](Answer) { throw std::runtime_error("mine"); });

  EXPECT_TRUE(eventually([&] { return logged == 1; }));
  EXPECT_TRUE(get(client.submit({.service = "echo"})).has_value());
}

TEST(Client, goes_to_the_next_endpoint_where_one_says_nothing) {
  zmq::context_t context;
  zmq::socket_t silent(context, zmq::socket_type::router);
  silent.bind("tcp://127.0.0.1:*");
  const std::string nobody = silent.get(zmq::sockopt::last_endpoint);
  const FakeBroker broker;
  std::mutex mutex;
  std::vector<std::string> logged;
  Client client({.endpoint = nobody + "," + broker.endpoint(), .log = [&](std::string_view line) {
                   const std::lock_guard lock(mutex);
                   logged.emplace_back(line);
                 }});

  EXPECT_EQ(get(client.submit({.service = "echo"}, std::string("a")))->body.bytes(), "a");

  const std::lock_guard lock(mutex);
  EXPECT_EQ(logged, (std::vector<std::string>{
                        "no word from the broker at " + nobody + ": connecting again, a request waits",
                        "the broker at " + broker.endpoint() + " answers"}));
}

TEST(Client, does_not_wait_for_the_word_of_an_endpoint_where_nobody_listens) {
  const FakeBroker broker;
  std::atomic<int> logged{0};
  Client client({.endpoint = std::string(kNobody) + "," + broker.endpoint(),
                 .log = [&](std::string_view) { ++logged; }});

  EXPECT_EQ(get(client.submit({.service = "echo"}, std::string("a")))->body.bytes(), "a");

  EXPECT_EQ(logged, 0) << "it has said that it had waited";
}

TEST(Client, says_once_that_nobody_listens_at_any_endpoint) {
  std::string gone;
  { gone = FakeBroker().endpoint(); }
  std::mutex mutex;
  std::vector<std::string> logged;
  const auto lines = [&] {
    const std::lock_guard lock(mutex);
    return logged;
  };
  Client client({.endpoint = std::string(kNobody) + "," + gone, .log = [&](std::string_view line) {
                   const std::lock_guard lock(mutex);
                   logged.emplace_back(line);
                 }});
  std::future<Answer> answer = client.submit({.service = "echo"}, std::string("a"));
  ASSERT_TRUE(eventually([&] { return !lines().empty(); }));

  const FakeBroker broker(gone);

  EXPECT_EQ(get(std::move(answer))->body.bytes(), "a");
  EXPECT_EQ(lines(), (std::vector<std::string>{"no broker listens at any of " + std::string(kNobody) + ", " +
                                                   gone + ": connecting again, a request waits",
                                               "the broker at " + gone + " answers"}));
}

TEST(Client, goes_on_with_another_broker_where_its_own_is_gone) {
  auto first = std::make_unique<FakeBroker>("tcp://127.0.0.1:*", FakeBroker::Manner::ignore);
  const FakeBroker second;
  Client client({.endpoint = first->endpoint() + "," + second.endpoint()});
  std::future<Answer> answer = client.submit({.service = "echo"}, std::string("a"));
  ASSERT_TRUE(eventually([&] { return first->submits() >= 1; }));
  EXPECT_EQ(second.submits(), 0u) << "one connection at a time";

  first.reset();

  EXPECT_EQ(get(std::move(answer))->body.bytes(), "a");
}

TEST(Client, says_that_an_endpoint_is_none) {
  for (const char* endpoint : {"", "nonsense", "tcp://", "tcp://127.0.0.1", "http://127.0.0.1:80",
                               "tcp://127.0.0.1:5570,", "tcp://127.0.0.1:5570,nonsense"}) {
    try {
      Client client({.endpoint = endpoint});
      ADD_FAILURE() << endpoint;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("is no endpoint")) << endpoint;
    }
  }
}

// ---- streams ------------------------------------------------------------------------------------------

/// Writes down what a stream brings, on the client's thread.
class Reading {
 public:
  StreamReader reader(bool takes_at_once = true) {
    return {.on_chunk =
                [this](const JobChunk& chunk) {
                  in_order_ =
                      in_order_ && chunk.seq == count_ && chunk.body.bytes() == std::to_string(chunk.seq);
                  ++count_;
                },
            .on_end = [this](Answer answer) { end_.set_value(std::move(answer)); },
            .takes_at_once = takes_at_once};
  }
  std::int64_t count() const { return count_; }
  bool in_order() const { return in_order_; }
  Answer end() { return get(end_.get_future()); }

 private:
  std::atomic<std::int64_t> count_{0};
  std::atomic<bool> in_order_{true};
  std::promise<Answer> end_;
};

constexpr char kAnyPort[] = "tcp://127.0.0.1:*";
constexpr auto kWindow = static_cast<std::int64_t>(limits::stream_chunks_max);

TEST(Client, reads_streams_piece_by_piece) {
  FakeBroker broker(kAnyPort, FakeBroker::Manner::echo, {.pieces = 1'000});
  Reading reading;
  Client client({.endpoint = broker.endpoint()});

  client.stream({.service = "echo", .id = "mine"}, {}, reading.reader());

  const Answer end = reading.end();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->chunks, 1'000);
  EXPECT_EQ(end->id, "mine");
  EXPECT_EQ(reading.count(), 1'000);
  EXPECT_TRUE(reading.in_order());
  EXPECT_LE(broker.seen_messages(), 1'000u / client::Session::kSeenChunks) << "not one for each piece";
}

TEST(Client, a_reader_that_takes_later_is_sent_a_window) {
  FakeBroker broker(kAnyPort, FakeBroker::Manner::echo, {.pieces = 200});
  Reading reading;
  Client client({.endpoint = broker.endpoint()});

  client.stream({.service = "echo", .id = "mine"}, {}, reading.reader(false));
  ASSERT_TRUE(eventually([&] { return reading.count() == kWindow; }));
  ASSERT_TRUE(get(client.ping()));  // nothing came in between
  EXPECT_EQ(broker.pieces_sent(), kWindow);

  for (std::int64_t seq = 0; seq < 200; ++seq) {
    ASSERT_TRUE(eventually([&] { return reading.count() > seq; }));
    client.seen("mine", seq);
  }
  EXPECT_TRUE(reading.end());
  EXPECT_TRUE(reading.in_order());
}

TEST(Client, a_stream_goes_on_with_a_broker_that_comes_back) {
  auto broker = std::make_unique<FakeBroker>(kAnyPort, FakeBroker::Manner::echo,
                                             FakeBroker::Streams{.pieces = 200, .sent_max = 100});
  const std::string endpoint = broker->endpoint();
  Reading reading;
  Client client({.endpoint = endpoint});
  client.stream({.service = "echo"}, {}, reading.reader());
  ASSERT_TRUE(eventually([&] { return reading.count() == 100; }));

  broker.reset();
  FakeBroker again(endpoint, FakeBroker::Manner::echo, {.pieces = 200});

  const Answer end = reading.end();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(reading.count(), 200);
  EXPECT_TRUE(reading.in_order());
  EXPECT_EQ(again.submits(), 0u) << "what has begun is never submitted again";
  EXPECT_EQ(again.pieces_sent(), 100);
}

TEST(Client, the_body_of_a_stream_that_has_begun_takes_no_place) {
  FakeBroker broker(kAnyPort, FakeBroker::Manner::echo, {.pieces = 100, .sent_max = 10});
  Reading reading;
  Client client({.endpoint = broker.endpoint(), .pending_bytes_max = 1'000});
  const std::string body(900, 'b');
  client.stream({.service = "echo"}, Blob::borrow(body), reading.reader());

  ASSERT_TRUE(eventually([&] { return reading.count() == 10; }));

  EXPECT_TRUE(get(client.submit({.service = "echo"}, body)));
}

TEST(Client, follows_the_stream_of_another) {
  FakeBroker broker(kAnyPort, FakeBroker::Manner::echo, {.pieces = 150});
  std::atomic<std::int64_t> first{-1}, count{0};
  std::promise<Answer> end;
  Client client({.endpoint = broker.endpoint()});

  client.follow("theirs", 120,
                {.on_chunk =
                     [&](const JobChunk& chunk) {
                       if (count++ == 0) first = chunk.seq;
                     },
                 .on_end = [&](Answer answer) { end.set_value(std::move(answer)); }});

  EXPECT_TRUE(get(end.get_future()));
  EXPECT_EQ(first, 120);
  EXPECT_EQ(count, 30);
}

TEST(Client, a_stream_ends_with_its_client) {
  FakeBroker broker(kAnyPort, FakeBroker::Manner::echo, {.pieces = 100, .sent_max = 10});
  Reading reading;
  {
    Client client({.endpoint = broker.endpoint()});
    client.stream({.service = "echo"}, {}, reading.reader());
    ASSERT_TRUE(eventually([&] { return reading.count() == 10; }));
  }
  const Answer end = reading.end();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().known_code(), ErrorCode::cancelled);
  EXPECT_TRUE(end.error().local);
}

TEST(Client, a_stream_that_no_broker_answers_ends_at_its_deadline) {
  Reading reading;
  Client client({.endpoint = kNobody, .grace = milliseconds(1)});
  client.stream({.service = "echo", .timeout = milliseconds(20)}, {}, reading.reader());

  const Answer end = reading.end();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().known_code(), ErrorCode::deadline);
}

TEST(Client, tells_callbacks_what_it_tells_futures) {
  FakeBroker broker;
  Client client({.endpoint = broker.endpoint()});
  std::promise<Reply<JobAccepted>> left;
  std::promise<Reply<JobStatus>> status, cancelled;
  std::promise<FetchAnswer> fetched;

  client.leave({.service = "echo", .id = "a"}, {}, [&](auto reply) { left.set_value(std::move(reply)); });
  client.status("b", [&](auto reply) { status.set_value(std::move(reply)); });
  client.cancel("c", [&](auto reply) { cancelled.set_value(std::move(reply)); });
  client.fetch("d", milliseconds(0), [&](auto reply) { fetched.set_value(std::move(reply)); });

  EXPECT_EQ(get(left.get_future())->id, "a");
  EXPECT_EQ(get(status.get_future())->state, "running");
  EXPECT_EQ(get(cancelled.get_future())->state, "cancelled");
  const FetchAnswer answer = get(fetched.get_future());
  EXPECT_EQ(std::get<JobDone>(*answer).body.bytes(), "kept");
}

TEST(Client, refuses_inside_the_call_what_it_has_no_place_for) {
  Reading reading;
  Client client({.endpoint = kNobody, .pending_max = 0});
  int refused = 0;
  const auto count = [&](auto reply) {
    if (!reply && reply.error().known_code() == ErrorCode::client_full && reply.error().local) ++refused;
  };

  client.leave({.service = "echo"}, {}, count);
  client.status("b", count);
  client.cancel("c", count);
  client.fetch("d", milliseconds(0), count);
  client.stream({.service = "echo"}, {}, {.on_end = count});
  client.follow("e", 0, {.on_end = count});

  EXPECT_EQ(refused, 6);
}

TEST(Client, refuses_a_meta_that_is_no_msgpack) {
  FakeBroker broker;
  Client client({.endpoint = broker.endpoint()});

  const Answer broken = get(client.submit({.service = "echo", .meta = "\x82\x01"}));
  const Answer sound = get(client.submit({.service = "echo", .meta = "\x81\xa1k\x01"}));

  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().known_code(), ErrorCode::bad_request);
  EXPECT_THAT(broken.error().message, HasSubstr("meta"));
  EXPECT_TRUE(sound);
}

}  // namespace
}  // namespace lanemq
