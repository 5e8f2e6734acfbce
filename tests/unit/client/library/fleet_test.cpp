// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <lanemq/client.hpp>
#include <lanemq/loop_client.hpp>
#include <lanemq/shards.hpp>

#include "client/library/shard_routes.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/client/library/fake_shard.hpp"

namespace lanemq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::eventually;
using test::FakeShard;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Three shards, and a client that was given the endpoint of the first alone: `one` takes the services that
/// begin with 1, `two` those that begin with 2, `rest` what is left.
class FleetTest : public testing::Test {
 protected:
  FleetTest() { say_to_all(rules()); }

  std::vector<Shard> rules() const {
    return {{.name = "one", .services = {"1*"}, .endpoints = {one_.endpoint()}},
            {.name = "two", .services = {"2*"}, .endpoints = {two_.endpoint()}},
            {.name = "rest", .endpoints = {rest_.endpoint()}}};
  }
  void say_to_all(std::vector<Shard> shards) {
    const std::string said = encode_shards(ShardMap(std::move(shards)));
    for (FakeShard* shard : {&one_, &two_, &rest_})
      shard->say(said);
  }

  Client& client() {
    if (!client_)
      client_ = std::make_unique<Client>(ClientOptions{
          .endpoint = one_.endpoint(), .control_timeout = patience_, .log = [this](std::string_view line) {
            const std::lock_guard lock(mutex_);
            log_.emplace_back(line);
          }});
    return *client_;
  }
  /// The same once it has heard of the shards.
  Client& informed() {
    EXPECT_EQ(get(client().ping())->shards.size(), 3u);
    return client();
  }

  template <class T>
  static T get(std::future<T> future) {
    if (future.wait_for(seconds(30)) != std::future_status::ready)
      throw std::runtime_error("no answer came");  // the client's end would wait for nothing
    return future.get();
  }
  /// The answer to what a new client asks before it has read a word of its broker, which no thread but this
  /// one reads for it.
  template <class T>
  Reply<T> asked_at_once(const std::function<void(LoopClient&, std::function<void(Reply<T>)>)>& ask) {
    std::optional<Reply<T>> told;
    LoopClient asks({.endpoint = one_.endpoint()});
    ask(asks, [&told](Reply<T> answer) { told = std::move(answer); });
    const auto end = LoopClient::Clock::now() + seconds(30);
    while (!told && LoopClient::Clock::now() < end) {
      pollfd watched{asks.fd(), POLLIN, 0};
      ::poll(&watched, 1, 10);
      asks.process();
    }
    if (!told) throw std::runtime_error("no answer came");
    return *std::move(told);
  }
  static std::string who_did(const Answer& answer) {
    return answer ? std::string(answer->body.bytes()) : answer.error().code + ": " + answer.error().message;
  }
  std::string who_does(const std::string& service, const std::string& id) {
    return who_did(get(client().submit({.service = service, .id = id})));
  }

