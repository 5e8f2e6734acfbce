// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <lanemq/loop_client.hpp>

#include "client/library/session.hpp"
#include "tests/unit/client/library/fake_broker.hpp"

namespace lanemq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeBroker;
using testing::ElementsAre;
using testing::HasSubstr;

/// The loop of a program: one thread that sleeps until the client has something to do, and no longer.
class Program {
 public:
  explicit Program(ClientOptions options)
      : client(std::move(options), [this] { ++works; }), thread_(std::this_thread::get_id()) {}

  /// False: the condition does not come true within all patience.
  bool until(const std::function<bool()>& condition) {
    const auto end = LoopClient::Clock::now() + seconds(30);
    while (!condition()) {
      const auto now = LoopClient::Clock::now();
      if (now > end) return false;
      const auto wakeup = std::min(client.next_wakeup().value_or(end), end);
      const auto left =
          std::chrono::ceil<milliseconds>(std::max(wakeup - now, LoopClient::Clock::duration{}));
      pollfd watched{client.fd(), POLLIN, 0};
      ++sleeps;
      ::poll(&watched, 1, static_cast<int>(left.count()));
      inside_ = true;
      client.process();
      inside_ = false;
    }
    return true;
  }

  /// Whether a callback is where callbacks belong.
  bool inside() const { return inside_ && std::this_thread::get_id() == thread_; }

  int works = 0, sleeps = 0;
  LoopClient client;

 private:
  const std::thread::id thread_;
  bool inside_ = false;
};

constexpr char kLoopNobody[] = "tcp://127.0.0.1:1";  // a port that nobody listens on
constexpr char kLoopAnyPort[] = "tcp://127.0.0.1:*";

TEST(LoopClient, brings_answers_back_on_the_thread_of_its_loop) {
  FakeBroker broker;
  Program program({.endpoint = broker.endpoint()});
  std::vector<std::string> told;
  const auto tell = [&](const Answer& answer) {
    EXPECT_TRUE(program.inside());
    told.push_back(answer ? std::to_string(answer->body.size()) : answer.error().code);
  };

  program.client.submit({.service = "echo"}, Blob::borrow("hello"), tell);
  program.client.submit({.service = "echo"}, Blob::copy(std::string(1'000'000, 'L')), tell);
  EXPECT_EQ(program.client.pending(), 2u);

  ASSERT_TRUE(program.until([&] { return told.size() == 2; }));
  EXPECT_THAT(told, ElementsAre("5", "1000000"));
  EXPECT_EQ(program.client.pending(), 0u);
  EXPECT_EQ(program.client.counters().answered, 2u);
}

TEST(LoopClient, calls_for_its_loop_once_for_all_that_is_asked_at_once) {
  FakeBroker broker;
  Program program({.endpoint = broker.endpoint()});
  int answered = 0;
  EXPECT_EQ(program.client.next_wakeup(), std::nullopt);

  for (int i = 0; i < 3; ++i)
    program.client.submit({.service = "echo"}, {}, [&](const Answer&) { ++answered; });

  EXPECT_EQ(program.works, 1);
  EXPECT_LE(program.client.next_wakeup(), LoopClient::Clock::now());
  ASSERT_TRUE(program.until([&] { return answered == 3; }));
  EXPECT_EQ(program.works, 1) << "what its own callbacks do is no reason";
  program.client.ping([&](const Reply<BrokerPong>&) { ++answered; });
  EXPECT_EQ(program.works, 2);
}

TEST(LoopClient, sends_what_callbacks_ask_for_without_being_called_again) {
  FakeBroker broker;
  Program program({.endpoint = broker.endpoint()});
  int links = 100;
  std::function<void(const Answer&)> chain = [&](const Answer&) {
    if (--links > 0) program.client.submit({.service = "echo"}, {}, chain);
  };

  program.client.submit({.service = "echo"}, {}, chain);

  ASSERT_TRUE(program.until([&] { return links == 0; }));
  EXPECT_EQ(program.works, 1);
}

