// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/job_table.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "broker/core/scheduler/clients.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {
namespace {

JobText::Contents named(std::string_view id) {
  JobText::Contents contents;
  contents.parts[JobText::id] = id;
  return contents;
}

Job& add(JobTable& table, const std::string& id) {
  Job& job = table.create(named(id));
  table.index(job);
  return job;
}

/// A table with what is kept of its jobs.
struct TableBench {
  explicit TableBench(std::size_t jobs_max) : table(jobs_max) {}

  /// Ends a job; keeps its result with `answer` where there is one.
  KeptResult* end(Job& job, std::optional<std::string> answer) {
    job.queue = &clients.join(clients.named("c"), lane.flow(service, 0));
    KeptResult* result = nullptr;
    if (answer) {
      const Terminal how{
          .id = job.id(), .client_named_it = true, .attempts = 3, .body = Blob::borrow(*answer)};
      result = &results.add(KeptResults::of(job, job.flow().service().name, job.queue->client().mark, 99),
                            how, nullptr, true);
    }
    job.state = JobState::succeeded;
    table.replace(job, result);
    return result;
  }
  void forget(KeptResult& result) {
    table.forget(result);
    results.remove(result);
  }

  Lane lane{LaneOptions{}, 0};
  Clients clients{{}, 10};
  Service service{"s"};
  KeptResults results;
  JobTable table;
};

/// What a model of the table knows of an id.
struct Known {
  JobNumber number{};
  Job* job = nullptr;
  KeptResult* result = nullptr;
};

TEST(JobTable, finds_jobs_and_results_by_id_and_by_number_until_they_are_erased) {
  const bool holds = rc::check([](const std::vector<std::uint8_t>& steps) {
    TableBench bench(1000);
    JobTable& table = bench.table;
    std::map<std::string, Known> model;
    std::vector<Known> nameless;  // ended without a result, not erased yet
    std::set<JobNumber> used;
    for (const std::uint8_t step : steps) {
      const std::string id = "job-" + std::to_string(step % 16);
      const bool bit = (step & 16) != 0;
      const auto known = model.find(id);
      if (known == model.end()) {
        Job& job = add(table, id);
        RC_ASSERT(used.insert(job.number).second);  // a number never means another job
        model[id] = {job.number, &job, nullptr};
      } else if (Known& it = known->second; it.result == nullptr) {
        it.result = bench.end(*it.job, bit ? std::optional("answer of " + id) : std::nullopt);
        if (it.result == nullptr) {
          nameless.push_back(it);
          model.erase(known);
        }
      } else if (it.job != nullptr && bit) {
        table.erase(*it.job);
        it.job = nullptr;
      } else {
        bench.forget(*it.result);
        if (it.job != nullptr) nameless.push_back({it.number, it.job, nullptr});
        model.erase(known);
      }
      if (nameless.size() > 3) {
        table.erase(*nameless.front().job);
        nameless.erase(nameless.begin());
      }
      RC_ASSERT(table.size() == model.size() + nameless.size());
      std::map<JobNumber, Job*> running;
      for (int i = 0; i < 16; ++i) {
        const std::string name = "job-" + std::to_string(i);
        const auto expected = model.find(name);
        const Record* const found = table.find(name);
        RC_ASSERT((found != nullptr) == (expected != model.end()));
        if (found == nullptr) continue;
        const Known& it = expected->second;
        RC_ASSERT(found->id() == name && found->number == it.number);
        RC_ASSERT(found->job() == it.job && found->result() == it.result);
        RC_ASSERT(table.find(it.number)->job() == it.job && table.find(it.number)->result() == it.result);
        if (it.result != nullptr) RC_ASSERT(it.result->terminal().body.bytes() == "answer of " + name);
        if (it.job != nullptr) running[it.number] = it.job;
      }
      for (const Known& it : nameless)
        running[it.number] = it.job;
      for (const JobNumber number : used) {
        const Record* const found = table.find(number);
        if (running.count(number) != 0)
          RC_ASSERT(found != nullptr && found->job() == running[number]);
        else if (found != nullptr)
          RC_ASSERT(found->number == number && found->job() == nullptr);
      }
    }
  });
  EXPECT_TRUE(holds);
}

TEST(JobTable, a_result_tells_how_its_job_ended) {
  for (const std::size_t size : {std::size_t{0}, JobText::kBodyBytesMax, JobText::kBodyBytesMax + 1}) {
    TableBench bench(10);
    JobTable& table = bench.table;
    Job& job = add(table, "a");
    job.attempt = 4;
    const std::string answer(size, 'x');
    KeptResult& result = *bench.end(job, answer);
    table.erase(job);
    const Terminal how = result.terminal();
    EXPECT_EQ(how.id, "a");
    EXPECT_EQ(how.body.bytes(), answer);
    EXPECT_EQ(how.attempts, 3);
    EXPECT_TRUE(how.client_named_it);
    EXPECT_EQ(result.attempt, 4u);
    EXPECT_EQ(result.body_hash, 99u);
    EXPECT_EQ(result.service(), "s");
    EXPECT_GE(result.bytes(), size);
    EXPECT_EQ(table.find(result.number), &result);
  }
}

TEST(JobTable, knows_no_job_by_a_number_that_it_never_gave) {
  JobTable table(10);
  EXPECT_EQ(table.find(JobNumber{0}), nullptr);
  EXPECT_EQ(table.find(JobNumber{12345}), nullptr);
  EXPECT_EQ(table.find(JobNumber{~std::uint64_t{0}}), nullptr);
  Job& job = add(table, "a");
  EXPECT_EQ(table.find(JobNumber{static_cast<std::uint64_t>(job.number) + (1u << 24)}), nullptr);
  EXPECT_EQ(table.find(JobNumber{0}), nullptr);
}

TEST(JobTable, is_full_at_its_bound_and_not_after) {
  TableBench bench(3);
  JobTable& table = bench.table;
  add(table, "a");
  add(table, "b");
  add(table, "c");
  EXPECT_TRUE(table.full());
  Job& b = *table.find("b")->job();
  bench.end(b, std::nullopt);
  table.erase(b);
  EXPECT_FALSE(table.full());
}

TEST(JobTable, an_id_that_is_taken_is_not_indexed_again) {
  JobTable table(10);
  Job& first = add(table, "a");
  EXPECT_FALSE(table.try_index(table.create(named("a"))));
  EXPECT_TRUE(table.try_index(table.create(named("b"))));
  EXPECT_EQ(table.find("a"), &first);
}

TEST(JobTable, jobs_stay_where_they_are) {
  JobTable table(10000);
  Job& first = add(table, "first");
  for (int i = 0; i < 5000; ++i)
    add(table, std::to_string(i));
  EXPECT_EQ(table.find("first"), &first);
}

TEST(JobTable, a_used_slot_is_as_new) {
  TableBench bench(10);
  JobTable& table = bench.table;
  Job& job = add(table, "a");
  job.attempts = 7;
  job.state = JobState::failed;
  job.attempt = 1;
  bench.end(job, std::nullopt);
  table.erase(job);

  Job& again = table.create({});
  EXPECT_EQ(again.attempts, 0);
  EXPECT_EQ(again.state, JobState::queued);
  EXPECT_EQ(again.attempt, 0u);
  EXPECT_EQ(again.id(), "");
}

TEST(JobTable, two_lives_of_a_broker_share_no_number) {
  JobTable first(2000, 77), second(2000, 1'000'077);
  std::set<JobNumber> numbers;
  for (int i = 0; i < 2000; ++i)
    numbers.insert(add(first, std::to_string(i)).number);
  for (int i = 0; i < 2000; ++i)
    EXPECT_TRUE(numbers.insert(add(second, std::to_string(i)).number).second);
  // Far from what a double holds exactly, which is all the integers that some languages have.
  EXPECT_LT(static_cast<std::uint64_t>(*numbers.rbegin()), std::uint64_t{1} << 53);
}

TEST(JobTable, a_place_goes_on_behind_all_that_an_earlier_life_can_have_used_it_for) {
  // On disk the earlier life had job 77 in this place; what it did there later was not written any more.
  TableBench bench(2000);
  const JobNumber written{std::uint64_t{77} << 24};
  bench.table.set_first_generation(5000);
  Job* const old = bench.table.restore(written, named("old"));
  bench.table.index(*old);
  bench.table.restored();

  bench.end(*old, std::nullopt);
  bench.table.erase(*old);

  std::set<std::uint64_t> places;
  for (std::size_t i = 0; i < bench.table.places(); ++i) {
    const auto number = static_cast<std::uint64_t>(add(bench.table, std::to_string(i)).number);
    EXPECT_GT(number >> 24, 5000u);
    places.insert(number & 0xFFFFFF);
  }
  EXPECT_EQ(places.size(), bench.table.places());  // that of the old job among them
}

}  // namespace
}  // namespace lanemq::core
