// SPDX-License-Identifier: Apache-2.0
// Figures of an account that others use as well: what of it is used, and how long calls wait.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/figures/account.hpp"
#include "tests/figures/stage.hpp"

namespace lanemq::figures {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kBounds[] = {"bucket", "fixed", "sliding", "places"};
constexpr const char* kWords[] = {"all", "retry_after", "none"};
constexpr const char* kOthers[] = {"half", "greedy", "stop", "falls", "nobody"};

constexpr TimePoint kBegin{seconds(100)};

struct Measured {
  std::int64_t granted = 0, refused = 0;
  double left = 0;
  std::vector<Duration> waits;
};

/// Forty calls at once, or one each two seconds.
Measured measure(const Account::Rules& rules, bool bulk, bool configured, TimePoint from, TimePoint end) {
  Account account(rules);
  core::Options options = core::default_options();
  for (core::LaneOptions& lane : options.lanes)
    lane.depth_max = options.jobs_max;
  if (configured)
    options.budgets.push_back(
        {.name = "api",
         .rates = {
             {.name = "requests_per_minute", .limit = rules.limit, .period = std::chrono::minutes(1)}}});
  Measured sum;
  std::map<std::string, TimePoint> wanted;
  Stage stage(options, [&](const Work& work, TimePoint now) {
    const Account::Word word = account.call(now);
    if (now >= from) ++(word.granted ? sum.granted : sum.refused);
    if (word.granted && !bulk)
      if (const TimePoint since = wanted.at(work.client); since >= from) sum.waits.push_back(now - since);
    return Answer{.takes = word.granted ? word.takes : milliseconds(30),
                  .retry_after = word.retry_after,
                  .refused = !word.granted,
                  .limits = word.limits};
  });
  stage.add_worker(40);
  if (bulk) {
    const double most = account.pace(kBegin) * 1.2 * std::chrono::duration<double>(end - kBegin).count();
    for (int i = 0; i < std::min(100'000, static_cast<int>(most) + 100); ++i)
      stage.submit({.client = "a"});
  } else {
    for (TimePoint at = kBegin; at < end; at += seconds(2))
      stage.at(at, [&, at] {
        const std::string client = std::to_string(at.time_since_epoch().count());
        wanted[client] = at;
        stage.submit({.client = client});
      });
  }
  stage.run_until(end);
  sum.left = account.left_by_others(from, end);
  return sum;
}

std::string name_of(const Account::Rules& rules, bool configured) {
  return std::string(kBounds[static_cast<int>(rules.bound)]) + " " + kWords[static_cast<int>(rules.words)] +
         " " + kOthers[static_cast<int>(rules.others)] + (configured ? " configured" : "") + " seed " +
         std::to_string(rules.seed);
}

constexpr TimePoint kFrom = kBegin + seconds(60), kEnd = kBegin + seconds(240);

/// Calls `check` for each seed, with the limit configured and not.
void for_each(const Account::Rules& rules, const std::function<void(const Account::Rules&, bool)>& check) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const bool configured : {true, false}) {
      if (configured && rules.bound == Bound::places) continue;
      Account::Rules drawn = rules;
      drawn.seed = seed;
      drawn.begins = kBegin + seconds(120);
      drawn.ends = kBegin + seconds(180);
      SCOPED_TRACE(name_of(drawn, configured));
      check(drawn, configured);
    }
}

/// The worst of several measures, which is printed at the end.
class Worst {
 public:
  explicit Worst(std::string what) : what_(std::move(what)) {}
  ~Worst() {
    std::printf("%-48s at least %.1f %% of what others leave, at most %.1f %% refused\n", what_.c_str(),
                use_ * 100, refused_ * 100);
  }
  Worst(const Worst&) = delete;
  Worst& operator=(const Worst&) = delete;
  void note(const Measured& measured) {
    const auto granted = static_cast<double>(measured.granted);
    use_ = std::min(use_, granted / measured.left);
    refused_ = std::max(refused_, static_cast<double>(measured.refused) / granted);
  }

