// SPDX-License-Identifier: Apache-2.0
#include "broker/core/moves/move_plan.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <lanemq/codec.hpp>

#include "broker/core/base/mark.hpp"
#include "broker/core/jobs/job_table.hpp"
#include "broker/core/life/journal.hpp"

namespace lanemq::core {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kSourceSeed = 11, kTargetSeed = 22;
constexpr std::int64_t kNow = 1'800'000'000'000'000;
constexpr std::size_t kRoom = 1000;

std::string note(const std::string& entry, std::vector<std::int64_t> numbers) {
  Buffer bytes;
  write({{.name = entry, .numbers = StoredNumbers(std::move(numbers))}}, bytes);
  return std::string(bytes.view());
}

struct Job1 {
  std::string id, client{}, service = "s", group{};
  std::uint64_t arrival = 0;
  StoredState::Kind kind = StoredState::Kind::queued;
  std::string body{};
};

std::string record_of(const Job1& job) {
  wire::Submit fields{.service = job.service, .id = job.id};
  if (!job.client.empty()) fields.client = job.client;
  if (!job.group.empty()) fields.group = job.group;
  Buffer bytes;
  encode(fields, bytes);
  return std::string(bytes.view());
}

std::string state_of(const Job1& job, std::uint64_t seed) {
  StoredState state;
  state.kind = job.kind;
  state.arrival = job.arrival;
  state.accepted_us = kNow;
  state.deadline_us = kNow + 60'000'000;
  if (job.kind != StoredState::Kind::queued) state.due_us = kNow + 5;
  state.attempt = 3;
  state.body_hash = Journal::hash_of(job.body, seed);
  History history;
  history.add({.number = 1,
               .worker = "w",
               .began = TimePoint(Duration(kNow + 1)),
               .ended = TimePoint(Duration(kNow + 2)),
               .cause = "retry",
               .code = "c",
               .message = "m"});
  Buffer bytes;
  write(state, history, 0, bytes);
  return std::string(bytes.view());
}

std::string result_of(const std::string& id, const std::string& client, bool dead = false,
                      const std::string& service = "s") {
  StoredResult result;
  result.id = id;
  result.service = service;
  result.client = mark_of(client);
  result.dead = dead;
  result.state = dead ? JobState::failed : JobState::succeeded;
  result.body_hash = 5;
  result.ended_us = kNow;
  result.due_us = kNow + 9;
  Ending ending;
  ending.message = "why";
  Buffer bytes;
  write(result, dead ? &ending : nullptr, bytes);
  return std::string(bytes.view());
}

class MovePlanTest : public testing::Test {
 protected:
  void begin(MoveScope scope) {
    plan_.emplace(std::move(scope));
    ok(plan_->source_note(Journal::kSeed, note("body_hash", {kSourceSeed})));
  }
  void begin_tenant() { begin({.tenant = "acme", .service = {}}); }
  static void ok(const Result<void>& result) { ASSERT_TRUE(result.has_value()) << result.error().message; }

  void source(std::uint64_t number, const Job1& job) {
    ok(plan_->source_job(number, state_of(job, kSourceSeed), record_of(job)));
  }
  void source_result(std::uint64_t number, const std::string& record) {
    ok(plan_->source_result(number, record));
  }
  void target(std::uint64_t number, const Job1& job) {
    ok(plan_->target_job(number, state_of(job, kTargetSeed), record_of(job)));
  }
  void target_begins(std::int64_t generation = 7) {
    ok(plan_->target_note(Journal::kSeed, note("body_hash", {kTargetSeed})));
    ok(plan_->target_note(Journal::kNumbers, note("generation", {generation})));
  }
  void settle(Duration shift = {}) {
    ok(plan_->source_ends());
    target_begins();
    ok(plan_->settle(shift, kRoom));
  }
  static std::string error_of(const Result<void>& result) {
    return result ? std::string() : result.error().message;
  }

