// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/store_exchange.hpp"

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

namespace lanemq {
namespace {

using io::StoreCondition;
using io::StoreExchange;

core::Writes turn_of(std::size_t writes, std::size_t body_bytes = 0) {
  core::Writes turn;
  for (std::size_t i = 0; i < writes; ++i) {
    turn.add(core::Write::Kind::insert_result, i + 1);
    turn.end_of_state();
    turn.end_of_record();
  }
  if (body_bytes > 0) turn.set_body(Blob::copy(std::string(body_bytes, 'b')));
  return turn;
}

std::uint64_t submit(StoreExchange& exchange, core::Writes turn) {
  return exchange.submit(turn);
}

StoreExchange::Queue<core::Writes> take(StoreExchange& exchange) {
  StoreExchange::Queue<core::Writes> turns;
  exchange.take(exchange.lock(), turns);
  return turns;
}

bool has_signal(const StoreExchange& exchange) {
  pollfd waiting{.fd = exchange.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) == 1;
}

TEST(StoreExchange, hands_turns_over_in_order_and_tells_the_loop_what_is_committed) {
  StoreExchange exchange;
  EXPECT_EQ(submit(exchange, turn_of(1)), 1u);
  EXPECT_EQ(submit(exchange, turn_of(2)), 2u);
  const std::size_t bytes = exchange.backlog_bytes();
  auto turns = take(exchange);
  ASSERT_EQ(turns.items.size(), 2u);
  EXPECT_EQ(turns.front().size(), 1u);
  EXPECT_FALSE(exchange.has_turns(exchange.lock()));
  EXPECT_FALSE(has_signal(exchange));

  const std::size_t first = exchange.committed_now(turns, 1);

  EXPECT_EQ(exchange.committed(), 1u);
  EXPECT_EQ(exchange.backlog_bytes(), bytes - first);
  EXPECT_EQ(turns.front().size(), 2u);
  EXPECT_TRUE(has_signal(exchange));
  exchange.clear_signal();
  EXPECT_FALSE(has_signal(exchange));
  exchange.committed_now(turns, 1);
  EXPECT_TRUE(turns.empty());
  EXPECT_EQ(exchange.backlog_bytes(), 0u);
  EXPECT_TRUE(has_signal(exchange));
}

TEST(StoreExchange, puts_as_many_turns_into_a_transaction_as_fit_and_at_least_one) {
  StoreExchange exchange;
  EXPECT_EQ(io::turns_of_transaction(take(exchange)), 0u);
  submit(exchange, turn_of(1, 2 * io::kTransactionBytesMax));
  submit(exchange, turn_of(io::kTransactionWritesMax - 1));
  submit(exchange, turn_of(1));
  submit(exchange, turn_of(1));
  submit(exchange, turn_of(1, io::kTransactionBytesMax));
  auto turns = take(exchange);

  std::vector<std::size_t> counts;
  while (!turns.empty()) {
    counts.push_back(io::turns_of_transaction(turns));
    exchange.committed_now(turns, counts.back());
  }

  // One that is too large alone; two up to the bound of writes; one that the bytes of the last leave alone.
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 2, 1, 1}));
}

TEST(StoreExchange, stays_failed_with_its_first_reason_and_drops_what_is_submitted) {
  StoreExchange exchange;
  EXPECT_TRUE(exchange.set_condition(StoreCondition::full, "no room"));
  EXPECT_FALSE(exchange.set_condition(StoreCondition::full, "still no room"));
  EXPECT_EQ(exchange.trouble(), "still no room");
  EXPECT_TRUE(exchange.set_condition(StoreCondition::failed, "the first reason"));

  EXPECT_FALSE(exchange.set_condition(StoreCondition::failed, "a second reason"));
  EXPECT_FALSE(exchange.set_condition(StoreCondition::good, {}));

  EXPECT_EQ(exchange.condition(), StoreCondition::failed);
  EXPECT_EQ(exchange.trouble(), "the first reason");
  EXPECT_EQ(submit(exchange, turn_of(1)), 1u);
  EXPECT_FALSE(exchange.has_turns(exchange.lock()));
  EXPECT_EQ(exchange.backlog_bytes(), 0u);
  exchange.flush();
}

TEST(StoreExchange, wakes_a_thread_that_waits_for_a_commit_to_read_after_it) {
  StoreExchange exchange;
  submit(exchange, turn_of(1));
  exchange.ask({7}, true);
  auto turns = take(exchange);
  bool read = false;
  std::thread reader([&] {
    StoreExchange::Queue<StoreExchange::Asked> asks;
    StoreExchange::Lock lock = exchange.lock();
    exchange.take(lock, asks);
    const auto may_read = [&] { return asks.front().after <= exchange.committed(); };
    // Says that it has begun to wait: the lock is free from then on.
    exchange.set_idle(lock, true);
    exchange.wait_until(lock, StoreExchange::Clock::now() + std::chrono::seconds(20), may_read);
    read = may_read();
    lock.unlock();
    std::vector<io::StoredBody> found;
    found.push_back({.number = asks.front().number, .body = {}, .of_result = asks.front().of_result});
    exchange.give(found);
  });

  exchange.flush();
  const auto begun = StoreExchange::Clock::now();
  exchange.committed_now(turns, 1);
  reader.join();

  EXPECT_TRUE(read);
  EXPECT_LT(StoreExchange::Clock::now() - begun, std::chrono::seconds(15));
  std::vector<io::StoredBody> bodies;
  exchange.take_bodies(bodies);
  ASSERT_EQ(bodies.size(), 1u);
  EXPECT_EQ(bodies[0].number, 7u);
  EXPECT_TRUE(bodies[0].of_result);
}

TEST(StoreExchange, wakes_a_thread_that_waits_for_turns_when_another_has_failed) {
  StoreExchange exchange;
  submit(exchange, turn_of(1));
  bool waits = false;
  std::thread committer([&] {
    StoreExchange::Lock lock = exchange.lock();
    const auto failed = [&] {
      waits = true;
      return exchange.is(StoreCondition::failed);
    };
    exchange.wait_until(lock, StoreExchange::Clock::now() + std::chrono::seconds(20), failed);
    exchange.set_idle(lock, true);
  });
  while (true)
    if (const StoreExchange::Lock lock = exchange.lock(); waits) break;

  const auto begun = StoreExchange::Clock::now();
  exchange.set_condition(StoreCondition::failed, "another's reason");
  exchange.flush();
  committer.join();

  EXPECT_LT(StoreExchange::Clock::now() - begun, std::chrono::seconds(15));
  EXPECT_EQ(exchange.trouble(), "another's reason");
}

}  // namespace
}  // namespace lanemq