  FakeShard one_{"one"}, two_{"two"}, rest_{"rest"};
  milliseconds patience_{20'000};

 private:
  std::mutex mutex_;
  std::vector<std::string> log_;
  std::unique_ptr<Client> client_;
};

TEST_F(FleetTest, sends_each_job_to_the_shard_of_its_rule) {
  informed();

  EXPECT_EQ(who_does("1st", "a"), "one");
  EXPECT_EQ(who_does("2nd", "b"), "two");
  EXPECT_EQ(who_does("echo", "c"), "rest");
  EXPECT_EQ(get(client().leave({.service = "2nd", .id = "d"}))->lane, "two");
  EXPECT_THAT(one_.heard(), ElementsAre("submit a"));
  EXPECT_THAT(two_.heard(), ElementsAre("submit b", "submit d"));
  EXPECT_THAT(rest_.heard(), ElementsAre("submit c"));
}

TEST_F(FleetTest, says_in_a_pong_which_shards_there_are) {
  const Reply<BrokerPong> pong = get(client().ping());

  ASSERT_TRUE(pong);
  EXPECT_EQ(pong->shard, "one");
  ASSERT_EQ(pong->shards.size(), 3u);
  EXPECT_EQ(pong->shards[1].name, "two");
  EXPECT_THAT(pong->shards[1].endpoints, ElementsAre(two_.endpoint()));
  EXPECT_EQ(get(client().ping("two"))->shard, "two");
  EXPECT_THAT(get(client().stats(0, "rest"))->json, HasSubstr("rest"));
  EXPECT_THAT(get(client().stats())->json, HasSubstr("one"));
  EXPECT_THAT(get(client().ping("other")).error().message, HasSubstr("no such shard"));
}

TEST_F(FleetTest, goes_by_the_tenant_of_its_key) {
  std::vector<Shard> shards = rules();
  shards.insert(shards.begin(), {.name = "acme", .tenants = {"acme"}, .endpoints = {two_.endpoint()}});
  FakeShard home("rest");
  home.say(encode_shards(ShardMap(shards)), "acme");
  FakeShard acme("acme");
  shards[0].endpoints = {acme.endpoint()};
  home.say(encode_shards(ShardMap(shards)), "acme");
  acme.say(encode_shards(ShardMap(shards)), "acme");
  Client mine({.endpoint = home.endpoint()});
  get(mine.ping());

  EXPECT_EQ(who_did(get(mine.submit({.service = "1st"}))), "acme");
}

TEST_F(FleetTest, follows_a_broker_that_sends_a_job_on_without_a_word_to_the_caller) {
  informed();
  one_.send_on("1st", "two", two_.endpoint());  // of a tenant that only brokers know

  EXPECT_EQ(who_does("1st", "a"), "two");
  EXPECT_EQ(get(client().leave({.service = "1st", .id = "b"}))->lane, "two");
  std::promise<Answer> end;
  std::string pieces;
  client().stream({.service = "1st", .id = "c"}, {},
                  {.on_chunk = [&](const JobChunk& chunk) { pieces += chunk.body.bytes(); },
                   .on_end = [&](Answer answer) { end.set_value(std::move(answer)); }});
  ASSERT_TRUE(get(end.get_future()));
  EXPECT_EQ(pieces, "two");
  EXPECT_EQ(get(client().status("a"))->lane, "two");
  EXPECT_THAT(one_.heard(), ElementsAre("submit a")) << "the next ones of that client go there at once";
  EXPECT_EQ(client().pending(), 0u);
}

TEST_F(FleetTest, follows_a_broker_whose_rules_have_not_come_yet) {
  one_.say("");
  one_.send_on("2nd", "two", two_.endpoint());

  EXPECT_EQ(who_does("2nd", "a"), "two");
  EXPECT_EQ(who_does("1st", "b"), "one");
}

TEST_F(FleetTest, ends_a_job_that_brokers_send_in_a_circle) {
  informed();
  one_.send_on("1st", "two", two_.endpoint());
  two_.send_on("1st", "one", one_.endpoint());

  const Answer answer = get(client().submit({.service = "1st", .id = "a"}));

  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, "not_owner");
  EXPECT_EQ(answer.error().id, "a");
  EXPECT_THAT(answer.error().message, HasSubstr("their rules (shard) differ"));
  EXPECT_TRUE(answer.error().retry_after);
  EXPECT_EQ(one_.heard().size() + two_.heard().size(), 1u + client::ShardRoutes::kMovesMax);
  EXPECT_EQ(client().pending(), 0u);
}

TEST_F(FleetTest, asks_the_shard_that_took_a_job_for_it) {
  informed();
  who_does("2nd", "a");
  two_.heard();

  EXPECT_EQ(get(client().status("a"))->state, "running");
  EXPECT_EQ(get(client().cancel("a"))->lane, "two");
  EXPECT_EQ(std::get<JobDone>(*get(client().fetch("a"))).body.bytes(), "two");
  EXPECT_THAT(two_.heard(), ElementsAre("status a", "cancel a", "fetch a"));
  EXPECT_THAT(one_.heard(), IsEmpty());
  EXPECT_THAT(rest_.heard(), IsEmpty());
}