  std::optional<MovePlan> plan_;
};

TEST_F(MovePlanTest, takes_the_space_of_a_tenant_and_nothing_else) {
  begin_tenant();
  source(1, {.id = "@acme/a"});
  source(2, {.id = "@acme2/a"});
  source(3, {.id = "acme"});
  source(4, {.id = "@other/a", .client = "@other/acme"});
  source(5, {.id = "@acme/dead", .kind = StoredState::Kind::dead});
  source_result(5, result_of("@acme/dead", "", true));
  source_result(6, result_of("@acme/b", ""));
  source_result(7, result_of("@other/b", ""));
  settle();

  EXPECT_THAT(plan_->jobs(), ElementsAre(1, 5));
  EXPECT_THAT(plan_->results(), ElementsAre(5, 6));
  EXPECT_EQ(plan_->job_there(5), plan_->result_there(5)) << "the result of a dead job has its number";
  EXPECT_EQ(plan_->counts().jobs, 1u);
  EXPECT_EQ(plan_->counts().dead, 1u);
  EXPECT_EQ(plan_->counts().results, 1u);
}

TEST_F(MovePlanTest, takes_clients_without_keys_by_their_entries) {
  begin({.tenant = "ac*",
         .service = {},
         .clients = {{.name = "team-*", .tenant = "acme"},
                     {.name = "team-x", .tenant = "other"},
                     {.name = "exact", .tenant = "acme"}}});
  source(1, {.id = "a", .client = "team-1"});
  source(2, {.id = "b", .client = "team-x"});
  source(3, {.id = "c", .client = "exact"});
  source(4, {.id = "d"});
  source(5, {.id = "e", .client = "stranger"});
  source_result(6, result_of("f", "exact"));
  source_result(7, result_of("g", "team-1"));
  source_result(8, result_of("h", "team-x"));
  source_result(9, result_of("i", "team-2"));  // no job tells that there is such a client
  source_result(10, result_of("j", ""));
  settle();

  EXPECT_THAT(plan_->jobs(), ElementsAre(1, 3));
  EXPECT_THAT(plan_->results(), ElementsAre(6, 7));
}

TEST_F(MovePlanTest, takes_a_service) {
  begin({.tenant = {}, .service = "chat*"});
  source(1, {.id = "a", .service = "chat-1"});
  source(2, {.id = "@acme/b", .service = "embed"});
  source_result(3, result_of("c", "", false, "chat"));
  source_result(4, result_of("d", ""));
  settle();

  EXPECT_THAT(plan_->jobs(), ElementsAre(1));
  EXPECT_THAT(plan_->results(), ElementsAre(3));
}

/// Each has a place of its own, behind all numbers that were ever used, and later ones stay later.
TEST_F(MovePlanTest, numbers_find_room_in_the_targets_table) {
  rc::check([&](const std::set<std::uint16_t>& taken, const std::set<std::uint16_t>& coming,
                const std::set<std::uint16_t>& results) {
    begin_tenant();
    for (const std::uint64_t number : coming)
      source(number + 1, {.id = "@acme/" + std::to_string(number)});
    for (const std::uint64_t number : results)
      if (!coming.contains(static_cast<std::uint16_t>(number)))
        source_result(number + 1, result_of("@acme/" + std::to_string(number), ""));
    ok(plan_->source_ends());
    target_begins(40);
    std::set<std::uint64_t> places, numbers;
    for (const std::uint64_t place : taken) {
      target(std::uint64_t{30} << JobTable::kSlotBits | place, {.id = "t" + std::to_string(place)});
      places.insert(place);
    }
    ok(plan_->settle({}, 1'000'000));
    std::map<std::uint64_t, std::uint64_t> there;
    for (const std::uint64_t number : plan_->jobs())
      there[number] = *plan_->job_there(number);
    for (const std::uint64_t number : plan_->results())
      there[number] = *plan_->result_there(number);

    std::uint64_t last = std::uint64_t{40} << JobTable::kSlotBits | (JobTable::kPlacesMax - 1);
    for (const auto& [number, number_there] : there) {
      RC_ASSERT(number_there > last);
      last = number_there;
      RC_ASSERT(places.insert(JobTable::index_of(JobNumber{number_there})).second);
      RC_ASSERT(JobTable::generation_of(JobNumber{number_there}) == plan_->generation());
    }
  });
}

TEST_F(MovePlanTest, jobs_arrive_behind_those_that_are_there_in_their_order) {
  begin_tenant();
  source(1, {.id = "@acme/late", .arrival = 900});
  source(2, {.id = "@acme/early", .arrival = 4});
  source(3, {.id = "@acme/between", .arrival = 80});
  ok(plan_->source_ends());
  target_begins();
  target(1, {.id = "x", .arrival = 500});
  target(2, {.id = "y", .arrival = 100});
  ok(plan_->settle({}, kRoom));

  const auto arrival = [&](std::uint64_t number) {
    Buffer bytes;
    ok(plan_->write_state(number, state_of({.id = "@acme/x"}, kSourceSeed), "", bytes));
    StoredDecoder decoder;
    History history;
    return decoder.state(bytes.view(), 0, history)->arrival;
  };
  EXPECT_EQ(arrival(2), 501u);
  EXPECT_EQ(arrival(3), 502u);
  EXPECT_EQ(arrival(1), 503u);
}

TEST_F(MovePlanTest, times_go_by_the_clock_of_the_target_and_hashes_by_its_seed) {
  const Duration shift = seconds(-70);
  begin_tenant();
  const Job1 job{.id = "@acme/a", .kind = StoredState::Kind::delayed, .body = "a body"};
  source(1, job);
  source_result(2, result_of("@acme/b", ""));
  settle(shift);

  Buffer bytes;
  ok(plan_->write_state(1, state_of(job, kSourceSeed), job.body, bytes));
  StoredDecoder decoder;
  History history;
  const auto state = decoder.state(bytes.view(), 0, history);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->accepted_us, kNow - 70'000'000);
  EXPECT_EQ(state->deadline_us, kNow - 10'000'000);
  EXPECT_EQ(state->due_us, kNow + 5 - 70'000'000);
  EXPECT_EQ(state->attempt, 3u);
  EXPECT_EQ(state->body_hash, Journal::hash_of("a body", kTargetSeed));
  ASSERT_EQ(history.attempts().size(), 1u);
  EXPECT_EQ(history.attempts()[0].began, TimePoint(Duration(kNow + 1) + shift));
  EXPECT_EQ(history.attempts()[0].ended, TimePoint(Duration(kNow + 2) + shift));
  EXPECT_EQ(history.attempts()[0].message, "m");

