// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/kept_result.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "broker/core/scheduler/clients.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {
namespace {

using std::chrono::seconds;

struct ResultsBench {
  ResultsBench() { job.queue = &clients.join(clients.named("c"), lane.flow(service, 0)); }
  KeptResult& add(const std::string& id, const std::string& body, bool apart = false) {
    return results.add(KeptResults::of(job, job.flow().service().name, job.queue->client().mark, 0),
                       {.id = id, .body = Blob::borrow(body)}, nullptr, apart);
  }
  Lane lane{LaneOptions{}, 0};
  Clients clients{{}, 10};
  Service service{"s"};
  Job job;
  KeptResults results;
};

TEST(KeptResults, leave_in_their_order_or_by_themselves) {
  ResultsBench bench;
  KeptResult& apart = bench.add("apart", "A", true);
  KeptResult& first = bench.add("first", "1");
  KeptResult& second = bench.add("second", std::string(JobText::kBodyBytesMax + 1, '2'));
  EXPECT_EQ(bench.results.size(), 3u);
  EXPECT_EQ(bench.results.oldest(), &first);
  EXPECT_TRUE(apart.apart());
  EXPECT_FALSE(second.apart());

  bench.results.remove(first);
  EXPECT_EQ(bench.results.oldest(), &second);
  bench.results.remove(apart);
  EXPECT_EQ(bench.results.oldest_of_all(), &second);
  EXPECT_EQ(second.terminal().body.bytes(), std::string(JobText::kBodyBytesMax + 1, '2'));
  bench.results.remove(second);
  EXPECT_EQ(bench.results.size(), 0u);
  EXPECT_EQ(bench.results.bytes(), 0u);
}

TEST(KeptResults, the_oldest_of_all_is_the_one_whose_job_ended_first) {
  ResultsBench bench;  // the usual time is 0
  const auto at = [](int s) { return TimePoint(std::chrono::seconds(s)); };
  KeptResult& first = bench.add("first", "1");
  first.due = at(1);
  KeptResult& apart = bench.add("apart", "A", true);
  apart.extra->ended_at = at(2);
  apart.due = at(1000);
  KeptResult& last = bench.add("last", "2");
  last.due = at(3);

  for (KeptResult* const oldest : {&first, &apart, &last}) {
    ASSERT_EQ(bench.results.oldest_of_all(), oldest);
    bench.results.remove(*oldest);
  }
  EXPECT_EQ(bench.results.oldest_of_all(), nullptr);
}

TEST(KeptResults, those_restored_stand_in_the_order_in_which_their_jobs_ended) {
  ResultsBench bench;
  const auto at = [](int s) { return TimePoint(std::chrono::seconds(s)); };
  const auto restore = [&](const std::string& id, int ended, int due) {
    bench.results.restore(
        KeptResults::of(bench.job, bench.job.flow().service().name, bench.job.queue->client().mark, 0),
        {.id = id, .body = {}}, nullptr, {.ended_at = at(ended), .due = at(due)});
  };
  restore("3", 3, 3);
  restore("1", 1, 1);
  restore("2", 2, 100);
  std::string order;
  bench.results.list_restored([&](const KeptResult& result) { order += result.id(); });
  EXPECT_EQ(order, "123");
  for (const std::string_view id : {"1", "2", "3"}) {
    ASSERT_EQ(bench.results.oldest_of_all()->id(), id);
    EXPECT_EQ(bench.results.oldest_of_all()->apart(), id == "2");
    bench.results.remove(*bench.results.oldest_of_all());
  }
}

TEST(KeptResults, leave_what_is_loose_of_them_to_the_store_the_oldest_first) {
  ResultsBench bench;
  const std::string large(1000, 'x');
  bench.add("memory", large);
  bench.job.durable = true;
  KeptResult& first = bench.add("first", large);
  KeptResult& small = bench.add("small", "s");
  KeptResult& second = bench.add("second", large);
  const std::size_t before = bench.results.bytes();
  EXPECT_EQ(bench.results.loose_bytes(), 2 * large.size());
  EXPECT_EQ(second.terminal().body.bytes(), large);

  EXPECT_TRUE(bench.results.unload_oldest());
  EXPECT_TRUE(first.body_stored);
  EXPECT_FALSE(second.body_stored);
  EXPECT_EQ(first.body_bytes, large.size());
  EXPECT_EQ(bench.results.bytes(), before - large.size());
  EXPECT_TRUE(bench.results.unload_oldest());
  EXPECT_TRUE(second.body_stored);
  EXPECT_FALSE(small.body_stored);
  EXPECT_EQ(bench.results.loose_bytes(), 0u);
  EXPECT_FALSE(bench.results.unload_oldest());

  KeptResult& third = bench.add("third", large, true);
  EXPECT_TRUE(bench.results.unload_oldest());
  EXPECT_TRUE(third.body_stored);
  bench.results.remove(third);
  while (bench.results.oldest() != nullptr)
    bench.results.remove(*bench.results.oldest());
  EXPECT_EQ(bench.results.bytes(), 0u);
  EXPECT_EQ(bench.results.stored_bytes(), 0u);
}

/// Clients by their numbers, of which one holds its share from three results on.
struct ShareBench {
  explicit ShareBench(ResultShare share = {.results = 3}) : results(seconds(1000), share) {}
  KeptResult& add(std::uint64_t client, const std::string& id, bool apart = false,
                  const std::string& body = "") {
    KeptResult& kept = results.add({.durable = true, .model = {}, .client = client},
                                   {.id = id, .body = Blob::borrow(body)}, nullptr, apart);
    const TimePoint now{seconds(++now_)};
    kept.due = now + seconds(1000);
    if (apart) kept.extra->ended_at = now;
    return kept;
  }
  void restore(std::uint64_t client, const std::string& id) {
    const TimePoint now{seconds(++now_)};
    results.restore({.durable = true, .model = {}, .client = client}, {.id = id, .body = {}}, nullptr,
                    {.ended_at = now, .due = now + seconds(1000)});
  }
  /// The next makes way; who moved for it is told behind its id.
  std::string evict() {
    KeptResult* const next = results.next_to_go();
    if (next == nullptr) return "";
    std::string told(next->id());
    std::size_t bytes_left = 1 << 20;
    EXPECT_TRUE(results.pass_over_for(
        *next, bytes_left, [&](const KeptResult& moved) { told += " " + std::string(moved.id()); }));
    results.remove(*next);
    return told;
  }
  KeptResults results;
  int now_ = 0;
};

TEST(KeptResults, of_who_holds_more_than_its_share_its_own_oldest_go_first) {
  ShareBench bench;
  bench.add(1, "quiet-1");
  bench.add(2, "noisy-1");
  bench.add(1, "quiet-2", true);
  bench.add(2, "noisy-2", true);
  bench.add(2, "noisy-3");
  bench.add(2, "noisy-4");
  EXPECT_EQ(bench.evict(), "noisy-1 quiet-1");  // which moves once
  EXPECT_EQ(bench.evict(), "noisy-2");
  // Now both hold less than three: the oldest of all goes, wherever it is.
  EXPECT_EQ(bench.evict(), "quiet-1");
  bench.add(2, "noisy-5");
  EXPECT_EQ(bench.evict(), "noisy-3");
  EXPECT_EQ(bench.evict(), "quiet-2");
  EXPECT_EQ(bench.evict(), "noisy-4");
  EXPECT_EQ(bench.evict(), "noisy-5");
  EXPECT_EQ(bench.evict(), "");
  EXPECT_EQ(bench.results.bytes(), 0u);
  EXPECT_EQ(bench.results.stored_bytes(), 0u);
}

TEST(KeptResults, of_several_who_hold_more_than_their_share_the_oldest_goes_first) {
  ShareBench bench;
  for (const char* round : {"1", "2", "3"}) {
    bench.add(3, std::string("b") + round);
    bench.add(2, std::string("a") + round);
  }
  bench.add(kNoMark, "nobody's");
  EXPECT_EQ(bench.evict(), "b1");
  EXPECT_EQ(bench.evict(), "a1");
  EXPECT_EQ(bench.evict(), "b2");
}

TEST(KeptResults, those_that_stay_move_a_bounded_part_at_a_time) {
  ShareBench bench;
  for (int i = 0; i < 10; ++i)
    bench.add(10 + static_cast<std::uint64_t>(i), "quiet-" + std::to_string(i));
  for (const char* id : {"1", "2", "3"})
    bench.add(2, id);
  KeptResult* const next = bench.results.next_to_go();
  ASSERT_EQ(next->id(), "1");
  const std::size_t bytes_of_one = bench.results.oldest()->bytes();
  std::vector<std::string> moved;
  const auto pass_over = [&](std::size_t bytes_left) {
    return bench.results.pass_over_for(*next, bytes_left,
                                       [&](const KeptResult& one) { moved.emplace_back(one.id()); });
  };

  EXPECT_FALSE(pass_over(0));
  EXPECT_EQ(moved.size(), 0u);
  EXPECT_FALSE(pass_over(1));
  EXPECT_EQ(moved.size(), 1u) << "a large one moves, too";
  EXPECT_FALSE(pass_over(4 * bytes_of_one));
  EXPECT_EQ(moved.size(), 5u);
  EXPECT_TRUE(pass_over(5 * bytes_of_one)) << "none is left";
  EXPECT_EQ(moved.size(), 10u);
  EXPECT_EQ(moved.back(), "quiet-9");
  EXPECT_EQ(bench.evict(), "1") << "nobody moves twice";
}

TEST(KeptResults, what_stands_apart_is_not_moved_and_takes_no_time) {
  ShareBench bench;
  for (int i = 0; i < 10; ++i)
    bench.add(10 + static_cast<std::uint64_t>(i), "quiet-" + std::to_string(i), false,
              std::string(100'000, 'x'));
  for (const char* id : {"1", "2", "3"})
    bench.add(2, id);
  std::size_t bytes_left = 10'000;
  EXPECT_TRUE(bench.results.pass_over_for(*bench.results.next_to_go(), bytes_left, [](const KeptResult&) {}));
  EXPECT_EQ(bench.evict(), "1");
}

TEST(KeptResults, what_moved_is_what_it_was) {
  ShareBench bench;
  const std::string large(1000, 'x');
  bench.add(1, "quiet", false, large);
  bench.add(1, "left", false, large);
  ASSERT_TRUE(bench.results.unload_oldest());
  for (const char* id : {"1", "2", "3"})
    bench.add(2, id, false, large);
  const std::size_t loose = bench.results.loose_bytes();
  KeptResult* quiet = nullptr;
  std::size_t bytes_left = 1 << 20;
  bench.results.pass_over_for(*bench.results.next_to_go(), bytes_left, [&](KeptResult& moved) {
    if (moved.id() == "left") quiet = &moved;
  });
  ASSERT_NE(quiet, nullptr);
  EXPECT_EQ(quiet->terminal().body.bytes(), large);
  EXPECT_GE(bench.results.loose_bytes(), loose);
  EXPECT_EQ(bench.results.oldest()->id(), "quiet");  // still the first that is over
  EXPECT_TRUE(bench.results.oldest()->body_stored);
  EXPECT_TRUE(bench.results.unload_oldest());  // still the first that is left to the store
  EXPECT_TRUE(quiet->body_stored);
  EXPECT_EQ(quiet->body_bytes, large.size());
  for (const char* id : {"1", "quiet", "left", "2", "3"})
    EXPECT_EQ(bench.evict(), id);
  EXPECT_EQ(bench.results.bytes(), 0u);
  EXPECT_EQ(bench.results.loose_bytes(), 0u);
}

TEST(KeptResults, a_share_is_of_bytes_too) {
  ShareBench bench({.bytes = 3000});
  bench.add(1, "quiet");
  bench.add(2, "large", false, std::string(2000, 'x'));
  EXPECT_EQ(bench.results.next_to_go()->id(), "quiet");
  bench.add(2, "larger", false, std::string(2000, 'x'));
  EXPECT_EQ(bench.results.next_to_go()->id(), "large");
  // What is left to the store takes no memory.
  ASSERT_TRUE(bench.results.unload_oldest());
  EXPECT_EQ(bench.results.next_to_go()->id(), "quiet");
}

TEST(KeptResults, those_restored_count_for_their_clients) {
  ShareBench bench;
  bench.restore(1, "quiet");
  bench.restore(2, "old-1");
  bench.restore(2, "old-2");
  bench.results.list_restored([](const KeptResult&) {});
  EXPECT_EQ(bench.results.next_to_go()->id(), "quiet");
  bench.add(2, "new");
  EXPECT_EQ(bench.evict(), "old-1");
  EXPECT_EQ(bench.evict(), "quiet");
}

TEST(KeptResults, a_client_is_forgotten_with_its_last_result) {
  ShareBench bench;
  for (std::uint64_t client = 1; client <= 100; ++client)
    bench.add(client, "id");
  KeptResult& dead = bench.add(7, "dead", true);
  const std::size_t with_dead = bench.results.bytes();
  bench.results.bury(dead, std::make_unique<DeadJob>());
  EXPECT_LT(bench.results.bytes(), with_dead);
  EXPECT_GE(bench.results.bytes(), 100 * KeptResults::kHolderBytes);
  while (!bench.evict().empty()) {
  }
  EXPECT_EQ(bench.results.bytes(), 0u);
}

TEST(KeptResults, are_destroyed_with_their_holder) {
  ResultsBench bench;
  for (int i = 0; i < 1000; ++i)
    bench.add("job-" + std::to_string(i), std::string(static_cast<std::size_t>(i) * 10, 'x'), i % 3 == 0);
}

TEST(FifoArena, blocks_do_not_overlap_and_their_memory_is_used_again) {
  const bool holds = rc::check([](const std::vector<std::uint16_t>& steps) {
    FifoArena arena;
    std::deque<std::pair<char*, std::size_t>> blocks;
    std::size_t live = 0;
    char mark = 0;
    for (const std::uint16_t step : steps) {
      if (step % 3 == 0 && !blocks.empty()) {
        const auto [block, size] = blocks.front();
        RC_ASSERT(block[0] == block[size - 1]);  // nobody wrote over it
        arena.free_oldest(size);
        blocks.pop_front();
        live -= size;
      } else {
        const std::size_t size = 1 + std::size_t{step} * 3;
        auto* const block = static_cast<char*>(arena.allocate(size));
        RC_ASSERT(reinterpret_cast<std::uintptr_t>(block) % alignof(std::max_align_t) == 0);
        std::memset(block, ++mark, size);
        blocks.emplace_back(block, size);
        live += size;
      }
    }
    while (!blocks.empty()) {
      const auto [block, size] = blocks.front();
      RC_ASSERT(block[0] == block[size - 1]);
      arena.free_oldest(size);
      blocks.pop_front();
    }
    RC_ASSERT(arena.reserved() <= 2 * std::max(FifoArena::kChunkBytes, std::size_t{3} * 65536 + 16));
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace lanemq::core