 private:
  std::string what_;
  double use_ = 10, refused_ = 0;
};

constexpr Bound kCounted[] = {Bound::bucket, Bound::fixed, Bound::sliding};

TEST(Accounts, one_call_each_two_seconds_waits_hardly_longer_than_a_client_that_obeys_retry_after) {
  for (const Bound bound : kCounted)
    for (const Others others : {Others::half, Others::greedy, Others::stop, Others::nobody})
      for_each({.bound = bound, .others = others}, [](const Account::Rules& rules, bool configured) {
        const Measured ours = measure(rules, false, configured, kFrom, kEnd);
        const Witness client = witness(rules, 0, kBegin, kFrom, kEnd);
        ASSERT_GE(ours.waits.size() + 2, client.waits.size());
        EXPECT_LE(quantile(ours.waits, .5), quantile(client.waits, .5) + seconds(1));
        EXPECT_LE(quantile(ours.waits, .99), quantile(client.waits, .99) + milliseconds(2500));
        EXPECT_LE(ours.refused, client.refused + static_cast<std::int64_t>(ours.waits.size()) / 2);
      });
}

TEST(Accounts, what_others_leave_is_used_where_the_upstream_tells_what_remains) {
  Worst worst("others take half, told what remains");
  for (const Bound bound : kCounted)
    for_each({.bound = bound, .others = Others::half}, [&](const Account::Rules& rules, bool configured) {
      const Measured ours = measure(rules, true, configured, kFrom, kEnd);
      worst.note(ours);
      EXPECT_GE(static_cast<double>(ours.granted), 0.9 * ours.left);
      EXPECT_LE(static_cast<double>(ours.refused), 0.08 * static_cast<double>(ours.granted));
    });
}

TEST(Accounts, a_limit_that_nobody_configured_is_learnt_from_the_first_answer_and_used) {
  Worst worst("nobody else, the limit configured or learnt");
  for (const Bound bound : kCounted)
    for_each({.bound = bound, .others = Others::nobody}, [&](const Account::Rules& rules, bool configured) {
      const Measured ours = measure(rules, true, configured, kFrom, kEnd);
      worst.note(ours);
      EXPECT_GE(static_cast<double>(ours.granted), 0.97 * ours.left);
      EXPECT_EQ(ours.refused, 0);
    });
}

TEST(Accounts, a_critical_call_does_not_wait_behind_the_bulk_that_uses_an_account_up) {
  constexpr std::int64_t kPlaces = 40;
  for (const bool configured : {true, false}) {
    SCOPED_TRACE(configured ? "configured" : "learnt");
    Account account({.bound = Bound::bucket, .others = Others::nobody});
    while (account.call(kBegin).granted) {
    }
    core::Options options = core::default_options();
    if (configured)
      options.budgets.push_back(
          {.name = "api",
           .rates = {{.name = "requests_per_minute", .limit = 600, .period = std::chrono::minutes(1)}}});
    std::int64_t granted = 0, refused = 0, refused_first = 0;
    Stage stage(options, [&](const Work&, TimePoint now) {
      const Account::Word word = account.call(now);
      if (!word.granted) ++(now < kFrom ? refused_first : refused);
      if (word.granted && now >= kFrom) ++granted;
      return Answer{.retry_after = word.retry_after, .refused = !word.granted, .limits = word.limits};
    });
    stage.add_worker(kPlaces);
    for (TimePoint at = kBegin; at < kEnd; at += seconds(30))
      stage.at(at, [&] {
        for (int i = 0; i < 500; ++i)
          stage.submit({.lane = "batch", .client = "bulk"});
      });
    std::vector<std::size_t> critical;
    for (TimePoint at = kFrom; at < kEnd; at += seconds(5))
      stage.at(at, [&] { critical.push_back(stage.submit({.lane = "critical", .client = "chat"})); });
    stage.run_until(kEnd);

    std::vector<Duration> waits;
    for (const std::size_t job : critical)
      waits.push_back(stage.wait(job).value_or(kEnd - kFrom));
    const double use = static_cast<double>(granted) / account.left_by_others(kFrom, kEnd);
    std::printf(
        "critical beside 500 batch jobs, the limit %-10s wait p99 %.1f ms, %.1f %% of the limit used\n",
        configured ? "configured" : "learnt", static_cast<double>(quantile(waits, .99).count()) / 1000,
        use * 100);
    EXPECT_LE(quantile(waits, .99), milliseconds(50));
    EXPECT_GE(use, 0.95);
    EXPECT_EQ(refused, 0);
    EXPECT_LE(refused_first, kPlaces) << "what was under way before the first answer";
  }
}

/// A broker of several on one account, with bulk that never ends.
class OneOfTwo {
 public:
  OneOfTwo(Account& account, const Account::Rules& rules, bool configured)
      : stage_(
            [&] {
              core::Options options = core::default_options();
              for (core::LaneOptions& lane : options.lanes)
                lane.depth_max = options.jobs_max;
              if (configured)
                options.budgets.push_back(
                    {.name = "api", .rates = {per_minute(core::Resource::requests, rules.limit)}});
              return options;
            }(),
            [&](const Work&, TimePoint now) {
              const Account::Word word = account.call(now);
              if (word.granted && now >= kFrom) {
                ++granted_;
                longest_ = std::max(longest_, now - last_);
              }
              if (word.granted) last_ = now;
              return Answer{.takes = word.granted ? word.takes : milliseconds(30),
                            .retry_after = word.retry_after,
                            .refused = !word.granted,
                            .limits = word.limits};
            }) {
    stage_.add_worker(40);
    for (int i = 0; i < 4000; ++i)
      stage_.submit({.client = "a"});
    stage_.run_until(kBegin);
  }
  Stage& stage() { return stage_; }
  std::int64_t granted() const { return granted_; }
  Duration longest() const { return longest_; }