  bytes.clear();
  ok(plan_->write_state(1, state_of(job, kSourceSeed), "what a plugin made of it", bytes));
  EXPECT_EQ(decoder.state(bytes.view(), 0, history)->body_hash, kHashNotKnown);

  bytes.clear();
  ok(plan_->write_result(result_of("@acme/b", ""), bytes));
  std::unique_ptr<Ending> ending;
  const auto result = decoder.result(bytes.view(), ending);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->ended_us, kNow - 70'000'000);
  EXPECT_EQ(result->due_us, kNow + 9 - 70'000'000);
  EXPECT_EQ(result->body_hash, kHashNotKnown);
}

TEST_F(MovePlanTest, waits_for_running_jobs_of_the_scope_alone) {
  begin_tenant();
  source(1, {.id = "@other/a", .kind = StoredState::Kind::running});
  EXPECT_EQ(error_of(plan_->source_ends()), "");

  begin_tenant();
  source(1, {.id = "@acme/a", .kind = StoredState::Kind::running});
  source(2, {.id = "@acme/b", .kind = StoredState::Kind::running});
  EXPECT_THAT(error_of(plan_->source_ends()), HasSubstr("2 jobs of tenant \"acme\" run"));
}

TEST_F(MovePlanTest, groups_go_with_their_jobs_and_are_not_torn) {
  const std::string counts = note("counts", {1, 2, 2, 0, 0, 0, 0, kNow});
  begin_tenant();
  ok(plan_->source_note("group @acme/g", counts));
  ok(plan_->source_note("group @other/g", counts));
  source(1, {.id = "@acme/a", .group = "@acme/h"});
  settle(seconds(2));
  const auto notes = plan_->notes();
  ASSERT_TRUE(notes.has_value());
  ASSERT_EQ(notes->size(), 1u);
  EXPECT_EQ(notes->front().name, "group @acme/g");
  EXPECT_EQ(notes->front().record, note("counts", {1, 2, 2, 0, 0, 0, 0, kNow + 2'000'000}));
  EXPECT_THAT(plan_->notes_leaving(), ElementsAre("group @acme/g"));

  begin({.tenant = {}, .service = "chat"});
  source(1, {.id = "a", .service = "chat", .group = "both"});
  source(2, {.id = "b", .service = "embed", .group = "both"});
  EXPECT_THAT(error_of(plan_->source_ends()), HasSubstr("group \"both\" has jobs of"));
}

