// SPDX-License-Identifier: Apache-2.0
// The parts of the core by themselves: no Broker is made here.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "broker/core/desks/admission.hpp"
#include "broker/core/life/groups.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/scheduler/dispatcher.hpp"
#include "broker/core/scheduler/parking.hpp"
#include "broker/core/scheduler/state.hpp"
#include "broker/core/scheduler/terms.hpp"
#include "broker/core/scheduler/upstreams.hpp"

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(1)};

Options three_lanes() {
  Options options;
  options.lanes = {LaneOptions{.name = "high"}, LaneOptions{.name = "normal", .is_default = true},
                   LaneOptions{.name = "low"}};
  options.store_durable = true;
  return options;
}

/// The tables and the scheduler, with one worker for service "s".
struct Bench {
  explicit Bench(Options all = three_lanes(), std::uint32_t capacity = 1)
      : state(std::move(all), 1),
        terms(state),
        parking(state.options.budgets.size(), Budgets::kModelsApartMax, terms),
        upstreams(state, terms, parking),
        dispatcher(state, terms, parking, upstreams),
        journal(state),
        groups(state, journal),
        results(state, journal, groups, 1) {
    state.workers.offer(worker, {&service}, 0, capacity);
  }
  Job& add(LaneIndex lane, const std::string& id = "job") {
    JobText::Contents contents;
    contents.parts[JobText::id] = id;
    Job& job = state.jobs.create(contents);
    state.jobs.index(job);
    job.lane = job.submitted_lane = lane;
    job.arrival = ++arrivals & Job::kArrivalMax;
    job.accepted_at = kStart;
    job.deadline = kStart + seconds(60);
    job.retain = Retention(to_ms(state.options.retain));
    job.queue = &state.clients.join(state.clients.named("c"), state.flow_of(*state.lanes[lane], service, 0));
    state.workers.use(service);
    state.bytes += job.bytes();
    state.enqueue(job);
    return job;
  }
  /// What a hand-over does to the tables.
  void start(Job& job) {
    dispatcher.take(job);
    job.state = JobState::running;
    state.jobs.go_away(job);
    state.workers.take_place(*state.workers.find_place(service, job.lane)->worker, job);
    ++job.queue->client().running;
  }
  /// The job ends, and so is kept.
  KeptResult* end(Job& job, JobState how, TimePoint now) {
    state.leave_queue(job);
    job.state = how;
    std::unique_ptr<Ending> ending;
    if (how != JobState::succeeded) {
      ending = std::make_unique<Ending>();
      ending->code = ErrorCode::upstream_failed;
    }
    const std::string id(job.id());
    const Terminal terminal{.id = id,
                            .client_named_it = true,
                            .id_told = true,
                            .lane = job.lane,
                            .state = how,
                            .ending = ending.get()};
    KeptResult* const dead = results.keep(job, terminal, std::move(ending), nullptr, now);
    state.bytes -= job.bytes();
    return dead;
  }

  State state;
  Terms terms;
  Parking parking;
  Upstreams upstreams;
  Dispatcher dispatcher;
  Journal journal;
  Groups groups;
  Results results;
  Service& service = state.workers.service("s");
  Worker& worker = state.workers.add("w", "session");
  std::uint64_t arrivals = 0;
};

// ---- Dispatcher ---------------------------------------------------------------------------------------

/// Of one client's jobs that want the same, the plain rule: the highest lane first, and in a lane who came
/// first, as long as there are places.
RC_GTEST_PROP(Dispatcher, picks_as_a_plain_list_would, ()) {
  const auto places = *rc::gen::inRange<std::uint32_t>(1, 5);
  Bench bench(three_lanes(), places);
  std::map<std::pair<LaneIndex, std::uint64_t>, Job*> waiting;
  std::vector<Job*> running;
  TimePoint now = kStart;
  for (int step = 0; step < 60; ++step) {
    now += milliseconds(1);
    if (*rc::gen::inRange(0, 3) > 0) {
      Job& job = bench.add(*rc::gen::inRange<LaneIndex>(0, 3), "job-" + std::to_string(step));
      waiting.emplace(std::pair(LaneIndex{job.lane}, std::uint64_t{job.arrival}), &job);
    } else if (!running.empty()) {
      Job* const over = running.back();
      running.pop_back();
      bench.state.workers.free_place(*over);
      --over->queue->client().running;
    }
    bench.dispatcher.begin(now, false);
    while (const Pick pick = bench.dispatcher.next(now)) {
      RC_ASSERT(pick.what == Pick::What::start);
      RC_ASSERT(!waiting.empty());
      RC_ASSERT(pick.job == waiting.begin()->second);
      RC_ASSERT(running.size() < places);
      waiting.erase(waiting.begin());
      bench.start(*pick.job);
      running.push_back(pick.job);
    }
    RC_ASSERT(waiting.empty() || running.size() == places);
  }
}

