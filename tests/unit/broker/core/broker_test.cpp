// SPDX-License-Identifier: Apache-2.0
#include "broker/core/broker.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

Options small_options() {
  Options options;
  options.lanes = {{.name = "critical", .depth_max = 2},
                   {.name = "normal", .depth_max = 100, .is_default = true}};
  return options;
}

/// A broker with a client `c` and a worker `w` in virtual time. What is sent is kept as JSON.
class Bench {
 public:
  explicit Bench(const Options& options = small_options(), std::uint64_t seed = 1) : broker_(options, seed) {}

  void submit(const std::string& id, const std::string& body = "", const std::string& lane = "",
              std::optional<std::int64_t> retain_ms = {}) {
    wire::Submit fields;
    fields.service = "s";
    if (!id.empty()) fields.id = id;
    if (!lane.empty()) fields.lane = lane;
    if (!model_.empty()) fields.model = model_;
    fields.retain_ms = retain_ms;
    broker_.handle(Submitted{{.address = "c", .envelope = {}}, &fields, Blob::borrow(body)}, now_);
    turn();
  }
  void fetch(const std::string& id, std::int64_t wait_ms = 0, const std::string& address = "c") {
    wire::Fetch fields;
    fields.id = id;
    fields.wait_ms = wait_ms;
    broker_.handle(FetchAsked{{.address = address, .envelope = {}}, &fields}, now_);
    turn();
  }
  void worker(std::int64_t capacity) {
    wire::Ready fields;
    fields.services = {"s"};
    fields.capacity = capacity;
    broker_.handle(WorkerReady{"w", &fields}, now_);
    turn();
  }
  /// The id of the job that was handed over last.
  std::string handed_over() const {
    for (auto sent = sent_.rbegin(); sent != sent_.rend(); ++sent) {
      const std::size_t at = sent->find("\"id\":\"");
      if (sent->find("\"job\",") != std::string::npos && at != std::string::npos)
        return sent->substr(at + 6, sent->find('"', at + 6) - at - 6);
    }
    return "none";
  }
  void result(const std::string& id, const std::string& body = "") {
    Record* const record = broker_.jobs().find(id);
    ASSERT_NE(record, nullptr);
    const Job* const job = record->job();
    ASSERT_NE(job, nullptr);
    wire::Outcome fields;
    fields.job = static_cast<std::uint64_t>(job->number);
    fields.attempt = job->attempt;
    broker_.handle(OutcomeReported{"w", &fields, Blob::borrow(body)}, now_);
    turn();
  }
  void failure(const std::string& id, std::string_view error_class, std::string_view code) {
    const Job& job = *broker_.jobs().find(id)->job();
    wire::Failure fields;
    fields.job = static_cast<std::uint64_t>(job.number);
    fields.attempt = job.attempt;
    fields.error_class = error_class;
    fields.code = code;
    broker_.handle(FailureReported{"w", &fields, {}}, now_);
    turn();
  }
  void configure(const Options& options) {
    broker_.handle(OptionsChanged{&options}, now_);
    turn();
  }
  void pass(Duration time) {
    now_ += time;
    broker_.handle(WorkerHeard{"w"}, now_);
    turn();
  }
  void turn() {
    broker_.advance(now_);
    sent_.clear();
    for (const Send& send : broker_.outbox().sends) {
      std::string text(broker_.outbox().address(send));
      sent_.push_back(text + " " + to_json(broker_.outbox().header(send)));
      all_ += std::string(broker_.outbox().header(send));
    }
    notices_ = broker_.outbox().notices;
    broker_.outbox().clear();
  }
  std::string last() const { return sent_.empty() ? "" : sent_.back(); }

  Broker broker_;
  TimePoint now_{};
  std::string model_;  // of what is submitted; empty: it names none
  std::vector<std::string> sent_;
  std::string all_;
  std::vector<Notice> notices_;
};

TEST(Broker, a_full_lane_names_itself_and_its_limit) {
  Bench bench;
  bench.submit("a", "", "critical");
  bench.submit("b", "", "critical");
  bench.submit("c", "", "critical");

  EXPECT_THAT(bench.last(), AllOf(HasSubstr("lane_full"), HasSubstr("critical"), HasSubstr("holds 2 jobs"),
                                  HasSubstr("depth_max"), HasSubstr("retry_after_ms")));
  bench.submit("d");
  EXPECT_EQ(bench.last(), "") << "the other lane has room";
}