TEST_F(FleetTest, finds_a_job_that_somebody_else_has_submitted) {
  informed();
  rest_.know("a");
  two_.know("b");
  two_.know("c");
  one_.know("d");

  EXPECT_EQ(get(client().status("a"))->lane, "rest");
  EXPECT_EQ(get(client().cancel("b"))->lane, "two");
  EXPECT_EQ(std::get<JobDone>(*get(client().fetch("c", seconds(30)))).body.bytes(), "two");
  EXPECT_EQ(get(client().status("d"))->lane, "one");
  std::promise<Answer> end;
  std::string pieces;
  client().follow("b", 3,
                  {.on_chunk = [&](const JobChunk& chunk) { pieces += chunk.body.bytes(); },
                   .on_end = [&](Answer answer) { end.set_value(std::move(answer)); }});
  EXPECT_TRUE(get(end.get_future()));
  EXPECT_EQ(pieces, "two");
  EXPECT_THAT(rest_.heard(), Not(Contains("cancel b"))) << "it would be told of a job that is not its own";
  EXPECT_EQ(client().pending(), 0u);
}

TEST_F(FleetTest, finds_a_job_before_it_has_heard_of_any_shard) {
  two_.know("a");
  one_.know("b");

  const auto status = [this](const std::string& id) {
    return *asked_at_once<JobStatus>([&id](LoopClient& asks, auto told) { asks.status(id, told); });
  };
  EXPECT_EQ(status("a").lane, "two");
  EXPECT_EQ(asked_at_once<JobStatus>([](LoopClient& asks, auto told) { asks.cancel("a", told); })->lane,
            "two");
  const FetchAnswer fetched = asked_at_once<std::variant<JobDone, JobStatus>>(
      [](LoopClient& asks, auto told) { asks.fetch("a", {}, told); });
  EXPECT_EQ(std::get<JobDone>(*fetched).body.bytes(), "two");
  EXPECT_EQ(status("b").lane, "one");
  EXPECT_THAT(two_.heard(), Not(Contains("status b")));
  one_.say("");
  EXPECT_EQ(status("a").state, "unknown") << "there are no shards";
}

TEST_F(FleetTest, asks_its_own_broker_alone_where_that_is_wanted) {
  two_.know("a");
  one_.send_on("2nd", "two", two_.endpoint());
  Client mine({.endpoint = one_.endpoint(), .follow_shards = false});
  get(mine.ping());

  EXPECT_EQ(get(mine.status("a"))->state, "unknown");
  EXPECT_EQ(get(mine.submit({.service = "2nd"})).error().code, "not_owner");
  EXPECT_THAT(two_.heard(), IsEmpty());
}

TEST_F(FleetTest, says_that_nobody_knows_a_job_once_all_have_said_so) {
  informed();

  EXPECT_EQ(get(client().status("a"))->state, "unknown");
  EXPECT_EQ(get(client().cancel("a"))->state, "unknown");
  EXPECT_EQ(std::get<JobStatus>(*get(client().fetch("a"))).state, "unknown");
  EXPECT_GE(rest_.heard_count("status a"), 1u);
  EXPECT_GE(two_.heard_count("status a"), 1u);
  EXPECT_EQ(client().pending(), 0u);
}

TEST_F(FleetTest, does_not_wait_for_a_silent_shard_where_another_one_knows_the_job) {
  informed();
  rest_.fall_silent();
  two_.know("a");

  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(get(client().status("a"))->lane, "two");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, patience_);
  EXPECT_EQ(client().pending(), 0u);
}

TEST_F(FleetTest, names_the_silent_shard_where_no_other_one_knows_the_job) {
  patience_ = milliseconds(500);
  informed();
  rest_.fall_silent();

  const Reply<JobStatus> status = get(client().status("a"));
  const FetchAnswer fetched = get(client().fetch("a", seconds(60)));

  ASSERT_FALSE(status || fetched);
  EXPECT_EQ(status.error().code, "deadline");
  EXPECT_THAT(status.error().message, HasSubstr("no answer from shard \"rest\""));
  EXPECT_THAT(fetched.error().message, HasSubstr("no answer from shard \"rest\""));
  EXPECT_EQ(client().pending(), 0u);
}