TEST(Dispatcher, says_what_is_to_end_and_ends_nothing) {
  Options options = three_lanes();
  options.budgets = {BudgetOptions{.name = "b"}};
  options.budgets[0].rates = {{.name = "requests_per_minute", .limit = 1, .period = std::chrono::minutes(1)}};
  Bench bench(options);
  Job& late = bench.add(1, "late");
  late.deadline = kStart;
  bench.dispatcher.begin(kStart + seconds(1), true);
  const Pick overdue = bench.dispatcher.next(kStart + seconds(1));
  EXPECT_EQ(overdue.what, Pick::What::overdue) << "its timer is still to come";
  EXPECT_EQ(overdue.job, &late);
  EXPECT_EQ(late.state, JobState::queued);
}

TEST(Dispatcher, hands_out_nothing_while_the_broker_drains) {
  Bench bench;
  bench.add(0);
  bench.state.draining = true;
  bench.dispatcher.begin(kStart, false);
  EXPECT_FALSE(bench.dispatcher.next(kStart));
}

TEST(Dispatcher, a_job_without_a_worker_says_so) {
  Bench bench;
  Job& job = bench.add(0);
  bench.worker.draining = true;
  bench.state.workers.update(bench.worker);
  EXPECT_EQ(bench.dispatcher.wait_of(job, kStart).what, "worker s");
}

// ---- Results ------------------------------------------------------------------------------------------

TEST(Results, what_makes_way_before_its_time_is_known_to_have_been) {
  Options options = three_lanes();
  options.results_max = 1;
  Bench bench(options);
  Job& first = bench.add(1, "first");
  first.client_named_it = true;
  bench.end(first, JobState::succeeded, kStart);
  Job& second = bench.add(1, "second");
  second.client_named_it = true;
  bench.end(second, JobState::succeeded, kStart);
  bench.results.begin_turn(kStart);
  bench.results.evict(kStart);
  EXPECT_EQ(bench.results.kept().size(), 1u);
  EXPECT_EQ(bench.results.not_known("first").code, ErrorCode::gone);
  EXPECT_EQ(bench.results.not_known("never").code, ErrorCode::not_found);
  EXPECT_TRUE(bench.results.ran_before("first", kStart)) << "it is not run again before its time is over";
  EXPECT_FALSE(bench.results.ran_before("second", kStart));
}

TEST(Results, what_failed_is_dead_and_what_its_client_wants_forgotten_is) {
  Bench bench;
  EXPECT_NE(bench.end(bench.add(1, "failed"), JobState::failed, kStart), nullptr);
  EXPECT_EQ(bench.results.kept().dead_size(), 1u);
  Job& forgotten = bench.add(1, "forgotten");
  forgotten.retain = Retention(0);
  EXPECT_EQ(bench.end(forgotten, JobState::failed, kStart), nullptr);
  EXPECT_EQ(bench.results.kept().dead_size(), 1u);
  EXPECT_EQ(bench.state.jobs.find("forgotten"), nullptr);
}

TEST(Results, room_is_made_only_where_that_is_enough) {
  Options options = three_lanes();
  options.memory_max = std::size_t{1} << 20;
  Bench bench(options);
  bench.end(bench.add(1, "kept"), JobState::succeeded, kStart);
  bench.results.begin_turn(kStart);
  EXPECT_FALSE(bench.results.make_room(std::size_t{2} << 20, false, kStart));
  EXPECT_EQ(bench.results.kept().size(), 1u) << "it would have gone for nothing";
  EXPECT_TRUE(bench.results.make_room(options.memory_max - bench.results.memory_bytes() + 1, false, kStart));
  EXPECT_EQ(bench.results.kept().size(), 0u);
}