TEST(Broker, what_a_client_that_is_gone_leaves_is_cancelled_over_some_turns) {
  constexpr std::size_t kJobs = 2500, kInATurn = 1000;
  Options options = small_options();
  options.lanes[1].depth_max = kJobs;
  Bench bench(options);
  wire::Submit fields;
  fields.service = "s";
  fields.orphan = "cancel";
  fields.reply = "accepted";
  for (std::size_t i = 0; i < kJobs; ++i)
    bench.broker_.handle(Submitted{{.address = "c", .envelope = {}}, &fields, {}}, bench.now_);
  bench.broker_.handle(ClientUnreachable{"c"}, bench.now_);
  bench.turn();

  bench.pass(seconds(5) - milliseconds(1));
  EXPECT_EQ(bench.broker_.lanes()[1]->queued, kJobs);
  std::size_t left = kJobs;
  for (int turns = 0; left > 0; ++turns) {
    ASSERT_LT(turns, 10);
    bench.pass(milliseconds(1));
    const std::size_t queued = bench.broker_.lanes()[1]->queued;
    EXPECT_LE(left - queued, kInATurn);
    left = queued;
  }
  EXPECT_EQ(bench.broker_.stats().orphans_cancelled, kJobs);
}

TEST(Broker, requests_of_one_connection_that_wait_are_bounded_and_counted) {
  constexpr int kWaiters = 20'000, kPerJob = 64;
  Options options = small_options();
  options.lanes[1].depth_max = 1000;
  Bench bench(options);
  for (int job = 0; job <= kWaiters / kPerJob; ++job)
    bench.submit("job-" + std::to_string(job));
  const std::size_t before = bench.broker_.memory_bytes();
  wire::Fetch fields;
  fields.wait_ms = 1000;
  const std::string envelope(500, 'e');
  for (int i = 0; i < kWaiters; ++i) {
    const std::string id = "job-" + std::to_string(i / kPerJob);
    fields.id = id;
    bench.broker_.handle(FetchAsked{{.address = "c", .envelope = envelope}, &fields}, bench.now_);
  }
  bench.turn();
  EXPECT_EQ(bench.last(), "");
  EXPECT_EQ(bench.broker_.memory_bytes() - before, kWaiters * (sizeof(Waiter) + envelope.size()));

  bench.fetch("job-0", 1000);
  EXPECT_THAT(bench.last(), AllOf(HasSubstr("client_full"), HasSubstr("connection_waiters_max")));
  bench.fetch("job-0", 1000, "d");
  EXPECT_EQ(bench.last(), "") << "another connection may";
  bench.pass(milliseconds(1001));
  for (int turns = 0; turns < kWaiters / 1000; ++turns)
    bench.turn();  // each answers a part of them
  EXPECT_EQ(bench.broker_.memory_bytes(), before);
}

TEST(Broker, a_lane_can_be_bounded_in_bytes) {
  Options options = small_options();
  options.lanes[1].bytes_max = 2000;
  Bench bench(options);
  bench.submit("a", std::string(1000, 'x'));
  bench.submit("b", std::string(1000, 'x'));

  EXPECT_THAT(bench.last(), AllOf(HasSubstr("lane_full"), HasSubstr("normal"), HasSubstr("bytes_max")));
}

TEST(Broker, the_total_of_jobs_and_of_bytes_is_bounded) {
  Options options = small_options();
  options.jobs_max = 2;
  Bench jobs(options);
  for (const char* id : {"a", "b", "c"})
    jobs.submit(id);
  EXPECT_THAT(jobs.last(), AllOf(HasSubstr("bytes_full"), HasSubstr("jobs_max")));

  options = small_options();
  options.memory_max = 5000;
  Bench bytes(options);
  bytes.submit("a", std::string(3000, 'x'));
  bytes.submit("b", std::string(3000, 'x'));
  EXPECT_THAT(bytes.last(), AllOf(HasSubstr("bytes_full"), HasSubstr("memory_max")));
  EXPECT_LE(bytes.broker_.memory_bytes(), options.memory_max);
}

TEST(Broker, kept_results_make_way_for_new_work) {
  Options options = small_options();
  options.jobs_max = 2;
  Bench bench(options);
  bench.worker(1);
  for (int i = 0; i < 20; ++i) {
    const std::string id = "job-" + std::to_string(i);
    bench.submit(id);
    ASSERT_THAT(bench.last(), HasSubstr("\"job\""));
    bench.result(id);
  }
  EXPECT_LE(bench.broker_.jobs().size(), 2u);
  EXPECT_GT(bench.broker_.stats().results_evicted, 0u);
}

