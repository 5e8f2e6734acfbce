// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/core/base/stored_entry.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/shared/bank.hpp"

// What upstreams say to one shard, and what comes of it for all: by the Budgets of shards, over the row of
// one bank.

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// So many requests a minute at once; by each of the keys, or by the budget itself where there are none.
BudgetOptions a_budget(const std::vector<std::string>& keys, std::int64_t limit = 6000) {
  BudgetOptions budget{.name = "shared"};
  budget.shared = true;
  budget.shared_by = 2;
  const RateOptions rate{
      .name = "requests_per_minute", .limit = limit, .period = minutes(1), .capacity = limit};
  if (keys.empty()) budget.rates.push_back(rate);
  for (const std::string& key : keys)
    budget.keys.push_back({.name = key, .rates = {rate}});
  return budget;
}

class SharedWords : public testing::Test {
 protected:
  struct Shard {
    std::unique_ptr<Budgets> budgets;
    BudgetSet set = 0;
  };

  /// Shards named a, b and so on, that have begun together.
  void begin(const BudgetOptions& budget, std::size_t shards = 2) {
    for (std::size_t i = 0; i < shards; ++i) {
      Shard shard{.budgets = std::make_unique<Budgets>(std::vector<BudgetOptions>{budget})};
      shard.budgets->shared.begin(std::string(1, static_cast<char>('a' + i)), 1, true);
      shard.set = shard.budgets->match("chat", "", "", "");
      shards_.push_back(std::move(shard));
    }
  }
  Budgets& budgets(std::size_t shard) { return *shards_[shard].budgets; }
  BankClock clock() const { return {.now = TimePoint(std::chrono::hours(500'000)) + now.time_since_epoch()}; }

  /// Makes the draw that is due at the shard.
  void draw(std::size_t shard) {
    for (const DrawWanted& wanted : budgets(shard).shared.begin_draws(now)) {
      const Drawn drawn = at_bank(wanted);
      budgets(shard).shared.drawn(wanted.budget, &drawn, now);
    }
    budgets(shard).take_eased();
  }
  Drawn at_bank(const DrawWanted& wanted) {
    last_ = wanted.draw;
    Bank bank(wanted.options);
    const bool restored = row_.empty() || bank.restore(row_).has_value();
    EXPECT_TRUE(restored);
    const Drawn drawn = bank.draw(wanted.draw, clock());
    row_ = bank.save();
    return drawn;
  }
  /// The bank as its row has it.
  Bank at_bank_now() {
    Bank bank(budgets(0).all().front().options);
    EXPECT_TRUE(bank.restore(row_).has_value());
    return bank;
  }
  /// So many jobs wait at the shard, the first of which claims this.
  void want(std::size_t shard, std::int64_t jobs, const Claim& claim = {}) {
    budgets(shard).shared.want(0, {.lane = claim.lane,
                                   .head = claim.amounts,
                                   .jobs = jobs,
                                   .all = {.requests = jobs},
                                   .refused = keys_refused(claim),
                                   .client_mark = mark_of(client)});
  }
  /// A job of the shard goes now, from what the shard has; none: it may not.
  std::optional<Reservation> take(std::size_t shard, const Claim& claim = {}) {
    if (budgets(shard).obstacle(shards_[shard].set, claim, now)) return std::nullopt;
    Reservation taken = budgets(shard).reserve(shards_[shard].set, claim, now);
    EXPECT_TRUE(budgets(shard).shared.leaves(taken, now));
    return taken;
  }
  /// The same, which draws where it must, once.
  std::optional<Reservation> go(std::size_t shard, const Claim& claim = {}) {
    want(shard, 1, claim);
    if (auto taken = take(shard, claim)) return taken;
    now += kSliceTime;
    draw(shard);
    auto taken = take(shard, claim);
    want(shard, 0);
    return taken;
  }
  std::string key_of(std::size_t shard, const std::optional<Reservation>& taken) {
    return taken ? std::string(budgets(shard).key_of(*taken)) : "none";
  }
  /// The key is refused to the client's job, which has been refused another one or not, and then to nobody.
  Budgets::Spending refuse(std::size_t shard, Reservation& taken, std::string_view whose = "c",
                           bool may_spend = true) {
    budgets(shard).settle(taken, std::nullopt, now);
    return budgets(shard).spend_key(taken, may_spend, now, mark_of(whose));
  }

  TimePoint now{seconds(1000)};
  Draw last_;               ///< the last one
  std::string client{"c"};  ///< of the jobs that wait

 private:
  std::vector<Shard> shards_;
  std::string row_;
};

TEST_F(SharedWords, a_job_does_not_get_the_key_again_that_was_refused_to_it) {
  begin(a_budget({"k1", "k2"}));
  want(0, 20);
  draw(0);
  std::vector<Reservation> sent;
  while (sent.size() < 10)
    sent.push_back(*take(0));
  ASSERT_EQ(key_of(0, sent.front()), "k1");

  now += milliseconds(100);
  for (Reservation& taken : sent)
    EXPECT_TRUE(refuse(0, taken).key_left);
  const Claim again{.key_refused = true, .refused_key = 0};
  want(0, 20, again);
  EXPECT_FALSE(take(0, again)) << "ten more were granted for k1";
  EXPECT_FALSE(take(0)) << "nor does another job get them";
  draw(0);

  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(key_of(0, take(0, again)), "k2") << i;
}

TEST_F(SharedWords, what_is_granted_while_a_refusal_is_not_told_is_not_used) {
  begin(a_budget({"k1", "k2"}));
  std::optional<Reservation> early = go(0);
  ASSERT_EQ(key_of(0, early), "k1");
  now += kSliceTime;
  want(0, 5);
  const std::vector<DrawWanted> wanted = budgets(0).shared.begin_draws(now);
  ASSERT_EQ(wanted.size(), 1u);
  const Drawn drawn = at_bank(wanted[0]);
  ASSERT_EQ(drawn.slices.size(), 1u);
  const std::uint16_t granted = drawn.slices[0].key;

  Reservation& refused = *early;
  refused.key = granted;
  refuse(0, refused);
  budgets(0).shared.drawn(0, &drawn, now);

  EXPECT_FALSE(take(0));
  draw(0);
  EXPECT_EQ(key_of(0, take(0)), granted == 0 ? "k2" : "k1");
}

TEST_F(SharedWords, a_lane_whose_next_job_was_refused_a_key_is_granted_another_one) {
  BudgetOptions budget = a_budget({"k1", "k2"});
  budget.keys[1].rates[0].capacity = 100;  // so k1 has more room
  begin(budget);

  EXPECT_EQ(key_of(0, go(0)), "k1");
  EXPECT_EQ(key_of(0, go(0, {.key_refused = true, .refused_key = 0})), "k2");
  EXPECT_EQ(key_of(1, go(1, {.key_refused = true, .refused_key = 0})), "k2");
}

TEST_F(SharedWords, a_job_that_waits_for_another_key_keeps_no_lower_lane_waiting) {
  begin(a_budget({"k1"}));
  const Claim refused{.lane = 0, .key_refused = true, .refused_key = 0};
  EXPECT_FALSE(go(0, refused));
  want(0, 1, refused);
  EXPECT_EQ(key_of(1, go(1, {.lane = 1})), "k1");
}

TEST_F(SharedWords, where_the_other_keys_are_given_to_no_job_none_is_left) {
  BudgetOptions budget = a_budget({"k1", "k2"});
  budget.keys[1].draining = true;
  begin(budget);
  std::optional<Reservation> taken = go(0);
  ASSERT_TRUE(taken);
  EXPECT_FALSE(refuse(0, *taken).key_left);
}

TEST_F(SharedWords, one_job_takes_at_most_one_key_out_of_use_for_all) {
  begin(a_budget({"k1", "k2"}));
  std::optional<Reservation> taken = go(0);
  ASSERT_EQ(key_of(0, taken), "k1");
  refuse(0, *taken);
  const Claim again{.key_refused = true, .refused_key = 0};
  taken = go(0, again);
  ASSERT_EQ(key_of(0, taken), "k2");
  refuse(0, *taken, "c", false);

  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(key_of(0, go(0)), "k2");
    EXPECT_EQ(key_of(1, go(1)), "k2");
  }
}

TEST_F(SharedWords, no_client_takes_a_key_out_of_use_by_which_one_of_another_shard_is_answered) {
  begin(a_budget({"k1"}));
  std::optional<Reservation> good = go(1), bad = go(0);
  budgets(1).take_key(*good, true, now, mark_of("good"));
  now += seconds(1);
  draw(1);
  refuse(0, *bad, "bad");
  EXPECT_EQ(key_of(0, go(0)), "k1");

  good = go(1);
  ASSERT_TRUE(good);
  refuse(1, *good, "good");
  draw(1);
  EXPECT_EQ(key_of(0, go(0)), "none") << "it is refused to two";
}

TEST_F(SharedWords, what_clients_were_told_by_a_key_is_old_after_a_while) {
  begin(a_budget({"k1"}));
  std::optional<Reservation> good = go(1), bad = go(0);
  budgets(1).take_key(*good, true, now, mark_of("good"));
  now += seconds(1);
  draw(1);
  now += seconds(11);
  refuse(0, *bad, "bad");
  client = "bad";
  EXPECT_EQ(key_of(0, go(0)), "none");
}

TEST_F(SharedWords, a_key_is_back_where_a_call_that_tried_it_was_refused_for_itself) {
  begin(a_budget({"k1"}));
  std::optional<Reservation> taken = go(0);
  refuse(0, *taken);
  draw(0);
  now += minutes(1);
  taken = go(1);
  ASSERT_TRUE(taken && taken->tries_key);
  EXPECT_EQ(key_of(0, go(0)), "none");

  budgets(1).settle(*taken, std::nullopt, now);
  budgets(1).take_key(*taken, false, now, mark_of("c"));
  EXPECT_EQ(budgets(1).shared.draw_due(now), now);
  draw(1);
  EXPECT_EQ(key_of(0, go(0)), "k1");

  taken = go(0);
  ASSERT_TRUE(taken);
  refuse(0, *taken);
  draw(0);
  now += minutes(1);
  EXPECT_EQ(key_of(0, go(0)), "none") << "the second rest in a row is longer";
  now += minutes(1);
  EXPECT_EQ(key_of(0, go(0)), "k1");
}

TEST_F(SharedWords, of_calls_that_are_answered_by_a_key_two_clients_are_said) {
  begin(a_budget({"k1", "k2"}));
  want(0, 20);
  draw(0);
  now += milliseconds(100);
  for (int i = 0; i < 20; ++i) {
    const std::optional<Reservation> taken = take(0);
    budgets(0).take_key(*taken, true, now, mark_of("client " + std::to_string(i % 5)));
  }
  now += kSliceTime;
  draw(0);
  std::vector<std::uint64_t> clients;
  for (const UpstreamWord& word : last_.report.words)
    clients.push_back(word.client_mark);
  EXPECT_THAT(clients, testing::ElementsAre(mark_of("client 3"), mark_of("client 4")));
}

TEST_F(SharedWords, a_key_that_one_client_found_spent_is_tried_at_once_by_another_one) {
  begin(a_budget({"k1"}));
  std::optional<Reservation> taken = go(0);
  refuse(0, *taken, "c");
  EXPECT_EQ(key_of(0, go(0)), "none");
  EXPECT_EQ(key_of(1, go(1)), "none") << "of the same client";

  client = "other";
  taken = go(1);
  ASSERT_TRUE(taken && taken->tries_key);
  client = "third";
  EXPECT_EQ(key_of(0, go(0)), "none") << "one job finds out";
  refuse(1, *taken, "other");
  draw(1);
  EXPECT_EQ(key_of(0, go(0)), "none") << "it is refused to two";
}

TEST_F(SharedWords, a_trial_of_which_nothing_is_heard_is_waited_for_so_long) {
  begin(a_budget({"k1"}));
  std::optional<Reservation> taken = go(0);
  refuse(0, *taken);
  draw(0);
  now += minutes(1);
  ASSERT_EQ(key_of(0, go(0)), "k1");
  EXPECT_EQ(key_of(1, go(1)), "none");
  now += Bank::kTrialTime;
  EXPECT_EQ(key_of(1, go(1)), "k1");
}

TEST_F(SharedWords, a_reload_of_one_shard_has_spent_keys_tried_at_once) {
  const BudgetOptions budget = a_budget({"k1"});
  begin(budget);
  std::optional<Reservation> taken = go(0), older = go(0);
  refuse(0, *taken);
  draw(0);
  EXPECT_EQ(key_of(1, go(1)), "none");

  budgets(1).change_limits(budget, now);
  draw(1);
  EXPECT_EQ(key_of(1, go(1)), "none") << "other limits say nothing of keys";
  budgets(1).configure({budget}, now);
  EXPECT_EQ(budgets(1).shared.draw_due(now), now);
  draw(1);
  EXPECT_EQ(key_of(1, go(1)), "k1");
  EXPECT_EQ(key_of(0, go(0)), "k1");

  refuse(0, *older);
  draw(0);
  EXPECT_EQ(key_of(1, go(1)), "k1") << "that call was made before";
}

TEST_F(SharedWords, a_reload_is_told_however_much_the_upstream_has_said) {
  const BudgetOptions budget = a_budget({"k1"});
  begin(budget);
  const std::optional<Reservation> taken = go(0);
  now += seconds(1);
  for (std::size_t i = 0; i < kWordsMax; ++i)
    budgets(0).overloaded(*taken, now);
  budgets(0).configure({budget}, now);
  budgets(0).configure({budget}, now);
  now += kSliceTime;
  draw(0);
  ASSERT_EQ(last_.report.words.size(), kWordsMax);
  EXPECT_EQ(last_.report.words.back().kind, UpstreamWord::Kind::keys_configured);
  EXPECT_EQ(last_.report.words[kWordsMax - 2].kind, UpstreamWord::Kind::overloaded);
}

/// Two models are refused within a minute, while a third one is answered all the time.
class SharedModels : public SharedWords {
 protected:
  void answer_third(int calls) {
    for (int i = 0; i < calls; ++i) {
      std::optional<Reservation> taken = go(0);
      ASSERT_TRUE(taken);
      budgets(0).settle(*taken, std::nullopt, now);
      budgets(0).succeeded(*taken, mark_of("third"), now);
    }
  }
  void refuse_model(const std::string& model) {
    std::optional<Reservation> taken = go(0);
    ASSERT_TRUE(taken);
    budgets(0).settle(*taken, std::nullopt, now);
    budgets(0).pause(*taken, {.model = model, .client = "c", .until = now + minutes(10)}, now,
                     [](std::size_t) { return true; });
    draw(0);
  }
  void run() {
    answer_third(4);
    refuse_model("first");
    answer_third(4);
    refuse_model("second");
  }
};

TEST_F(SharedModels, pause_alone_while_another_one_is_answered) {
  begin(a_budget({}, 600));
  run();

  EXPECT_TRUE(go(0)) << "others go on here";
  EXPECT_TRUE(go(1)) << "and there";
  const Bank bank = at_bank_now();
  Quota quota = bank.budget().quota;
  EXPECT_EQ(quota.paused_until(), TimePoint{});
  EXPECT_EQ(quota.rates()[0].effective_limit(bank.now()), 600) << "no limit is why";
}

TEST_F(SharedModels, are_probed_by_one_job_of_a_shard) {
  begin(a_budget({}, 600));
  run();

  const BudgetSet set = budgets(0).match("chat", "second", "", "");
  const TimePoint probed = budgets(0).model_pause(set, now).until;
  EXPECT_LE(probed, now + kPauseProbedAfter + Budgets::kOthersFirst);
  now = probed;
  EXPECT_EQ(budgets(0).model_pause(set, now).budget, nullptr);
  want(0, 1);
  draw(0);
  ASSERT_FALSE(budgets(0).obstacle(set, {}, now));
  Reservation probe = budgets(0).reserve(set, {}, now);
  EXPECT_NE(budgets(0).model_pause(set, now).budget, nullptr) << "the others wait for its answer";
  budgets(0).settle(probe, std::nullopt, now);
  budgets(0).succeeded(probe, mark_of("second"), now);
  EXPECT_EQ(budgets(0).model_pause(set, now).budget, nullptr);
  draw(0);
  budgets(0).take_eased();
  EXPECT_EQ(budgets(0).model_pause(set, now).budget, nullptr) << "the bank has heard of it, too";
}

TEST_F(SharedModels, pause_alone_on_the_account_of_a_key) {
  begin(a_budget({"k1"}, 600));
  run();

  EXPECT_TRUE(go(0));
  EXPECT_TRUE(go(1));
  EXPECT_EQ(budgets(0).upstream_pause(budgets(0).match("chat", "third", "", ""), now).budget, nullptr);
}

TEST_F(SharedWords, of_calls_that_are_answered_one_word_a_model_is_said_for_all) {
  BudgetOptions budget = a_budget({}, 6000);
  budget.concurrency = 100;
  begin(budget);
  want(0, 90);
  draw(0);
  for (int i = 0; i < 60; ++i) {
    std::optional<Reservation> taken = take(0);
    ASSERT_TRUE(taken);
    now += milliseconds(1);
    budgets(0).settle(*taken, std::nullopt, now);
    if (i >= 50) {  // two have headers
      wire::UpstreamLimits limits;
      limits.limit_requests = 5000 + i;
      if (i % 5 == 0) budgets(0).learn(*taken, limits, now);
    }
    budgets(0).succeeded(*taken, mark_of(i % 2 == 0 ? "first" : "second"), now);
  }
  now += kSliceTime;
  draw(0);
  std::map<std::pair<std::uint64_t, bool>, std::int64_t> calls;
  for (const UpstreamWord& word : last_.report.words)
    calls[{word.model_mark, word.limits.has_value()}] += word.calls;
  EXPECT_EQ(last_.report.words.size(), 4u);
  EXPECT_EQ((calls[{mark_of("first"), false}]), 29);
  EXPECT_EQ((calls[{mark_of("first"), true}]), 1);
  EXPECT_EQ((calls[{mark_of("second"), false}]), 29);
  EXPECT_EQ((calls[{mark_of("second"), true}]), 1);
}

TEST_F(SharedWords, all_answers_count_for_a_concurrency_that_was_lowered) {
  BudgetOptions budget = a_budget({}, 6000);
  budget.concurrency = 10;
  begin(budget);
  std::optional<Reservation> taken = go(0);
  budgets(0).settle(*taken, std::nullopt, now);
  budgets(0).overloaded(*taken, now);
  draw(0);
  EXPECT_EQ(at_bank_now().budget().quota.concurrency().limit(), 7);

  want(0, 90);
  now += kSliceTime;
  draw(0);
  for (int i = 0; i < 7; ++i) {
    taken = take(0);
    ASSERT_TRUE(taken) << i;
    budgets(0).settle(*taken, std::nullopt, now);
    budgets(0).succeeded(*taken, mark_of("m"), now);
  }
  now += kSliceTime;
  draw(0);
  EXPECT_EQ(last_.report.words.size(), 1u);
  EXPECT_EQ(at_bank_now().budget().quota.concurrency().limit(), 8);
}

TEST_F(SharedWords, a_row_in_which_nothing_is_said_of_callers_is_read) {
  Budgets before(std::vector<BudgetOptions>{a_budget({"k1", "k2"})});
  const BudgetSet set = before.match("chat", "", "", "");
  before.spend_key(before.reserve(set, {}, now), true, now, mark_of("c"));
  std::vector<StoredEntry> entries = before.save({}, 0, Detail::exact);
  EXPECT_EQ(std::erase_if(entries, [](const StoredEntry& one) { return one.name.starts_with("callers "); }),
            2u);

  Budgets after(std::vector<BudgetOptions>{a_budget({"k1", "k2"})});
  after.restore(after.all().front(), entries, 0, now);

  EXPECT_EQ(after.all().front().keys[0].state, Key::State::spent);
  EXPECT_EQ(after.all().front().keys[0].rests_until, now + Key::kRestMin);
  EXPECT_EQ(after.all().front().keys[1].state, Key::State::active);
}

}  // namespace
}  // namespace lanemq::core