TEST_F(FleetTest, counts_the_silence_of_the_shard_that_something_waits_for) {
  informed();
  EXPECT_FALSE(client().counters().silence);
  two_.stand_still();  // a shard that answers pings is not silent
  std::future<Answer> waits = client().submit({.service = "2nd", .id = "a"});

  std::optional<BrokerSilence> silence;
  ASSERT_TRUE(eventually([&] { return (silence = client().counters().silence).has_value(); }));

  EXPECT_EQ(silence->shard, "two");
  EXPECT_EQ(silence->endpoints, two_.endpoint());
  EXPECT_GE(std::chrono::steady_clock::now() - silence->since, seconds(1));
}

TEST_F(FleetTest, asks_a_shard_that_answers_whose_job_it_is_while_that_of_the_rules_is_silent) {
  std::vector<Shard> shards = rules();
  shards[0].tenants = {"zeta"};
  shards[1].tenants = {"mu"};
  shards[0].services = shards[1].services = {};
  say_to_all(shards);
  informed();
  rest_.stand_still();
  std::future<Answer> waits = client().submit({.service = "echo", .id = "a"});
  ASSERT_TRUE(eventually([&] { return client().counters().silence.has_value(); }));
  one_.send_on("2nd", "two", two_.endpoint());
  one_.send_on("3rd", "rest", rest_.endpoint());
  one_.send_on("4th", "rest", rest_.endpoint());

  EXPECT_EQ(who_did(get(client().submit({.service = "echo", .id = "b", .client = "zeta-2"}))), "one");
  EXPECT_EQ(who_did(get(client().submit({.service = "2nd", .id = "c", .client = "mu-1"}))), "two");
  EXPECT_EQ(who_did(get(client().submit({.service = "2nd", .id = "d", .client = "mu-1"}))), "two");
  for (const char* id : {"e", "f"}) {
    std::future<Answer> of_silent = client().submit({.service = "3rd", .id = id, .client = "other"});
    ASSERT_TRUE(eventually([&] { return rest_.heard_count(std::string("submit ") + id) > 0; }));
  }
  const Reply<JobAccepted> left = get(client().leave({.service = "4th", .id = "g", .client = "other"}));
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, "unavailable");
  EXPECT_THAT(left.error().message, HasSubstr("shard \"rest\""));
  EXPECT_THAT(one_.heard(), ElementsAre("submit b", "submit c", "submit e", "submit g"))
      << "what a broker has said of a client is remembered";
  EXPECT_THAT(two_.heard(), ElementsAre("submit c", "submit d"));
  EXPECT_THAT(rest_.heard(), Not(Contains("submit b")));
}

TEST_F(FleetTest, names_the_silent_shard_where_it_has_the_job) {
  patience_ = milliseconds(500);
  informed();
  who_does("2nd", "a");
  two_.fall_silent();

  const Reply<JobStatus> status = get(client().status("a"));

  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("of shard \"two\""));
}

TEST_F(FleetTest, watches_all_shards_and_says_whose_change_it_is) {
  std::mutex mutex;
  std::set<std::string> started;
  std::promise<ClientError> end;
  {
    Client watcher({.endpoint = one_.endpoint()});
    watcher.watch({}, {.on_change =
                           [&](const JobChange& change) {
                             const std::lock_guard lock(mutex);
                             if (change.what == "started") started.insert(change.id + " of " + change.shard);
                           },
                       .on_end = [&](ClientError error) { end.set_value(std::move(error)); }});
    const auto count = [&] {
      const std::lock_guard lock(mutex);
      return started.size();
    };
    EXPECT_TRUE(eventually([&] { return count() == 3; }));
    EXPECT_EQ(watcher.pending(), 1u);
  }

  EXPECT_EQ(end.get_future().get().code, "cancelled") << "once, though it was at three shards";
  EXPECT_THAT(started, Contains("two of two"));
  EXPECT_THAT(started, Contains("rest of rest"));
  EXPECT_EQ(started.size(), 3u);
}

TEST_F(FleetTest, sends_new_jobs_by_new_rules_and_lets_shards_go) {
  informed();
  EXPECT_EQ(who_does("2nd", "a"), "two");
  std::vector<Shard> shards = rules();
  shards.erase(shards.begin() + 1);
  say_to_all(shards);
  EXPECT_EQ(get(client().ping())->shards.size(), 2u);

  EXPECT_EQ(who_does("2nd", "b"), "rest");
  EXPECT_EQ(get(client().ping("two")).error().code, "unavailable");
  EXPECT_GE(client().counters().sent, 4u) << "what went to two counts still";
}