TEST(Results, room_for_a_job_is_made_only_where_a_result_holds_a_place) {
  Options options = three_lanes();
  options.jobs_max = 2;
  Bench bench(options);
  bench.add(1, "waits");
  Job& cancelled = bench.add(1, "cancelled");
  bench.end(cancelled, JobState::cancelled, kStart);  // its worker has not heard so, and its place is taken
  EXPECT_FALSE(bench.results.make_room(0, true, kStart));
  EXPECT_EQ(bench.results.kept().size(), 1u) << "it would have gone for nothing";
  bench.state.jobs.erase(cancelled);
  EXPECT_TRUE(bench.results.make_room(0, true, kStart));
  EXPECT_EQ(bench.results.kept().size(), 0u);
}

TEST(Results, on_a_full_disk_what_may_wait_to_be_stored_stays) {
  Bench bench;
  const auto end = [&](const char* id, TimePoint when) {
    Job& job = bench.add(1, id);
    job.durable = true;
    bench.end(job, JobState::succeeded, when);
  };
  const auto known = [&](const char* id) { return bench.state.jobs.find(id) != nullptr; };
  const TimePoint full_at = kStart + seconds(10);
  end("old", kStart);
  end("stored, perhaps", full_at - milliseconds(500));
  bench.state.store_full_at = full_at;
  end("waits", full_at + milliseconds(500));

  bench.state.store_stalled = true;
  bench.results.make_room_in_store(full_at + seconds(2));
  EXPECT_TRUE(known("old")) << "it would have gone for nothing";
  bench.state.store_stalled = false;
  for (int second = 3; second < 100; ++second)
    bench.results.make_room_in_store(full_at + seconds(second));

  EXPECT_FALSE(known("old"));
  EXPECT_TRUE(known("stored, perhaps"));
  EXPECT_TRUE(known("waits"));
}

TEST(Results, groups_that_are_over_make_way_for_memory_and_open_ones_do_not) {
  Options options = three_lanes();
  options.memory_max = std::size_t{1} << 20;
  Bench bench(options);
  const auto note = [&](const char* name, bool over, TimePoint when) {
    std::vector<StoredEntry> entries{
        {.name = "counts",
         .numbers = StoredNumbers({over ? 1 : 0, over ? 1 : 2, 1, 0, 0, 0, 0,
                                   when.time_since_epoch().count() + bench.journal.epoch_us()})}};
    bench.groups.restore(name, entries, kStart + seconds(60));
  };
  note("open", false, kStart);
  note("over", true, kStart + seconds(1));
  note("over since", true, kStart + seconds(3));
  bench.groups.restored(kStart + seconds(60));
  bench.end(bench.add(1, "kept"), JobState::succeeded, kStart + seconds(2));
  bench.results.begin_turn(kStart + seconds(60));
  const auto lack = [&](std::size_t bytes) {
    return bench.results.make_room((std::size_t{1} << 20) - bench.results.memory_bytes() + bytes, false,
                                   kStart + seconds(60));
  };

  EXPECT_TRUE(lack(1));
  EXPECT_EQ(std::as_const(bench.groups).find("over"), nullptr);
  EXPECT_NE(bench.state.jobs.find("kept"), nullptr) << "what ended first goes first";
  EXPECT_TRUE(lack(1));
  EXPECT_EQ(bench.state.jobs.find("kept"), nullptr);
  EXPECT_TRUE(lack(1));
  EXPECT_EQ(std::as_const(bench.groups).find("over since"), nullptr);
  EXPECT_FALSE(lack(1));
  EXPECT_NE(std::as_const(bench.groups).find("open"), nullptr);
  EXPECT_EQ(bench.state.stats.groups_evicted, 2u);
}

TEST(Groups, of_more_than_may_be_the_latest_are_restored) {
  Options options = three_lanes();
  options.groups_max = 2;
  Bench bench(options);
  for (const int number : {3, 1, 4, 2}) {
    std::vector<StoredEntry> entries{
        {.name = "counts",
         .numbers = StoredNumbers({1, 1, 1, 0, 0, 0, 0, bench.journal.epoch_us() + number})}};
    bench.groups.restore("g" + std::to_string(number), entries, kStart);
  }
  bench.groups.restored(kStart);
  EXPECT_EQ(bench.groups.size(), 2u);
  EXPECT_NE(std::as_const(bench.groups).find("g3"), nullptr);
  EXPECT_NE(std::as_const(bench.groups).find("g4"), nullptr);
}

// ---- Journal ------------------------------------------------------------------------------------------