TEST(LoopClient, sleeps_when_there_is_nothing_to_do) {
  FakeBroker broker(kLoopAnyPort, FakeBroker::Manner::ignore);
  Program program({.endpoint = broker.endpoint(), .grace = milliseconds(0)});
  std::string code;
  program.client.submit({.service = "echo", .timeout = milliseconds(300)}, {},
                        [&](const Answer& answer) { code = answer.error().code; });

  ASSERT_TRUE(program.until([&] { return !code.empty(); }));

  EXPECT_EQ(code, "deadline");
  EXPECT_LE(program.sleeps, 20) << "a descriptor or a wake-up says that there is something, and there is not";
}

TEST(LoopClient, tells_a_refusal_later_and_never_inside_the_call) {
  Program program({.endpoint = kLoopNobody, .pending_max = 0, .body_bytes_max = 10});
  std::vector<std::string> told;
  const auto tell = [&](const auto& reply) {
    EXPECT_TRUE(program.inside());
    told.push_back(reply.error().code);
  };

  program.client.submit({.service = "echo"}, Blob::borrow("more than ten bytes"), tell);
  program.client.leave({.service = "echo"}, {}, tell);
  program.client.stream({.service = "echo"}, {}, {.on_end = tell});
  program.client.follow("a", 0, {.on_end = tell});
  program.client.status("b", tell);
  program.client.cancel("c", tell);
  program.client.fetch("d", milliseconds(0), tell);
  program.client.ping(tell);
  program.client.stats(0, tell);
  program.client.admin({.verb = "pause"}, tell);
  EXPECT_THAT(told, testing::IsEmpty());

  ASSERT_TRUE(program.until([&] { return told.size() == 10; }));
  EXPECT_EQ(told.front(), "too_large");
  EXPECT_EQ(std::count(told.begin(), told.end(), "client_full"), 9);
}

TEST(LoopClient, tells_what_each_kind_of_request_brings) {
  FakeBroker broker;
  Program program({.endpoint = broker.endpoint()});
  std::vector<std::string> told;

  program.client.leave({.service = "echo", .id = "a"}, {},
                       [&](const auto& reply) { told.push_back(reply->id); });
  program.client.status("b", [&](const auto& reply) { told.push_back(reply->state); });
  program.client.cancel("c", [&](const auto& reply) { told.push_back(reply->state); });
  program.client.fetch("d", milliseconds(0), [&](const FetchAnswer& reply) {
    told.emplace_back(std::get<JobDone>(*reply).body.bytes());
  });
  program.client.ping([&](const auto& reply) { told.push_back(reply->version); });

  ASSERT_TRUE(program.until([&] { return told.size() == 5; }));
  EXPECT_THAT(told, ElementsAre("a", "running", "cancelled", "kept", "fake"));
}

TEST(LoopClient, reads_a_stream_as_far_as_its_reader_takes_it) {
  constexpr auto kAtOnce = static_cast<std::int64_t>(limits::stream_chunks_max);
  FakeBroker broker(kLoopAnyPort, FakeBroker::Manner::echo, {.pieces = 3 * kAtOnce});
  Program program({.endpoint = broker.endpoint()});
  std::int64_t next = 0;
  bool in_order = true, ended = false;
  program.client.stream({.service = "echo", .id = "mine"}, {},
                        {.on_chunk =
                             [&](const JobChunk& chunk) {
                               in_order = in_order && chunk.seq == next && program.inside();
                               ++next;
                             },
                         .on_end = [&](const Answer& answer) { ended = answer.has_value(); },
                         .takes_at_once = false});

  ASSERT_TRUE(program.until([&] { return next == kAtOnce; }));
  const int works = program.works;
  for (std::int64_t seq = 0; seq + 1 < static_cast<std::int64_t>(client::Session::kSeenChunks); ++seq)
    program.client.seen("mine", seq);
  EXPECT_EQ(program.works, works + 1) << "once, as the next wake-up is earlier";
  ASSERT_TRUE(program.until([&] {
    program.client.seen("mine", next - 1);
    return ended;
  }));

  EXPECT_EQ(next, 3 * kAtOnce);
  EXPECT_TRUE(in_order);
}