TEST_F(FleetTest, leaves_an_endpoint_that_has_another_shards_broker_now) {
  FakeShard moved("two");
  std::vector<Shard> shards = rules();
  shards[1].endpoints = {rest_.endpoint(), moved.endpoint()};
  say_to_all(shards);
  moved.say(encode_shards(ShardMap(shards)));
  rest_.send_on("2nd", "two", rest_.endpoint());
  informed();

  EXPECT_EQ(who_does("2nd", "a"), "two");
  EXPECT_THAT(moved.heard(), Contains("submit a"));
}

TEST_F(FleetTest, tells_of_a_shard_that_nothing_is_known_to_reach) {
  std::vector<Shard> shards = rules();
  shards[1].endpoints.clear();
  say_to_all(shards);
  informed();

  const Answer answer = get(client().submit({.service = "2nd", .id = "a"}));

  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, "unavailable");
  EXPECT_THAT(answer.error().message, HasSubstr("shard \"two\" cannot be reached"));
  EXPECT_EQ(client().pending(), 0u);
}

TEST_F(FleetTest, ends_all_that_is_sought_when_it_goes) {
  two_.fall_silent();
  rest_.fall_silent();
  std::future<Reply<JobStatus>> sought;
  {
    Client mine({.endpoint = one_.endpoint()});
    get(mine.ping());
    sought = mine.status("a");
    EXPECT_TRUE(eventually([&] { return two_.heard_count("status a") > 0; }));
  }

  EXPECT_EQ(get(std::move(sought)).error().code, "cancelled");
}

TEST_F(FleetTest, ends_what_it_has_asked_before_the_first_word_when_it_goes) {
  one_.fall_silent();
  std::future<Reply<JobStatus>> early;
  {
    Client mine({.endpoint = one_.endpoint()});
    early = mine.status("a");
    EXPECT_TRUE(eventually([&] { return one_.heard_count("status a") > 0; }));
  }

  EXPECT_EQ(get(std::move(early)).error().code, "cancelled");
}

/// The same in a loop of one's own: one descriptor for all shards.
TEST_F(FleetTest, wakes_its_loop_for_the_answers_of_all_shards) {
  LoopClient client({.endpoint = one_.endpoint()});
  const int fd = client.fd();
  std::vector<std::string> told;
  // What is due later is not waited for: the descriptor has to tell of each answer.
  const auto until = [&](const auto& condition) {
    const auto end = LoopClient::Clock::now() + seconds(20);
    while (!condition() && LoopClient::Clock::now() < end) {
      const auto wakeup = client.next_wakeup();
      const bool is_due = wakeup && *wakeup <= LoopClient::Clock::now();
      pollfd watched{client.fd(), POLLIN, 0};
      ::poll(&watched, 1, is_due ? 0 : 20'000);
      client.process();
    }
    return condition();
  };
  client.ping([&](const Reply<BrokerPong>& pong) {
    told.push_back(pong->shard);
    client.ping([&](const Reply<BrokerPong>& other) { told.push_back(other ? other->shard : "?"); }, "two");
  });
  ASSERT_TRUE(until([&] { return told.size() == 2; }));
  EXPECT_THAT(told, ElementsAre("one", "two"));

  int answered = 0;
  for (const char* service : {"1st", "2nd", "echo"})
    client.submit({.service = service}, {}, [&](const Answer&) { ++answered; });
  client.spend({.key = "k", .session = "s"}, [&](const auto&) { ++answered; });
  client.status(
      "by-service", [&](const auto&) { ++answered; }, "2nd");

  ASSERT_TRUE(until([&] { return answered == 5; }));
  EXPECT_EQ(client.fd(), fd);
  EXPECT_EQ(client.shard_of("2nd"), "two");
  EXPECT_EQ(rest_.heard_count("spend"), 1u);
  EXPECT_EQ(two_.heard_count("status by-service"), 1u);
  EXPECT_EQ(rest_.heard_count("status by-service"), 0u);
  EXPECT_EQ(client.counters().answered, 7u);
}

}  // namespace
}  // namespace lanemq