TEST(Broker, kept_results_do_not_make_way_in_vain) {
  Options options = small_options();
  options.memory_max = 8000;
  Bench bench(options);
  bench.worker(1);
  bench.submit("kept");
  bench.result("kept", "answer");
  bench.submit("large", std::string(9000, 'x'));
  EXPECT_THAT(bench.last(), AllOf(HasSubstr("bytes_full"), HasSubstr("memory_max")));
  EXPECT_NE(bench.broker_.jobs().find("kept"), nullptr);
  EXPECT_EQ(bench.broker_.stats().results_evicted, 0u);
}

TEST(Broker, each_lane_gets_its_share_of_what_is_handed_over) {
  Options options = small_options();
  options.lanes = {{.name = "top"},
                   {.name = "high", .depth_max = 5000},
                   {.name = "normal", .depth_max = 5000, .is_default = true, .share_min = 50},
                   {.name = "low", .depth_max = 5000, .share_min = 20}};
  options.retain = Duration{};
  Bench bench(options);
  for (const char* lane : {"high", "normal", "low"})
    for (int i = 0; i < 1200; ++i)
      bench.submit(std::string(lane) + "-" + std::to_string(i), "", lane);
  bench.worker(1);
  std::map<std::string, int> handed_over;
  for (int i = 0; i < 1000; ++i) {
    const std::string job = bench.handed_over();
    ++handed_over[job.substr(0, job.find('-'))];
    bench.result(job);
  }
  EXPECT_NEAR(handed_over["normal"], 50, 1);
  EXPECT_NEAR(handed_over["low"], 20, 1);
  EXPECT_EQ(handed_over["high"], 1000 - handed_over["normal"] - handed_over["low"]);
}

TEST(Broker, a_reload_asks_again_whoever_waits_for_a_budget) {
  Options options = small_options();
  BudgetOptions& budget = options.budgets.emplace_back();
  budget.name = "up";
  budget.concurrency = 1;
  budget.rates.push_back({.name = "requests_per_minute", .limit = 60, .period = minutes(1)});
  Bench bench(options);
  bench.worker(10);
  for (const char* id : {"a", "b", "c"})
    bench.submit(id);
  EXPECT_EQ(bench.broker_.running(), 1u);

  options.budgets[0].rates.clear();
  options.budgets[0].concurrency = 2;
  bench.configure(options);
  EXPECT_EQ(bench.handed_over(), "b");
  EXPECT_EQ(bench.broker_.running(), 2u);
  options.budgets[0].concurrency = 3;
  bench.configure(options);
  EXPECT_EQ(bench.handed_over(), "c");
}

