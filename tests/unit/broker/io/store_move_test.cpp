// SPDX-License-Identifier: Apache-2.0
// A move between stores of every kind: what is where afterwards, and after an end at each of its steps.
#include "broker/io/offline/store_move.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"
#include "broker/core/jobs/stored.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/io/base/failpoint.hpp"
#include "broker/io/offline/store_check.hpp"
#include "broker/io/offline/store_copy.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "broker/io/store/restore.hpp"
#include "tests/support/failpoint_hook.hpp"
#include "tests/support/store_driver.hpp"
#include "tests/support/temporary_directory.hpp"
#ifdef LANEMQ_HAS_POSTGRES
#include "tests/support/postgres_server.hpp"
#endif

namespace lanemq::store_move_test {
namespace {

using core::StoredState;
using io::Failpoint;
using test::Turn;
using testing::HasSubstr;

const std::string kLarge(50'000, 'L'), kHuge(2'500'000, 'H');

/// Kinds of stores: a new one, empty.
struct Kind {
  const char* name;
  std::function<io::StoreOptions()> make;

  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

io::StoreOptions new_file() {
  static const test::TemporaryDirectory folder;
  static int count = 0;
  return {.specification = "sqlite:" + folder.path("store" + std::to_string(++count)),
          .reserve_bytes = 1 << 20};
}

std::vector<Kind> kinds() {
  std::vector<Kind> all{{"sqlite", new_file}};
#ifdef LANEMQ_HAS_POSTGRES
  all.push_back({"postgres", [] {
                   static int count = 0;
                   return io::StoreOptions{
                       .specification = "postgres:" + test::PostgresServer::shared().conninfo(),
                       .schema = "move " + std::to_string(++count),
                       .instance = "a",
                       .alone = true};
                 }});
#endif
  return all;
}

std::unique_ptr<io::Store> open(const io::StoreOptions& options) {
  auto store = io::open_store(options);
  if (!store) throw std::runtime_error(store.error().message);
  return std::move(*store);
}

/// A broker serves the store for a moment: it restores all, and writes its own notes. Returns why it does
/// not; and in `restored` how many jobs, dead jobs and results there are.
std::string serve(const io::StoreOptions& options, std::vector<std::size_t>* restored = nullptr,
                  const std::string& shard = {}) {
  const auto store = open(options);
  core::Options broker_options = core::default_options();
  broker_options.shard = shard;
  broker_options.store_durable = true;
  static std::uint64_t seed = 0;
  core::Broker broker(broker_options, ++seed);
  const auto done = io::restore(
      broker, *store,
      {.now = [] { return core::TimePoint(std::chrono::hours(24)); }, .progress = [](std::size_t) {}});
  if (!done) return done.error().message;
  if (restored != nullptr) *restored = {done->queued + done->delayed, done->dead, done->results};
  return {};
}

struct Job {
  std::string id, body{}, group{};
  std::uint64_t arrival = 0;
  StoredState::Kind kind = StoredState::Kind::queued;
};

test::StoredJob stored(const Job& job) {
  wire::Submit fields{.service = "s", .id = job.id};
  if (!job.group.empty()) fields.group = job.group;
  StoredState state;
  state.kind = job.kind;
  state.arrival = job.arrival;
  state.accepted_us = 1'000'000;
  state.deadline_us = std::int64_t{1} << 60;
  Buffer state_bytes, record;
  write(state, core::History(), 0, state_bytes);
  encode(fields, record);
  return {std::string(state_bytes.view()), std::string(record.view()), job.body};
}

test::StoredResult stored_result(const std::string& id, const std::string& body, bool dead = false) {
  core::StoredResult result;
  result.id = id;
  result.service = "s";
  result.state = dead ? core::JobState::failed : core::JobState::succeeded;
  result.dead = dead;
  result.client_named_it = true;
  result.ended_us = 1'000'000;
  result.due_us = std::int64_t{1} << 60;
  core::Ending ending;
  Buffer record;
  write(result, dead ? &ending : nullptr, record);
  return {std::string(record.view()), body};
}

/// What the rows of a store are to a client: bodies by id, of jobs in the order of their arrival.
struct Seen {
  std::vector<std::pair<std::string, std::string>> jobs;
  std::map<std::string, std::string> dead, results;
  std::set<std::string> groups;
  std::set<std::string> of_moves;  ///< names of other notes that are none of a broker's

  bool operator==(const Seen&) const = default;
  friend void PrintTo(const Seen& seen, std::ostream* out) {
    for (const auto& [id, body] : seen.jobs)
      *out << "\n  job " << id << " of " << body.size();
    for (const auto& [id, body] : seen.dead)
      *out << "\n  dead " << id << " of " << body.size();
    for (const auto& [id, body] : seen.results)
      *out << "\n  result " << id << " of " << body.size();
    for (const std::string& name : seen.groups)
      *out << "\n  " << name;
    for (const std::string& name : seen.of_moves)
      *out << "\n  " << name;
  }
};

Seen look(const io::StoreOptions& options) {
  const auto store = open(options);
  const auto content = test::content_of(*store);
  if (!content) throw std::runtime_error(content.error().message);
  Seen seen;
  std::map<std::uint64_t, std::pair<std::string, std::string>> arrived;
  core::StoredDecoder decoder;
  for (const auto& [number, job] : content->jobs) {
    core::History history;
    const auto state = decoder.state(job.state, 0, history);
    const bool dead = state->kind == StoredState::Kind::dead;
    const std::uint64_t arrival = state->arrival;
    const std::string id(decoder.submit(job.record)->id);
    if (dead)
      seen.dead[id] = job.body;
    else if (!arrived.emplace(arrival, std::pair{id, job.body}).second)
      throw std::runtime_error("two jobs have arrival " + std::to_string(arrival));
  }
  for (auto& [arrival, job] : arrived)
    seen.jobs.push_back(std::move(job));
  for (const auto& [number, result] : content->results) {
    std::unique_ptr<core::Ending> ending;
    seen.results[std::string(decoder.result(result.record, ending)->id)] = result.body;
  }
  for (const auto& [name, record] : content->notes) {
    if (name.starts_with("group "))
      seen.groups.insert(name);
    else if (name.starts_with("move "))
      seen.of_moves.insert(name);
  }
  return seen;
}

std::uint64_t number(std::uint64_t place) {
  return std::uint64_t{5} << 24 | place;
}

const std::string kGroup = [] {
  Buffer bytes;
  core::write({{.name = "counts", .numbers = core::StoredNumbers({0, 3, 1, 0, 0, 0, 0, 1'000'000})}}, bytes);
  return std::string(bytes.view());
}();

void write(const io::StoreOptions& options, Turn turn) {
  const auto store = open(options);
  submit(*store, std::move(turn));
  store->flush();
  if (store->condition() != io::StoreCondition::good) throw std::runtime_error(store->trouble());
}

/// Enough rows that the source's note has several parts.
constexpr std::uint64_t kMany = 9000;

void fill_source(const io::StoreOptions& options, std::uint64_t many = 20) {
  ASSERT_EQ(serve(options), "");
  Turn turn;
  turn.insert_job(number(0), stored({.id = "@acme/last", .body = "last", .arrival = 1'000'000}))
      .insert_job(number(1), stored({.id = "@acme/huge", .body = kHuge, .group = "@acme/g", .arrival = 2}))
      .insert_job(number(2), stored({.id = "@other/a", .body = kLarge, .group = "@other/g", .arrival = 1}))
      .insert_job(number(3), stored({.id = "@acme/dead", .body = kLarge, .kind = StoredState::Kind::dead}))
      .insert_result(number(3), stored_result("@acme/dead", "", true))
      .insert_result(number(4), stored_result("@acme/answered", kHuge))
      .insert_result(number(5), stored_result("@acme/small", "answer"))
      .insert_result(number(6), stored_result("@other/answered", "theirs"))
      .put_note("group @acme/g", kGroup)
      .put_note("group @other/g", kGroup);
  for (std::uint64_t i = 0; i < many; ++i)
    turn.insert_job(number(100 + i),
                    stored({.id = "@acme/" + std::to_string(i), .body = "b", .arrival = 1000 + i}));
  write(options, std::move(turn));
}

void fill_target(const io::StoreOptions& options) {
  ASSERT_EQ(serve(options), "");
  write(options, Turn()
                     .insert_job(number(0), stored({.id = "@other/there", .body = kHuge, .arrival = 77}))
                     .insert_job(number(2), stored({.id = "plain", .arrival = 78}))
                     .insert_result(number(101), stored_result("@other/done", kLarge)));
}

io::MoveOrder order(const io::StoreOptions& from, const io::StoreOptions& to) {
  return {.from = from,
          .to = to,
          .scope = {.tenant = "acme", .service = {}},
          .what = "tenant \"acme\"",
          .command = "say it again",
          .rows_max = 100'000};
}

class Cut : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Moves, and is cut off at a step; none: is not.
Result<io::MoveSummary> move_until(std::optional<Failpoint> step, const io::MoveOrder& wanted) {
  const test::FailpointHook hook([step](Failpoint point) {
    if (point == step) throw Cut(std::string(name_of(point)));
  });
  return io::move_rows(wanted);
}

class StoreMove : public testing::TestWithParam<std::pair<Kind, Kind>> {
 protected:
  void fill(std::uint64_t many = 20) {
    fill_source(from_, many);
    fill_target(to_);
    source_ = look(from_);
    target_ = look(to_);
    for (const auto& job : source_.jobs)
      (job.first.starts_with("@acme/") ? target_ : source_left_).jobs.push_back(job);
    for (const auto& [part, there, left] :
         {std::tuple(&source_.dead, &target_.dead, &source_left_.dead),
          std::tuple(&source_.results, &target_.results, &source_left_.results)})
      for (const auto& [id, body] : *part)
        (id.starts_with("@acme/") ? *there : *left)[id] = body;
    target_.groups.insert("group @acme/g");
    source_left_.groups.insert("group @other/g");
  }
  /// Everything is at its new place, and each store is content.
  void is_over() {
    EXPECT_EQ(look(from_), source_left_);
    EXPECT_EQ(look(to_), target_);
    for (const auto& [options, seen] : {std::pair(&from_, &source_left_), std::pair(&to_, &target_)}) {
      std::vector<std::size_t> restored;
      EXPECT_EQ(serve(*options, &restored), "");
      EXPECT_EQ(restored, (std::vector<std::size_t>{seen->jobs.size(), seen->dead.size(),
                                                    seen->results.size() - seen->dead.size()}));
      const auto checked = io::check_store(*options);
      EXPECT_TRUE(checked.has_value()) << checked.error().message;
    }
  }

  const io::StoreOptions from_ = GetParam().first.make(), to_ = GetParam().second.make();
  Seen source_, target_, source_left_;  ///< as the source is before, and both are after
};

std::vector<std::pair<Kind, Kind>> pairs() {
  std::vector<std::pair<Kind, Kind>> all;
  for (const Kind& from : kinds())
    for (const Kind& to : kinds())
      all.emplace_back(from, to);
  return all;
}

INSTANTIATE_TEST_SUITE_P(of, StoreMove, testing::ValuesIn(pairs()), [](const auto& pair) {
  return std::string(pair.param.first.name) + "_to_" + pair.param.second.name;
});

TEST_P(StoreMove, takes_what_is_the_tenants_and_leaves_the_rest) {
  fill(kMany);

  const auto moved = io::move_rows(order(from_, to_));

  ASSERT_TRUE(moved.has_value()) << moved.error().message;
  EXPECT_FALSE(moved->went_on);
  EXPECT_EQ(moved->counts.jobs, kMany + 2);
  EXPECT_EQ(moved->counts.dead, 1u);
  EXPECT_EQ(moved->counts.results, 2u);
  EXPECT_EQ(moved->counts.groups, 1u);
  is_over();
  const auto again = io::move_rows(order(from_, to_));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(again->counts.jobs, 0u);
  EXPECT_EQ(again->counts.there, kMany + 2 + 1 + 2) << "jobs, a dead one and results";
  is_over();
}

/// At each step one of the stores has the rows for a broker, or none has; and said again it goes on.
TEST_P(StoreMove, is_in_one_store_alone_whenever_it_is_cut_off) {
  const struct {
    Failpoint at;
    bool source, target;  ///< which may be served
  } kSteps[] = {{Failpoint::move_begun, true, false},
                {Failpoint::move_rows_in, true, false},
                {Failpoint::move_decided, false, false},
                {Failpoint::move_arrived, false, true},
                {Failpoint::move_left, true, true}};
  fill();
  for (const auto& step : kSteps) {
    SCOPED_TRACE(name_of(step.at));
    const io::StoreOptions from = GetParam().first.make(), to = GetParam().second.make();
    ASSERT_TRUE(io::copy_store(from_, from).has_value());
    ASSERT_TRUE(io::copy_store(to_, to).has_value());

    EXPECT_THROW(static_cast<void>(move_until(step.at, order(from, to))), Cut);

    for (const auto& [options, may] : {std::pair(&from, step.source), std::pair(&to, step.target)}) {
      std::vector<std::size_t> restored;
      const std::string why = serve(*options, &restored);
      if (!may) {
        EXPECT_THAT(why, HasSubstr("say it again"));
        EXPECT_FALSE(io::copy_store(*options, new_file()).has_value()) << "a copy would have its rows, too";
        continue;
      }
      EXPECT_EQ(why, "");
      const bool there = options == &to || step.target;
      const Seen& seen = options == &to ? target_ : there ? source_left_ : source_;
      EXPECT_EQ(restored.at(0), seen.jobs.size());
    }
    const auto again = io::move_rows(order(from, to));
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(again->went_on, step.at == Failpoint::move_decided || step.at == Failpoint::move_arrived);
    EXPECT_EQ(again->counts.jobs, step.at == Failpoint::move_left ? 0u : 22u);
    EXPECT_EQ(look(from), source_left_);
    EXPECT_EQ(look(to), target_);
    EXPECT_EQ(serve(from), "");
    EXPECT_EQ(serve(to), "");
  }
}

TEST_P(StoreMove, follows_what_the_source_became_before_it_was_decided) {
  fill();
  EXPECT_THROW(static_cast<void>(move_until(Failpoint::move_rows_in, order(from_, to_))), Cut);
  write(from_, Turn().erase_job(number(1)).insert_job(
                   number(7), stored({.id = "@acme/new", .body = "n", .arrival = 2'000'000})));

  const auto again = io::move_rows(order(from_, to_));

  ASSERT_TRUE(again.has_value()) << again.error().message;
  std::erase_if(target_.jobs, [](const auto& job) { return job.first == "@acme/huge"; });
  target_.jobs.emplace_back("@acme/new", "n");
  is_over();
}

TEST_P(StoreMove, a_refusal_changes_nothing_and_frees_the_target) {
  fill();
  EXPECT_THROW(static_cast<void>(move_until(Failpoint::move_rows_in, order(from_, to_))), Cut);
  write(from_,
        Turn().insert_job(number(7), stored({.id = "@acme/runs", .kind = StoredState::Kind::running})));

  const auto refused = io::move_rows(order(from_, to_));

  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::conflict);
  EXPECT_THAT(refused.error().message, HasSubstr("1 jobs of tenant \"acme\" run"));
  EXPECT_EQ(serve(to_), "");
  EXPECT_EQ(look(to_).jobs.size(), 2u);
  EXPECT_EQ(look(to_).of_moves, std::set<std::string>());
}

TEST_P(StoreMove, an_id_that_the_target_has_is_named_and_nothing_written) {
  fill();
  const Seen before = look(to_);
  write(to_, Turn().insert_result(number(50), stored_result("@acme/last", "")));

  const auto refused = io::move_rows(order(from_, to_));

  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("id \"@acme/last\""));
  write(to_, Turn().erase_result(number(50)));
  EXPECT_EQ(look(to_), before);
  EXPECT_EQ(look(from_), source_);
}

TEST_P(StoreMove, another_move_waits_for_one_that_was_decided) {
  fill();
  const io::StoreOptions third = new_file();
  ASSERT_EQ(serve(third), "");
  EXPECT_THROW(static_cast<void>(move_until(Failpoint::move_decided, order(from_, to_))), Cut);

  const auto elsewhere = io::move_rows(order(from_, third)), out = io::move_rows(order(to_, third));
  io::MoveOrder other = order(from_, to_);
  other.what = "service \"s\"";
  const auto more = io::move_rows(other), in = io::move_rows(order(third, to_));

  for (const auto* refused : {&elsewhere, &out, &more, &in}) {
    ASSERT_FALSE(refused->has_value());
    EXPECT_THAT(refused->error().message, HasSubstr("say it again"));
  }
  ASSERT_TRUE(io::move_rows(order(from_, to_)).has_value());
  is_over();
}

TEST(StoresOfAMove, a_scope_of_which_nobody_has_anything_is_refused) {
  const io::StoreOptions from = new_file(), to = new_file();
  fill_source(from);
  fill_target(to);
  io::MoveOrder misspelt = order(from, to);
  misspelt.scope.tenant = "acmee";
  misspelt.what = "tenant \"acmee\"";

  const auto moved = io::move_rows(misspelt);

  ASSERT_FALSE(moved.has_value());
  EXPECT_EQ(moved.error().code, ErrorCode::bad_request);
  EXPECT_THAT(moved.error().message, HasSubstr("has nothing of tenant \"acmee\""));
  EXPECT_EQ(serve(from), "");
  EXPECT_EQ(serve(to), "");
}

/// The rules: acme's jobs are those of shard acme.
TEST(StoresOfAMove, are_those_of_the_shards_that_the_rules_name) {
  const io::StoreOptions from = new_file(), to = new_file();
  fill_source(from);
  ASSERT_EQ(serve(from, nullptr, "rest"), "");
  io::MoveOrder wanted = order(from, to);
  wanted.shard = "rest";
  wanted.shards = {"acme"};
  wanted.scope.shards = ShardMap({{.name = "acme", .tenants = {"acme"}}, {.name = "rest"}});
  const auto why_not = [&](const std::string& shard) {
    EXPECT_EQ(serve(to), "");
    EXPECT_EQ(serve(to, nullptr, shard), "");
    const auto moved = io::move_rows(wanted);
    if (moved) return std::string("nothing");
    EXPECT_EQ(moved.error().code, ErrorCode::conflict);
    EXPECT_EQ(serve(from), "") << "the source may be served";
    EXPECT_EQ(serve(from, nullptr, "rest"), "");
    return moved.error().message;
  };

  EXPECT_THAT(why_not("rest"),
              AllOf(HasSubstr("tenant \"acme\" belong to shard \"acme\""),
                    HasSubstr("has those of shard \"rest\""), HasSubstr("Nothing was moved")));
  wanted.shards = {"acme", "rest"};
  EXPECT_THAT(why_not("rest"), HasSubstr("belong to shard \"acme\" by the rules"));
  wanted.shard = "audio";
  EXPECT_THAT(why_not("acme"), AllOf(HasSubstr("the store to move from has the jobs of shard \"rest\""),
                                     HasSubstr("--shard says \"audio\"")));
  wanted.shard = "rest";
  EXPECT_EQ(why_not("acme"), "nothing");
}

TEST(StoresOfAMove, are_two_that_brokers_have_served) {
  const io::StoreOptions from = new_file(), to = new_file();
  fill_source(from);

  const auto itself = io::move_rows(order(from, from)), nowhere = io::move_rows(order(from, to));
  { open(to); }
  const auto unserved = io::move_rows(order(from, to));

  EXPECT_THAT(itself.error().message, HasSubstr("the store that they are in"));
  EXPECT_THAT(nowhere.error().message, AllOf(HasSubstr("there is no store"), HasSubstr("--to"),
                                             HasSubstr("start the broker that is to serve it")));
  EXPECT_THAT(unserved.error().message, HasSubstr("no broker has served the store"));
}

}  // namespace
}  // namespace lanemq::store_move_test