TEST(Journal, writes_of_what_is_durable_alone) {
  Bench bench;
  Job& job = bench.add(1);
  bench.journal.write_changed(job);
  EXPECT_TRUE(bench.state.outbox.writes.empty());
  job.durable = true;
  bench.journal.write_changed(job);
  ASSERT_EQ(bench.state.outbox.writes.size(), 1u);
  EXPECT_EQ(bench.state.outbox.writes[0].kind, Write::Kind::update_job);
  EXPECT_EQ(bench.state.outbox.writes[0].number, static_cast<std::uint64_t>(job.number));
}

TEST(Journal, the_stores_clock_goes_on_when_the_wall_clock_is_set) {
  Options options = three_lanes();
  options.wall_ms = 1'000'000;
  Bench bench(options);
  EXPECT_EQ(bench.journal.epoch_us(), 1'000'000'000);
  EXPECT_EQ(bench.journal.time_of(1'000'000'000 + 5), TimePoint(Duration(5)));
  bench.journal.set_clock(seconds(10));
  EXPECT_EQ(bench.journal.time_of(1'000'000'000 - 10'000'000 + 5), TimePoint(Duration(5)));
}

TEST(Journal, numbers_are_noted_ahead_and_not_with_every_job) {
  Bench bench;
  bench.journal.note_numbers();
  EXPECT_EQ(bench.state.outbox.writes.size(), 1u);
  bench.journal.note_numbers();
  EXPECT_EQ(bench.state.outbox.writes.size(), 1u);
}

// ---- Admission ----------------------------------------------------------------------------------------

struct AdmissionBench : Bench {
  using Bench::Bench;
  std::optional<Refusal> ask(const std::string& lane, std::size_t body_bytes = 0) {
    fields.service = service_name;
    fields.lane = lane;
    const std::string body(body_bytes, 'x');
    const Submitted event{.from = {}, .fields = &fields, .body = Blob::borrow(body)};
    if (auto why = admission.invalid(event)) return why;
    Client& client = state.clients.named("c");
    admitted = {.lane = state.lane_named(lane), .client = &client};
    return admission.admit(event, admitted, kStart);
  }
  std::string service_name = "s";
  wire::Submit fields;
  Admitted admitted;
  Admission admission{state, terms, upstreams, results, groups};
};

TEST(Admission, names_what_is_wrong_and_what_there_is) {
  AdmissionBench bench;
  const auto why = bench.ask("urgent");
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::bad_request);
  EXPECT_EQ(why->message, "unknown lane \"urgent\"; the lanes are high, normal, low");
  EXPECT_FALSE(bench.ask("low"));
  EXPECT_EQ(bench.admitted.service, &bench.service);
}

TEST(Admission, a_full_lane_refuses_and_the_next_one_does_not) {
  Options options = three_lanes();
  options.lanes[1].depth_max = 2;
  AdmissionBench bench(options);
  bench.add(1, "a");
  EXPECT_FALSE(bench.ask("normal"));
  bench.add(1, "b");
  const auto why = bench.ask("normal");
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::lane_full);
  EXPECT_EQ(why->limiter, "lane.normal.depth_max");
  EXPECT_TRUE(why->retry_after);
  EXPECT_FALSE(bench.ask("low"));
}

TEST(Admission, what_a_limit_never_has_is_refused_at_once) {
  Options options = three_lanes();
  options.budgets = {BudgetOptions{.name = "b"}};
  options.budgets[0].rates = {{.name = "tokens_per_minute",
                               .limit = 100,
                               .period = std::chrono::minutes(1),
                               .resource = Resource::tokens}};
  AdmissionBench bench(options);
  bench.fields.cost = wire::Cost{.input_tokens = 101, .output_tokens = 0};
  const auto why = bench.ask("low");
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::unsatisfiable);
  bench.fields.cost = wire::Cost{.input_tokens = 100, .output_tokens = 0};
  EXPECT_FALSE(bench.ask("low"));
}

/// For each reason: a job so large that kept results would have to make way for it is refused, and they stay.
TEST(Admission, what_is_refused_takes_no_result_with_it) {
  constexpr std::size_t kLarge = (std::size_t{1} << 20) - 6000, kResults = 100;
  Options options = three_lanes();
  options.memory_max = std::size_t{1} << 20;
  options.services_max = 1;
  options.client_share = 0;
  options.budgets = {BudgetOptions{.name = "b"}};
  options.budgets[0].rates = {{.name = "tokens_per_minute",
                               .limit = 100,
                               .period = std::chrono::minutes(1),
                               .resource = Resource::tokens}};
  AdmissionBench bench(options);
  for (std::size_t i = 0; i < kResults; ++i) {
    Job& job = bench.add(1, "kept " + std::to_string(i));
    job.durable = true;
    bench.end(job, JobState::succeeded, kStart - std::chrono::hours(1));
  }
  bench.results.begin_turn(kStart);
  const auto refused = [&](const std::string& lane) -> std::string {
    const auto why = bench.ask(lane, kLarge);
    EXPECT_EQ(bench.results.kept().size(), kResults);
    return why ? std::string(name_of(why->code)) + ' ' + why->limiter : "";
  };
  bench.fields.durable = false;
  bench.fields.cost = wire::Cost{.input_tokens = 1, .output_tokens = 1};

  bench.fields.cost->input_tokens = 101;
  EXPECT_EQ(refused("low"), "unsatisfiable budget b tokens_per_minute");
  bench.fields.cost->input_tokens = 1;
  bench.service_name = "new";
  EXPECT_EQ(refused("low"), "bad_request ");
  bench.service_name = "s";
  bench.state.options.lanes[2].bytes_max = 100;
  bench.state.lanes[2]->configure(bench.state.options.lanes[2]);
  EXPECT_EQ(refused("low"), "lane_full lane.low.bytes_max");
  bench.state.draining = true;
  EXPECT_EQ(refused("normal"), "draining ");
  bench.state.draining = false;
  bench.fields.durable = true;
  bench.state.store_full = bench.state.store_stalled = true;
  EXPECT_EQ(refused("normal"), "store_full store_reserve");

  bench.fields.durable = false;
  EXPECT_FALSE(bench.ask("normal", kLarge));
  EXPECT_LT(bench.results.kept().size(), kResults) << "they were in the way";
}

TEST(Admission, what_is_left_of_the_services_is_for_those_who_named_less) {
  Options options = three_lanes();
  options.services_max = 64;
  options.client_share = 250;
  AdmissionBench bench(options);
  const auto name = [&](const std::string& client, const std::string& service) -> std::string {
    wire::Submit fields;
    fields.service = service;
    fields.id = client + ' ' + service;
    Admitted admitted{.lane = bench.state.default_lane, .client = &bench.state.clients.named(client)};
    const Submitted event{.from = {}, .fields = &fields, .body = {}};
    const auto why = bench.admission.admit(event, admitted, kStart);
    if (!why) bench.state.workers.use(*admitted.service);  // by the job
    return why ? std::string(name_of(why->code)) + ' ' + why->limiter : "";
  };
  int taken = 0;
  while (name("many", "typo " + std::to_string(taken)).empty())
    ++taken;
  EXPECT_EQ(taken, 47) << "of 64 all but a quarter, and one has a worker";
  EXPECT_EQ(name("many", "one more"), "client_full client_share");
  EXPECT_EQ(name("many", "s"), "") << "it is known";
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(name("other", "other " + std::to_string(i)), "");
  EXPECT_EQ(name("other", "one more"), "bad_request ");
  EXPECT_EQ(bench.state.workers.offered_with(nullptr, {"chat", "s"}), 2u)
      << "what workers offer counts apart";
}

TEST(Admission, a_full_disk_takes_results_for_no_job_that_is_refused_for_more) {
  AdmissionBench bench;
  bench.fields.durable = true;
  for (const char* id : {"first", "second"}) {
    Job& job = bench.add(1, id);
    job.durable = true;
    bench.end(job, JobState::succeeded, kStart - std::chrono::hours(1));
  }
  bench.state.store_full = true;
  bench.state.store_full_at = kStart - std::chrono::minutes(1);
  bench.state.lanes[2]->configure([&] {
    LaneOptions options = bench.state.options.lanes[2];
    options.depth_max = 0;
    return options;
  }());
  const auto full = bench.ask("low");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->code, ErrorCode::lane_full);
  EXPECT_EQ(bench.results.kept().size(), 2u);
  const auto no_disk = bench.ask("normal");
  ASSERT_TRUE(no_disk);
  EXPECT_EQ(no_disk->code, ErrorCode::store_full);
  EXPECT_EQ(bench.results.kept().size(), 1u) << "an eighth, and at least one";
}

}  // namespace
}  // namespace lanemq::core