TEST_F(MovePlanTest, refuses_what_the_target_has_already_and_what_it_has_no_room_for) {
  const auto refusal = [&](const auto& there, std::size_t room = kRoom) {
    begin_tenant();
    source(1, {.id = "@acme/a", .group = "@acme/g"});
    source_result(2, result_of("@acme/b", ""));
    ok(plan_->source_ends());
    target_begins();
    there();
    return error_of(plan_->settle({}, room));
  };

  EXPECT_EQ(refusal([&] { target(9, {.id = "@acme/c"}); }), "");
  EXPECT_THAT(refusal([&] { target(9, {.id = "@acme/a"}); }), HasSubstr("id \"@acme/a\""));
  EXPECT_THAT(refusal([&] { target(9, {.id = "@acme/b"}); }), HasSubstr("id \"@acme/b\""));
  EXPECT_THAT(refusal([&] { ok(plan_->target_result(9, result_of("@acme/a", ""))); }),
              HasSubstr("id \"@acme/a\""));
  EXPECT_THAT(refusal([&] { ok(plan_->target_note("group @acme/g", note("counts", {}))); }),
              HasSubstr("group \"@acme/g\""));
  EXPECT_THAT(refusal([&] { target(9, {.id = "@acme/c", .group = "@acme/g"}); }),
              HasSubstr("group \"@acme/g\""));
  EXPECT_THAT(refusal([&] { target(9, {.id = "x"}); }, 2), HasSubstr("would have 3 jobs and results"));

  begin_tenant();
  ok(plan_->source_ends());
  EXPECT_THAT(error_of(plan_->settle({}, kRoom)), HasSubstr("no broker has served the store"));
}

ShardMap rules() {
  return ShardMap(
      {{.name = "audio", .services = {"speech"}}, {.name = "acme", .tenants = {"acme*"}}, {.name = "rest"}});
}

TEST_F(MovePlanTest, names_what_is_another_shards_than_the_targets) {
  begin(
      {.tenant = "acme", .service = {}, .clients = {{.name = "exact", .tenant = "acme"}}, .shards = rules()});
  source(1, {.id = "@acme/a"});
  source(2, {.id = "b", .client = "exact"});
  source(3, {.id = "@other/c", .service = "speech"});
  source_result(4, result_of("@acme/d", ""));
  EXPECT_EQ(error_of(plan_->of_shard("acme")), "");
  EXPECT_THAT(error_of(plan_->of_shard("rest")),
              AllOf(HasSubstr("3 of the jobs and results of tenant \"acme\" belong to shard \"acme\""),
                    HasSubstr("id \"@acme/a\""), HasSubstr("those of shard \"rest\"")));

  source(5, {.id = "e", .client = "exact", .service = "speech"});
  EXPECT_THAT(
      error_of(plan_->of_shard("acme")),
      AllOf(HasSubstr("1 of the jobs"), HasSubstr("shard \"audio\""), HasSubstr("service \"speech\"")));

  begin({.tenant = "acme", .service = {}});
  source(1, {.id = "@acme/a"});
  EXPECT_EQ(error_of(plan_->of_shard("rest")), "") << "there are no rules";
}

/// Brokers make these themselves, each its own.
TEST_F(MovePlanTest, jobs_that_tell_of_ends_are_of_no_shard) {
  begin({.tenant = "acme", .service = {}, .shards = rules(), .webhook_service = "speech"});
  source(1, {.id = "@acme/a", .service = "speech"});
  source_result(2, result_of("@acme/b", "", false, "speech"));
  EXPECT_EQ(error_of(plan_->of_shard("acme")), "");
}

TEST_F(MovePlanTest, counts_what_the_target_has_of_the_scope_already) {
  begin_tenant();
  ok(plan_->source_ends());
  target_begins();
  target(1, {.id = "@acme/a"});
  target(2, {.id = "@other/a"});
  ok(plan_->target_result(3, result_of("@acme/b", "")));
  ok(plan_->settle({}, kRoom));
  EXPECT_EQ(plan_->counts().there, 2u);
  EXPECT_EQ(plan_->counts().jobs, 0u);
}

TEST_F(MovePlanTest, copies_the_history_of_limits_that_the_target_knows_nothing_of) {
  begin_tenant();
  const std::string limits = note("own", {kNow, 5});
  ok(plan_->source_note("budget mine", limits));
  ok(plan_->source_note("account mine\nkey", limits));
  ok(plan_->source_note("budget both", limits));
  ok(plan_->source_ends());
  target_begins();
  ok(plan_->target_note("budget both", limits));
  ok(plan_->settle(seconds(1), kRoom));

  const auto told = plan_->notes();
  ASSERT_TRUE(told.has_value()) << told.error().message;
  std::map<std::string, std::string> notes;
  for (const MovePlan::Note& one : *told)
    notes[one.name] = one.record;
  const std::string later = note("own", {kNow + 1'000'000, 5});
  EXPECT_EQ(notes,
            (std::map<std::string, std::string>{{"budget mine", later}, {"account mine\nkey", later}}));
  EXPECT_THAT(plan_->notes_leaving(), IsEmpty());
}

}  // namespace
}  // namespace lanemq::core