TEST(Broker, what_only_a_key_that_is_gone_could_grant_ends_with_the_reload) {
  Options options = small_options();
  BudgetOptions& budget = options.budgets.emplace_back();
  budget.name = "up";
  const auto key_of = [](const char* name, std::int64_t tokens) {
    return KeyOptions{.name = name,
                      .rates = {{.name = "tokens_per_minute",
                                 .limit = tokens,
                                 .period = minutes(1),
                                 .resource = Resource::tokens}},
                      .concurrency = 1};
  };
  budget.keys = {key_of("small", 10), key_of("large", 100'000)};
  Bench bench(options);
  bench.worker(10);
  const std::string body(4000, 'x');
  for (const char* id : {"a", "b"})
    bench.submit(id, body);
  ASSERT_EQ(bench.broker_.running(), 1u);

  options.budgets[0].keys = {key_of("small", 10)};
  bench.configure(options);
  EXPECT_THAT(bench.last(), AllOf(HasSubstr("unsatisfiable"), HasSubstr("\"b\""), HasSubstr("key small")));
  bench.submit("c", body);
  EXPECT_THAT(bench.last(), HasSubstr("unsatisfiable"));
  bench.result("a");
  EXPECT_THAT(bench.last(), HasSubstr("\"a\"")) << "what runs goes on";
  options.budgets[0].keys = {key_of("small", 10), key_of("large", 100'000)};
  bench.configure(options);
  bench.submit("d", body);
  EXPECT_EQ(bench.handed_over(), "d");
}

TEST(Broker, a_reload_that_boosts_a_lane_counts_for_what_waits_there) {
  Options options = small_options();
  options.lanes = {{.name = "top", .depth_max = 100},
                   {.name = "upper", .depth_max = 100},
                   {.name = "lower", .depth_max = 100, .is_default = true}};
  Bench bench(options);
  bench.worker(1);
  bench.submit("first");
  bench.submit("old");
  bench.pass(seconds(10));
  bench.submit("young", "", "upper");
  options.lanes[2].boost_after = seconds(5);
  bench.configure(options);
  bench.result("first");
  EXPECT_EQ(bench.handed_over(), "old") << "it competes in the lane above, and came first";
}

TEST(Broker, a_body_over_its_limit_is_refused_by_name) {
  Options options = small_options();
  options.body_bytes_max = 10;
  Bench bench(options);
  bench.submit("a", std::string(11, 'x'));
  EXPECT_THAT(bench.last(), AllOf(HasSubstr("too_large"), HasSubstr("body_bytes_max"), HasSubstr("11")));
}

TEST(Broker, results_are_kept_up_to_their_number_and_their_bytes) {
  Options options = small_options();
  options.results_max = 3;
  Bench bench(options);
  bench.worker(1);
  for (int i = 0; i < 10; ++i) {
    bench.submit("job-" + std::to_string(i));
    bench.result("job-" + std::to_string(i));
  }
  EXPECT_EQ(bench.broker_.kept_results(), 3u);
  EXPECT_NE(bench.broker_.jobs().find("job-9"), nullptr);
  EXPECT_EQ(bench.broker_.jobs().find("job-6"), nullptr);

  options = small_options();
  options.results_bytes_max = 20000;
  Bench heavy(options);
  heavy.worker(1);
  for (int i = 0; i < 10; ++i) {
    heavy.submit("job-" + std::to_string(i));
    heavy.result("job-" + std::to_string(i), std::string(6000, 'x'));
  }
  EXPECT_EQ(heavy.broker_.kept_results(), 3u);
  EXPECT_LE(heavy.broker_.memory_bytes(), 20000u);
}

TEST(Broker, a_result_is_kept_for_as_long_as_the_client_said) {
  Bench bench;
  bench.worker(1);
  bench.submit("long", "", "", 10'000);
  bench.result("long", "L");
  bench.submit("short", "", "", 500);
  bench.result("short", "S");
  bench.submit("usual");
  bench.result("usual", "U");

  bench.pass(milliseconds(499));
  bench.fetch("short");
  EXPECT_THAT(bench.last(), HasSubstr("result"));
  bench.pass(milliseconds(2));
  EXPECT_EQ(bench.broker_.jobs().find("short"), nullptr);
  for (int i = 0; i < 10; ++i)
    bench.pass(seconds(1));
  EXPECT_EQ(bench.broker_.jobs().find("long"), nullptr);
  EXPECT_NE(bench.broker_.jobs().find("usual"), nullptr);
  bench.pass(std::chrono::hours(24));
  EXPECT_EQ(bench.broker_.jobs().size(), 0u);
  EXPECT_EQ(bench.broker_.memory_bytes(), 0u);
}

TEST(Broker, whoever_asks_for_a_result_that_goes_while_it_is_read_hears_so) {
  Options options = small_options();
  options.store_durable = true;
  options.results_bytes_max = 4000;  // a quarter of it in memory
  Bench bench(options);
  bench.worker(1);
  bench.submit("a", "", "", 500);
  const auto number = static_cast<std::uint64_t>(bench.broker_.jobs().find("a")->job()->number);
  bench.result("a", std::string(2000, 'x'));
  bench.fetch("a");
  ASSERT_EQ(bench.last(), "") << "its body is on disk alone";
  bench.pass(milliseconds(502));
  ASSERT_EQ(bench.broker_.jobs().find("a"), nullptr);
  bench.submit("a");  // another job, by now

  bench.broker_.handle(ResultRead{number, std::nullopt, {}}, bench.now_);
  bench.turn();

  EXPECT_THAT(bench.last(), AllOf(HasSubstr("error"), testing::Not(HasSubstr("internal"))));
}

TEST(Broker, results_can_be_read_back_again_and_again) {
  constexpr int kReads = 1100;  // more than may wait at a time
  Options options = small_options();
  options.store_durable = true;
  options.results_bytes_max = 4000;  // a quarter of it in memory
  Bench bench(options);
  bench.worker(1);
  bench.submit("a");
  const auto number = static_cast<std::uint64_t>(bench.broker_.jobs().find("a")->job()->number);
  bench.result("a", std::string(2000, 'x'));
  for (int i = 0; i < kReads; ++i) {
    bench.fetch("a");
    ASSERT_EQ(bench.last(), "") << "it is read from the disk, the " << i << "th time";
    bench.broker_.handle(ResultRead{number, std::nullopt, {}}, bench.now_);
    bench.turn();
    ASSERT_THAT(bench.last(), HasSubstr("cannot be read from the store"));
  }
}

/// Sixty-four go on with a job, which is the most. Then one of them is gone and another one asks for it.
TEST(Broker, at_the_bound_of_owners_who_is_gone_makes_room) {
  constexpr int kOwners = 64;
  Bench bench;
  wire::Submit fields;
  fields.service = "s";
  fields.id = "a";
  fields.orphan = "cancel";
  fields.reply = "accepted";
  const auto submit = [&](const std::string& address) {
    bench.broker_.handle(Submitted{{.address = address, .envelope = {}}, &fields, {}}, bench.now_);
    bench.turn();
  };
  const auto leaves = [&](int owner) {
    bench.broker_.handle(ClientUnreachable{"owner-" + std::to_string(owner)}, bench.now_);
  };
  for (int i = 0; i < kOwners; ++i)
    submit("owner-" + std::to_string(i));
  leaves(5);
  submit("late");
  for (int i = 0; i < kOwners; ++i)
    leaves(i);
  bench.pass(seconds(6));
  ASSERT_NE(bench.broker_.jobs().find("a"), nullptr);
  EXPECT_EQ(bench.broker_.jobs().find("a")->result(), nullptr) << "it goes on for the one that came late";

  bench.broker_.handle(ClientUnreachable{"late"}, bench.now_);
  bench.pass(seconds(6));
  EXPECT_NE(bench.broker_.jobs().find("a")->result(), nullptr);
}

/// A second for each megabyte, beside the time that a worker may be silent.
TEST(Broker, a_large_body_has_its_time_on_its_way) {
  Options options = small_options();
  options.heartbeat = seconds(1);
  Bench bench(options);
  bench.worker(1);
  bench.submit("a", std::string(5'000'000, 'x'));
  const auto lists_nothing_twice = [&] {
    const wire::Heartbeat inventory;
    for (int i = 0; i < 2; ++i)
      bench.broker_.handle(HeartbeatHeard{"w", &inventory}, bench.now_);
    bench.turn();
  };

  bench.pass(seconds(7));
  lists_nothing_twice();
  EXPECT_EQ(bench.broker_.stats().jobs_requeued_missing, 0u) << "it may be on its way";
  bench.pass(seconds(1));
  lists_nothing_twice();
  EXPECT_EQ(bench.broker_.stats().jobs_requeued_missing, 1u);
}

TEST(Broker, a_large_body_goes_by_without_a_copy) {
  Bench bench;
  bench.worker(1);
  const auto owner = std::make_shared<std::string>(100'000, 'x');
  wire::Submit fields;
  fields.service = "s";
  fields.id = "a";
  bench.broker_.handle(Submitted{{.address = "c", .envelope = {}}, &fields, Blob::own(owner, *owner)},
                       bench.now_);
  bench.broker_.advance(bench.now_);

  const auto& sends = bench.broker_.outbox().sends;
  ASSERT_EQ(sends.size(), 1u);
  EXPECT_EQ(sends[0].body.bytes().data(), owner->data());
}

TEST(Broker, each_of_many_who_wait_for_one_job_is_answered) {
  Bench bench;
  bench.submit("a");
  constexpr int kWaiters = 1000;
  for (int i = 0; i < kWaiters; ++i)
    bench.fetch("a", i % 2 == 0 ? 60000 : 1000, "waiter-" + std::to_string(i));
  bench.worker(1);
  bench.now_ += std::chrono::milliseconds(1500);
  bench.turn();
  bench.result("a");
  EXPECT_EQ(bench.sent_.size(), 1u + kWaiters / 2);
}

TEST(Broker, says_when_it_leaves_an_upstream_alone_and_when_it_calls_it_again) {
  Options options = small_options();
  options.attempts_max = 1;
  Bench bench(options);
  bench.worker(9);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(i == 0 || bench.notices_.empty());
    bench.submit("f" + std::to_string(i));
    bench.failure("f" + std::to_string(i), "retry", "connect");
  }
  ASSERT_EQ(bench.notices_.size(), 1u);
  EXPECT_EQ(bench.notices_[0].kind, Notice::Kind::upstream_opened);
  EXPECT_EQ(bench.notices_[0].service, "s");
  EXPECT_GE(bench.notices_[0].retry_ms, 4000);
  EXPECT_EQ(bench.broker_.stats().upstreams_opened, 1u);

  for (int i = 0; i < 4; ++i)
    bench.submit("t" + std::to_string(i));
  for (int i = 0; i < 6 && bench.handed_over() == "none"; ++i)
    bench.pass(seconds(1));
  EXPECT_EQ(bench.handed_over(), "t0");
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(bench.notices_.empty());
    bench.result("t" + std::to_string(i));
  }
  ASSERT_EQ(bench.notices_.size(), 1u);
  EXPECT_EQ(bench.notices_[0].kind, Notice::Kind::upstream_closed);
}

TEST(Broker, a_bound_far_over_all_answers_waits_for_a_full_burst_and_not_for_an_empty_window) {
  Options options = small_options();
  BudgetOptions& budget = options.budgets.emplace_back();
  budget.name = "o";
  budget.rates.push_back({"tokens_per_minute", 600'000, minutes(1), 0, Resource::tokens});
  Bench bench(options);
  bench.worker(9);
  bench.submit("small", R"({"max_tokens":10})");
  ASSERT_EQ(bench.handed_over(), "small");
  bench.submit("far", R"({"max_tokens":2000000})");
  bench.submit("behind", R"({"max_tokens":10})");
  EXPECT_NE(bench.handed_over(), "behind") << "a large job is not overtaken";
  for (int second = 0; second < 30; ++second)
    bench.pass(seconds(1));
  EXPECT_EQ(bench.broker_.running(), 3u) << "the burst was full within seconds";
}

/// How many notices of a service without a worker came while so much time passed.
std::size_t unserved_notices(Bench& bench, seconds time) {
  std::size_t count = 0;
  for (; time.count() > 0; time -= seconds(1)) {
    bench.pass(seconds(1));
    for (const Notice& notice : bench.notices_)
      if (notice.kind == Notice::Kind::service_without_worker) ++count;
  }
  return count;
}

TEST(Broker, says_once_a_minute_that_no_worker_serves_what_jobs_wait_for) {
  Options options = small_options();
  options.lanes[1].timeout = std::chrono::hours(1);
  Bench bench(options);
  EXPECT_EQ(unserved_notices(bench, seconds(100)), 0u) << "no job waits";
  bench.submit("a");
  bench.submit("b");
  EXPECT_EQ(unserved_notices(bench, seconds(3)), 0u) << "a worker that is started again is away for as long";
  bench.pass(seconds(1));
  ASSERT_EQ(bench.notices_.size(), 1u);
  EXPECT_EQ(bench.notices_[0].kind, Notice::Kind::service_without_worker);
  EXPECT_EQ(bench.notices_[0].service, "s");
  EXPECT_EQ(bench.notices_[0].jobs, 2u);
  EXPECT_EQ(bench.notices_[0].for_ms, 2000);
  EXPECT_EQ(unserved_notices(bench, seconds(180)), 3u);

  bench.worker(1);
  EXPECT_EQ(bench.handed_over(), "a");
  EXPECT_EQ(unserved_notices(bench, seconds(10)), 0u) << "b waits, but for a place";
  bench.broker_.handle(WorkerUnreachable{"w"}, bench.now_);
  bench.turn();
  EXPECT_EQ(unserved_notices(bench, seconds(10)), 1u);
  bench.worker(2);
  EXPECT_EQ(unserved_notices(bench, seconds(100)), 0u);
}

TEST(Broker, says_that_workers_are_there_and_none_takes_the_lane) {
  Options options = small_options();
  options.lanes[1].timeout = std::chrono::hours(1);
  Bench bench(options);
  wire::Ready ready;
  ready.services = {"s"};
  ready.capacity = 8;
  ready.lanes = {"critical"};
  bench.broker_.handle(WorkerReady{"w", &ready}, bench.now_);
  bench.submit("a");
  EXPECT_EQ(unserved_notices(bench, seconds(3)), 0u);
  bench.pass(seconds(1));
  ASSERT_EQ(bench.notices_.size(), 1u);
  EXPECT_EQ(bench.notices_[0].service, "s");
  EXPECT_EQ(bench.notices_[0].lane, options.lanes[1].name);
  EXPECT_EQ(bench.notices_[0].how, "");
  EXPECT_EQ(bench.notices_[0].jobs, 1u);
}

/// As where a machine's workers are stopped in turn: nobody died, and no call failed.
TEST(Broker, the_silence_of_workers_whose_process_lives_costs_no_attempt) {
  Options options = small_options();
  options.attempts_max = 2;
  options.lanes[1].timeout = std::chrono::hours(1);
  Bench bench(options);
  bench.submit("a");
  wire::Ready ready;
  ready.services = {"s"};
  ready.capacity = 1;
  for (int round = 0; round < 10; ++round) {
    WorkerReady event{"w", &ready};
    event.watched = true;
    bench.broker_.handle(event, bench.now_);
    bench.turn();
    EXPECT_EQ(bench.broker_.jobs().find("a")->job()->state, JobState::running) << round;
    for (int second = 0; second < 60; ++second) {
      bench.now_ += seconds(1);
      bench.turn();
    }
    EXPECT_EQ(bench.broker_.jobs().find("a")->job()->state, JobState::queued) << round;
  }
  EXPECT_EQ(bench.broker_.jobs().find("a")->job()->attempts, 0);

  bench.worker(1);  // of another machine
  for (int second = 0; second < 60; ++second) {
    bench.now_ += seconds(1);
    bench.turn();
  }
  EXPECT_EQ(bench.broker_.jobs().find("a")->job()->attempts, 1);
}

TEST(Broker, names_sixteen_services_without_a_worker_and_no_more) {
  Options options = small_options();
  options.lanes[1].timeout = std::chrono::hours(1);
  options.lanes[1].depth_max = 100;
  Bench bench(options);
  wire::Submit fields;
  for (int i = 0; i < 50; ++i) {
    const std::string name = "nobody-" + std::to_string(i);
    fields.id = fields.service = name;
    bench.broker_.handle(Submitted{{.address = "c", .envelope = {}}, &fields, {}}, bench.now_);
  }
  bench.turn();
  EXPECT_EQ(bench.broker_.workers().unserved().size(), 50u);
  EXPECT_EQ(unserved_notices(bench, seconds(30)), 16u);
}

TEST(Broker, a_model_that_failed_is_tried_with_one_job_also_in_the_moment_before_its_timer) {
  Options options = small_options();
  options.attempts_max = 1;
  Bench bench(options);
  bench.worker(9);
  bench.now_ += std::chrono::microseconds(300);  // timers fire at whole milliseconds
  bench.model_ = "good";
  bench.submit("g");
  bench.result("g");
  bench.model_ = "bad";
  for (int i = 0; i < 5; ++i) {
    bench.submit("f" + std::to_string(i));
    bench.failure("f" + std::to_string(i), "retry", "upstream_500");
  }
  const Service& service = *bench.broker_.workers().services().begin()->second;
  ASSERT_EQ(service.failed_models.size(), 1u);
  for (int i = 0; i < 4; ++i)
    bench.submit("t" + std::to_string(i));

  const TimePoint open_from = service.failed_models[0].breaker.admits_at(false);
  while (bench.now_ < open_from)
    bench.pass(std::min<Duration>(seconds(1), open_from - bench.now_));
  EXPECT_EQ(bench.broker_.lanes()[1]->running, 0u);

  bench.pass(milliseconds(1));
  EXPECT_EQ(bench.broker_.lanes()[1]->running, 1u);
}

TEST(Broker, a_body_that_is_read_late_makes_no_trial_of_a_call_from_before_the_failures) {
  Options options = small_options();
  options.attempts_max = 1;
  options.store_durable = true;
  options.memory_max = 2000;  // larger bodies are on disk alone
  Bench bench(options);
  bench.worker(9);
  bench.submit("late", std::string(2000, 'x'));
  const Job& late = *bench.broker_.jobs().find("late")->job();
  const auto number = static_cast<std::uint64_t>(late.number);
  ASSERT_TRUE(late.body_awaited());
  for (int i = 0; i < 5; ++i) {
    bench.submit("f" + std::to_string(i));
    bench.failure("f" + std::to_string(i), "retry", "connect");
  }
  const CircuitBreaker& breaker = bench.broker_.workers().services().begin()->second->breaker;
  for (int i = 0; i < 6 && breaker.state() != CircuitBreaker::State::half_open; ++i)
    bench.pass(seconds(1));
  ASSERT_EQ(breaker.state(), CircuitBreaker::State::half_open);

  bench.broker_.handle(BodyRead{number, Blob::copy(std::string(2000, 'x'))}, bench.now_);
  bench.turn();
  bench.result("late");

  EXPECT_EQ(breaker.state(), CircuitBreaker::State::half_open);
  bench.submit("trial");
  EXPECT_EQ(bench.handed_over(), "trial");
  bench.submit("next");
  EXPECT_EQ(bench.handed_over(), "none") << "the trial is still out";
}

TEST(Broker, a_worker_without_the_jobs_key_says_nothing_of_the_upstream) {
  Options options = small_options();
  options.attempts_max = 2;
  Bench bench(options);
  bench.worker(1);
  const Service& service = *bench.broker_.workers().services().begin()->second;
  const int jobs = static_cast<int>(CircuitBreaker::kWindowCalls) + RetryBudget::kRetriesMax;
  for (int i = 0; i < jobs; ++i) {
    const std::string id = "j" + std::to_string(i);
    bench.submit(id);
    for (int seconds_waited = 0; bench.broker_.jobs().find(id)->job() != nullptr; ++seconds_waited) {
      ASSERT_LT(seconds_waited, 100) << id;
      if (bench.broker_.jobs().find(id)->job()->worker() != nullptr)
        bench.failure(id, "retry", "unknown_key");
      else
        bench.pass(seconds(1));
    }
    EXPECT_THAT(bench.last(), HasSubstr("unknown_key"));
    ASSERT_EQ(service.breaker.state(), CircuitBreaker::State::closed);
  }
  EXPECT_TRUE(service.retries.full());
}

TEST(Broker, a_breaker_that_is_switched_off_never_opens) {
  Options options = small_options();
  options.breaker = false;
  options.attempts_max = 1;
  Bench bench(options);
  bench.worker(1);
  for (int i = 0; i < 50; ++i) {
    const std::string id = "f" + std::to_string(i);
    bench.submit(id);
    ASSERT_THAT(bench.last(), HasSubstr("\"job\""));
    bench.failure(id, "retry", "connect");
  }
}

TEST(Broker, sleeps_when_there_is_nothing_to_wait_for) {
  Bench bench;
  EXPECT_FALSE(bench.broker_.next_wakeup());
  bench.submit("a");
  EXPECT_TRUE(bench.broker_.next_wakeup());
}

TEST(Broker, what_comes_due_at_once_is_done_in_several_turns_and_nothing_overdue_starts) {
  constexpr int kJobs = 8000;
  Options options = small_options();
  options.lanes[1].depth_max = kJobs;
  Bench bench(options);
  for (int i = 0; i < kJobs; ++i)
    bench.submit("overdue-" + std::to_string(i));
  const Lane& lane = *bench.broker_.lanes()[1];

  bench.now_ += lane.options().timeout;
  bench.worker(1);

  EXPECT_EQ(bench.handed_over(), "none");
  EXPECT_GT(lane.counters.failed, 0u);
  EXPECT_GT(lane.queued, 1000u);
  EXPECT_LE(*bench.broker_.next_wakeup(), bench.now_);
  bench.submit("urgent", "", "critical");
  EXPECT_EQ(bench.handed_over(), "urgent");
  bench.result("urgent");
  EXPECT_GT(lane.queued, 0u);
  for (int turns = 0; lane.queued > 0; ++turns) {
    ASSERT_LT(turns, 10);
    bench.turn();
    EXPECT_EQ(bench.handed_over(), "none");
  }
  EXPECT_EQ(lane.counters.failed, std::uint64_t{kJobs});
  EXPECT_GT(*bench.broker_.next_wakeup(), bench.now_);
}

TEST(Broker, ids_that_it_makes_tell_the_time_and_differ) {
  Options options = small_options();
  options.wall_ms = 1'700'000'000'000;
  Bench bench(options);
  bench.worker(2);
  bench.submit("", "1");
  const std::string first = bench.last();
  bench.submit("", "2");

  // 1700000000000 in Crockford's base 32.
  EXPECT_THAT(first, HasSubstr("\"01HF7YAT00"));
  EXPECT_THAT(bench.last(), HasSubstr("\"01HF7YAT00"));
  EXPECT_NE(first, bench.last());
}

TEST(Broker, equal_seeds_give_equal_bytes_and_others_do_not) {
  const auto play = [](std::uint64_t seed) {
    Bench bench(small_options(), seed);
    bench.worker(1);
    for (int i = 0; i < 20; ++i)
      bench.submit("");
    bench.pass(seconds(1));
    return bench.all_;
  };
  EXPECT_EQ(play(7), play(7));
  EXPECT_NE(play(7), play(8));
}

TEST(Broker, tells_the_bank_of_a_shared_budget_which_shards_there_are) {
  Options options = small_options();
  options.budgets = {{.name = "api", .concurrency = 4, .shared = true, .shared_by = 2}};
  options.shards = {{.name = "acme", .services = {"s"}}, {.name = "rest"}};
  options.shard = "acme";
  Broker broker(options, 1);

  const std::vector<DrawWanted> draws = broker.budgets().shared.begin_draws(TimePoint(seconds(1)));

  ASSERT_THAT(draws, testing::SizeIs(1));
  EXPECT_THAT(draws[0].draw.shards, testing::ElementsAre("acme", "rest"));
}

}  // namespace
}  // namespace lanemq::core