 private:
  std::int64_t granted_ = 0;
  TimePoint last_ = kFrom;
  Duration longest_{};
  Stage stage_;
};

TEST(Accounts, two_brokers_that_know_nothing_of_each_other_share_an_account) {
  for (const Words words : {Words::all, Words::retry_after, Words::none}) {
    double least = 1, both = 2;
    Duration longest{};
    for (const Bound bound : kCounted)
      for_each({.bound = bound, .words = words, .others = Others::nobody}, [&](const Account::Rules& rules,
                                                                               bool configured) {
        Account account(rules);
        if (rules.seed % 2 == 0)  // from a limit that is used up
          while (account.call(kBegin).granted) {
          }
        OneOfTwo first(account, rules, configured), second(account, rules, configured);
        for (TimePoint next = kBegin; next <= kEnd;) {
          Stage& sooner = first.stage().next() <= second.stage().next() ? first.stage() : second.stage();
          next = sooner.next();
          if (next <= kEnd) sooner.step();
        }
        const auto sum = static_cast<double>(first.granted() + second.granted());
        const double use = sum / account.left_by_others(kFrom, kEnd);
        const double share = static_cast<double>(std::min(first.granted(), second.granted())) / sum;
        least = std::min(least, share);
        both = std::min(both, use);
        if (bound == Bound::bucket) longest = std::max({longest, first.longest(), second.longest()});
        // Who is refused more often lowers its pace more often; words tell both the same.
        EXPECT_GE(share, words == Words::all ? 0.35 : 0.1);
        EXPECT_GE(use, 0.9);
      });
    if (words == Words::all) {
      EXPECT_LE(longest, seconds(5));
    }
    std::printf(
        "two brokers on one account, told %-12s %.1f %% used at least, the smaller share %.1f %%, longest "
        "stop in a bucket %.1f s\n",
        kWords[static_cast<int>(words)], both * 100, least * 100, ms(longest) / 1000);
  }
}

TEST(Accounts, places_are_learnt_from_bare_refusals) {
  Worst worst("3, 8 or 30 places, bare refusals");
  for (const std::int64_t places : {3, 8, 30})
    for (const Others others : {Others::half, Others::greedy, Others::limit_falls, Others::nobody})
      for_each({.bound = Bound::places, .words = Words::none, .others = others, .limit = places},
               [&](const Account::Rules& rules, bool configured) {
                 const Measured ours = measure(rules, true, configured, kFrom, kEnd);
                 worst.note(ours);
                 EXPECT_GE(static_cast<double>(ours.granted), 0.85 * ours.left);
                 EXPECT_LE(static_cast<double>(ours.refused), 0.03 * static_cast<double>(ours.granted) + 3);
               });
}

TEST(Accounts, what_others_leave_is_used_whatever_the_upstream_says) {
  for (const Words words : {Words::all, Words::retry_after, Words::none}) {
    Worst known(std::string(kWords[static_cast<int>(words)]) + ", configured");
    Worst learnt(std::string(kWords[static_cast<int>(words)]) + ", learnt");
    for (const Bound bound : kCounted)
      for (const Others others : {Others::half, Others::stop, Others::limit_falls, Others::nobody})
        for_each({.bound = bound, .words = words, .others = others}, [&](const Account::Rules& rules,
                                                                         bool configured) {
          const Measured ours = measure(rules, true, configured, kFrom, kEnd);
          const Witness client = witness(rules, 40, kBegin, kFrom, kEnd);
          (configured ? known : learnt).note(ours);
          // A limit that was refused away beside others rises for most of a minute when they leave.
          EXPECT_GE(static_cast<double>(ours.granted), (configured ? 0.65 : 0.8) * ours.left);
          // Where nothing says what is limited it is searched for: first among the calls at once, until none
          // is under way.
          const double part = configured || words == Words::all ? 0.1 : 0.12;
          EXPECT_LE(static_cast<double>(ours.refused), std::max(part * static_cast<double>(ours.granted),
                                                                0.01 * static_cast<double>(client.refused)));
        });
  }
}

}  // namespace
}  // namespace lanemq::figures