TEST(LoopClient, goes_on_with_a_broker_that_comes_back_on_the_same_descriptor) {
  auto broker = std::make_unique<FakeBroker>(kLoopAnyPort, FakeBroker::Manner::ignore);
  const std::string endpoint = broker->endpoint();
  Program program({.endpoint = endpoint});
  const int fd = program.client.fd();
  std::string told;
  program.client.submit({.service = "echo"}, Blob::borrow("again"), [&](const Answer& answer) {
    told = answer ? answer->body.bytes() : answer.error().message;
  });
  ASSERT_TRUE(program.until([&] { return broker->submits() == 1; }));

  broker.reset();
  broker = std::make_unique<FakeBroker>(endpoint);

  ASSERT_TRUE(program.until([&] { return !told.empty(); }));
  EXPECT_EQ(told, "again");
  EXPECT_EQ(program.client.fd(), fd);
  EXPECT_GE(program.client.counters().reconnected, 1u);
}

TEST(LoopClient, sends_more_than_a_socket_takes_at_once) {
  constexpr int kMany = 5'000;
  std::string endpoint;
  { endpoint = FakeBroker().endpoint(); }
  Program program({.endpoint = endpoint, .batch_max = 0});
  int answered = 0;
  for (int i = 0; i < kMany; ++i)
    program.client.submit({.service = "echo"}, {},
                          [&](const Answer& answer) { answered += answer.has_value(); });
  program.client.process();  // as far as there is room without a broker

  const FakeBroker broker(endpoint);

  ASSERT_TRUE(program.until([&] { return answered == kMany; })) << answered;
  EXPECT_EQ(program.client.counters().resent, 0u);
}

TEST(LoopClient, ends_everything_when_it_is_closed) {
  Program program({.endpoint = kLoopNobody});
  std::vector<std::string> told;
  const auto tell = [&](const Answer& answer) { told.push_back(answer.error().code); };
  program.client.submit({.service = "echo"}, {}, [&](const Answer& answer) {
    tell(answer);
    program.client.submit({.service = "echo"}, {}, tell);
  });

  program.client.close();

  EXPECT_THAT(told, ElementsAre("cancelled", "cancelled"));
  EXPECT_EQ(program.client.next_wakeup(), std::nullopt);
  EXPECT_EQ(program.client.pending(), 0u);
  program.client.submit({.service = "echo"}, {}, tell);
  EXPECT_EQ(told.size(), 3u);
}

TEST(LoopClient, ends_everything_when_it_is_destroyed) {
  std::string code;
  {
    LoopClient client({.endpoint = kLoopNobody});
    client.submit({.service = "echo"}, {}, [&](const Answer& answer) { code = answer.error().code; });
  }
  EXPECT_EQ(code, "cancelled");
}

TEST(LoopClient, survives_a_callback_that_throws) {
  FakeBroker broker;
  std::vector<std::string> logged;
  Program program(
      {.endpoint = broker.endpoint(), .log = [&](std::string_view line) { logged.emplace_back(line); }});
  program.client.submit({.service = "echo"}, {}, [](const Answer&) { throw std::runtime_error("mine"); });

  ASSERT_TRUE(program.until([&] { return !logged.empty(); }));

  EXPECT_THAT(logged, ElementsAre("a callback threw: mine"));
}

TEST(LoopClient, says_that_an_endpoint_is_none) {
  try {
    LoopClient client({.endpoint = "nonsense"});
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("is no endpoint"));
  }
}

}  // namespace
}  // namespace lanemq
