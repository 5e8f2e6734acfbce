// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/flow.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "broker/core/scheduler/clients.hpp"
#include "broker/core/scheduler/lanes.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {
namespace {

class FlowTest : public testing::Test {
 protected:
  Job& job(Flow& flow, std::uint64_t arrival, const std::string& client = "c", std::uint32_t cost = 0) {
    Job& added = jobs_.emplace_back();
    added.arrival = arrival & Job::kArrivalMax;
    added.set_expected({.input_tokens = cost});
    added.queue = &clients_.join(clients_.named(client), flow);
    return added;
  }
  Job& push(Flow& flow, const std::string& client = "c", std::uint32_t cost = 0) {
    Job& added = job(flow, ++arrivals_, client, cost);
    flow.push(added);
    return added;
  }
  /// Hands the head over, as the broker does.
  static Job* serve(Flow& flow) {
    Job* const head = flow.head();
    if (head == nullptr) return nullptr;
    flow.charge(*head->queue, head->cost());
    flow.remove(*head);
    return head;
  }
  static std::vector<std::uint64_t> drain(Flow& flow) {
    std::vector<std::uint64_t> order;
    while (Job* head = serve(flow))
      order.push_back(head->arrival);
    return order;
  }
  static std::string clients_served(Flow& flow, int jobs) {
    std::string names;
    for (int i = 0; i < jobs; ++i)
      if (Job* const head = serve(flow)) names += head->queue->client().name;
    return names;
  }

  Lane lane_{LaneOptions{.name = "normal"}, 0};
  Service service_{"echo"};
  Flow& flow_ = lane_.flow(service_, 0);
  std::deque<Job> jobs_;
  std::uint64_t arrivals_ = 0;
  Clients clients_{{}, 100};
};

TEST_F(FlowTest, first_in_first_out) {
  for (int i = 0; i < 3; ++i)
    push(flow_);
  EXPECT_EQ(flow_.depth(), 3u);
  EXPECT_EQ(drain(flow_), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_TRUE(flow_.empty());
}

TEST_F(FlowTest, what_comes_back_stands_at_its_old_place) {
  Job &first = push(flow_), &second = push(flow_);
  push(flow_);
  flow_.remove(first);
  flow_.remove(second);
  push(flow_);

  flow_.put_back(second);
  flow_.put_back(first);

  EXPECT_EQ(drain(flow_), (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST_F(FlowTest, keeps_order_when_one_in_the_middle_is_taken_out) {
  push(flow_);
  Job& second = push(flow_);
  push(flow_);

  flow_.remove(second);

  EXPECT_EQ(drain(flow_), (std::vector<std::uint64_t>{1, 3}));
}

TEST_F(FlowTest, of_one_client_the_head_is_always_the_oldest) {
  const bool holds = rc::check([&](const std::vector<std::uint8_t>& steps) {
    Lane lane(LaneOptions{.name = "normal"}, 0);
    Service service("echo");
    Flow& flow = lane.flow(service, 0);
    Clients clients({}, 1);
    std::deque<Job> jobs;
    std::vector<Job*> inside, outside;
    const auto oldest = [&] {
      return inside.empty() ? nullptr
                            : *std::min_element(inside.begin(), inside.end(), [](const Job* a, const Job* b) {
                                return a->arrival < b->arrival;
                              });
    };
    for (const std::uint8_t step : steps) {
      if (step < 100) {
        jobs.emplace_back();
        jobs.back().arrival = jobs.size() & Job::kArrivalMax;
        jobs.back().queue = &clients.join(clients.named("c"), flow);
        flow.push(jobs.back());
        inside.push_back(&jobs.back());
      } else if (step < 200 && !inside.empty()) {
        Job* const out = step < 160 ? oldest() : inside[step % inside.size()];
        std::erase(inside, out);
        outside.push_back(out);
        flow.remove(*out);
      } else if (!outside.empty()) {
        Job* const back = outside[step % outside.size()];
        std::erase(outside, back);
        inside.push_back(back);
        flow.put_back(*back);
      }
      RC_ASSERT(flow.head() == oldest());
      RC_ASSERT(flow.depth() == inside.size());
    }
  });
  EXPECT_TRUE(holds);
}

TEST_F(FlowTest, a_client_with_a_million_jobs_delays_one_with_one_by_at_most_one) {
  for (int i = 0; i < 1'000'000; ++i)
    push(flow_, "a");
  clients_served(flow_, 1000);
  push(flow_, "b");
  EXPECT_EQ(clients_served(flow_, 2).find('b') != std::string::npos, true);
}

TEST_F(FlowTest, turns_are_by_cost_and_not_by_count) {
  for (int i = 0; i < 100; ++i) {
    push(flow_, "a", 1000);
    push(flow_, "b", 100);
  }
  const std::string served = clients_served(flow_, 55);
  EXPECT_EQ(std::count(served.begin(), served.end(), 'a'), 5);
}

TEST_F(FlowTest, weights_count_at_once_for_what_is_queued_already) {
  for (int i = 0; i < 1000; ++i) {
    push(flow_, "a");
    push(flow_, "b");
  }
  std::string served = clients_served(flow_, 100);
  EXPECT_EQ(std::count(served.begin(), served.end(), 'a'), 50);

  clients_.configure({{.name = "a", .weight = 4}});
  EXPECT_EQ(flow_.weight(), 5);
  served = clients_served(flow_, 100);
  EXPECT_NEAR(static_cast<double>(std::count(served.begin(), served.end(), 'a')), 80, 1);
}

TEST_F(FlowTest, a_client_that_had_nothing_to_do_saves_nothing_up) {
  for (int i = 0; i < 1000; ++i)
    push(flow_, "a");
  push(flow_, "b");
  clients_served(flow_, 500);
  for (int i = 0; i < 100; ++i)
    push(flow_, "b");
  const std::string served = clients_served(flow_, 100);
  EXPECT_NEAR(static_cast<double>(std::count(served.begin(), served.end(), 'b')), 50, 1);
}

TEST_F(FlowTest, what_a_job_really_cost_is_what_counts) {
  for (int i = 0; i < 1000; ++i) {
    push(flow_, "a", 10);
    push(flow_, "b", 10);
  }
  int a = 0, b = 0;
  for (int i = 0; i < 400; ++i) {
    Job& job = *serve(flow_);
    const bool is_a = job.queue->client().name == "a";
    ++(is_a ? a : b);
    if (is_a) flow_.correct(*job.queue, 20);  // three times as much as was thought
  }
  EXPECT_NEAR(3.0 * a, b, 4);
}

TEST_F(FlowTest, a_client_at_its_limit_is_passed_over_and_comes_back) {
  clients_.configure({{.name = "a", .in_flight_max = 1}});
  push(flow_, "a");
  push(flow_, "a");
  push(flow_, "b");
  Client& a = clients_.named("a");
  serve(flow_);
  a.running = 1;
  update_turns(a);
  EXPECT_EQ(clients_served(flow_, 2), "b");
  EXPECT_TRUE(flow_.empty());
  EXPECT_EQ(flow_.depth(), 1u);

  a.running = 0;
  update_turns(a);
  EXPECT_EQ(clients_served(flow_, 2), "a");
}

// The bound of start-time fair queuing (theorem 1 of the paper): over any time in which two clients both have
// work, what they get per weight differs by at most the largest job of each per its weight.
TEST_F(FlowTest, clients_with_work_get_their_weighted_share_but_for_one_job_each) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    Lane lane(LaneOptions{.name = "normal"}, 0);
    Service service("echo");
    Flow& flow = lane.flow(service, 0);
    const std::size_t count = 2 + random() % 10;
    std::vector<ClientOptions> options;
    for (std::size_t i = 0; i < count; ++i)
      options.push_back({.name = std::to_string(i), .weight = 1 + static_cast<std::uint32_t>(random() % 20)});
    Clients clients(options, 100);
    std::deque<Job> jobs;
    constexpr std::uint32_t kCostMax = 5000;
    const auto submit = [&](std::size_t client) {
      Job& job = jobs.emplace_back();
      job.arrival = jobs.size() & Job::kArrivalMax;
      job.set_expected({.input_tokens = 1 + static_cast<std::uint32_t>(random() % kCostMax)});
      job.queue = &clients.join(clients.named(std::to_string(client)), flow);
      flow.push(job);
    };
    std::map<std::string, double> served;
    for (std::size_t i = 0; i < count; ++i)
      for (int j = 0; j < 3; ++j)
        submit(i);
    for (int step = 0; step < 3000; ++step) {
      Job& job = *serve(flow);
      const Client& client = job.queue->client();
      // A newcomer's first turn may come up to a job of another later.
      const bool all_began = served.size() == count;
      served[client.name] += all_began ? static_cast<double>(job.cost()) / client.options.weight : 0;
      submit(static_cast<std::size_t>(std::stoi(client.name)));  // it never runs dry
    }
    for (const ClientOptions& a : options)
      for (const ClientOptions& b : options)
        EXPECT_LE(served[a.name] - served[b.name], 1.0 * kCostMax / a.weight + 1.0 * kCostMax / b.weight + 1)
            << a.name << " and " << b.name << " in round " << round;
  }
}

TEST_F(FlowTest, who_waits_has_its_turn_by_weight_beside_clients_that_are_new_all_the_time) {
  Clients clients({{.name = "heavy", .weight = 4}}, 10'000);
  const auto submit = [&](const std::string& client) {
    Job& added = jobs_.emplace_back();
    added.arrival = ++arrivals_ & Job::kArrivalMax;
    added.set_expected({.input_tokens = 10});
    added.queue = &clients.join(clients.named(client), flow_);
    flow_.push(added);
  };
  std::map<std::string, std::size_t> served, last;
  for (const std::string name : {"a", "b", "c", "heavy"})
    for (int i = 0; i < 600; ++i)
      submit(name);
  for (std::size_t step = 1; step <= 600; ++step) {
    submit("new-" + std::to_string(step));
    const std::string name = serve(flow_)->queue->client().name;
    ++served[name];
    last[name] = step;
    for (const std::string waits : {"a", "b", "c", "heavy"})
      ASSERT_LE(step - last[waits], 2 * flow_.turns().size()) << waits;
  }
  EXPECT_GE(served["heavy"], 3 * served["a"]);
  for (const std::string waits : {"a", "b", "c"})
    EXPECT_GE(served[waits], 600 / (flow_.turns().size() + 7)) << waits;
}

TEST_F(FlowTest, who_changes_its_name_gets_no_more_than_its_part) {
  struct Case {
    std::vector<std::uint32_t> weights;
    std::size_t renaming;
  };
  for (const Case& one : {Case{{20}, 3}, Case{{10, 1}, 3}, Case{{4, 1}, 1}, Case{{1, 1, 1, 1, 1}, 1}}) {
    Lane lane(LaneOptions{.name = "normal"}, 0);
    Service service("echo");
    Flow& flow = lane.flow(service, 0);
    std::vector<ClientOptions> options;
    std::uint32_t all = static_cast<std::uint32_t>(one.renaming);
    for (std::size_t i = 0; i < one.weights.size(); ++i) {
      options.push_back({.name = "c" + std::to_string(i), .weight = one.weights[i]});
      all += one.weights[i];
    }
    Clients clients(options, 10'000);
    std::deque<Job> jobs;
    std::size_t names = 0;
    const auto submit = [&](const std::string& client) {
      Job& added = jobs.emplace_back();
      added.arrival = jobs.size() & Job::kArrivalMax;
      added.set_expected({.input_tokens = 10});
      added.queue = &clients.join(clients.named(client), flow);
      flow.push(added);
    };
    for (const ClientOptions& client : options)
      for (int i = 0; i < 2; ++i)
        submit(client.name);
    for (std::size_t i = 0; i < one.renaming; ++i)
      submit("new" + std::to_string(names++));
    constexpr double kJobs = 4000;
    std::map<std::string, double> served;
    for (int i = 0; i < static_cast<int>(kJobs); ++i) {
      const std::string name = serve(flow)->queue->client().name;
      ++served[name.starts_with("new") ? "new" : name];
      submit(name.starts_with("new") ? "new" + std::to_string(names++) : name);
    }
    for (const ClientOptions& client : options)
      EXPECT_NEAR(served[client.name] / kJobs, 1.0 * client.weight / all, 0.02)
          << client.name << " of " << all;
    EXPECT_NEAR(served["new"] / kJobs, 1.0 * static_cast<double>(one.renaming) / all, 0.02);
  }
}

TEST_F(FlowTest, a_tenants_clients_take_turns_as_one_and_inside_it_among_themselves) {
  for (int i = 0; i < 4; ++i) {
    push(flow_, "@t/a");
    push(flow_, "@t/b");
    push(flow_, "c");
  }
  std::string order = clients_served(flow_, 12);
  EXPECT_EQ(order, "@t/ac@t/bc@t/ac@t/bc@t/a@t/b@t/a@t/b");
  EXPECT_TRUE(flow_.empty());
}

TEST_F(FlowTest, a_tenant_takes_turns_by_the_weight_of_its_space) {
  Clients clients({{.name = "@t/", .weight = 2}, {.name = "@t/b", .weight = 3}}, 100);
  std::map<std::string, int> served;
  for (int i = 0; i < 100; ++i)
    for (const char* const name : {"@t/a", "@t/b", "c"}) {
      Job& job = jobs_.emplace_back();
      job.arrival = ++arrivals_ & Job::kArrivalMax;
      job.queue = &clients.join(clients.named(name), flow_);
      flow_.push(job);
    }
  EXPECT_EQ(flow_.weight(), 3);
  for (int i = 0; i < 120; ++i)
    ++served[serve(flow_)->queue->client().name];
  EXPECT_EQ(served["c"], 40);
  EXPECT_EQ(served["@t/a"], 20);
  EXPECT_EQ(served["@t/b"], 60);
  while (Job* const head = flow_.head())
    flow_.remove(*head);
  EXPECT_EQ(flow_.weight(), 1);
}

// The same bound, of tenants and clients without one, and of the clients inside each.
TEST_F(FlowTest, tenants_and_their_clients_get_their_weighted_share_but_for_one_job_each) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 30; ++round) {
    Lane lane(LaneOptions{.name = "normal"}, 0);
    Service service("echo");
    Flow& flow = lane.flow(service, 0);
    std::vector<ClientOptions> options;
    std::map<std::string, double> weight;
    const auto weigh = [&](const std::string& name) {
      options.push_back({.name = name, .weight = 1 + static_cast<std::uint32_t>(random() % 9)});
      weight[name] = options.back().weight;
    };
    std::vector<std::string> names;
    for (std::size_t tenant = 0; tenant < 3; ++tenant) {
      const std::string space = tenant == 0 ? "" : "@" + std::to_string(tenant) + "/";
      if (tenant > 0) weigh(space);
      for (std::size_t i = 0, count = 1 + random() % 5; i < count; ++i) {
        names.push_back(space + "c" + std::to_string(i));
        weigh(names.back());
      }
    }
    Clients clients(options, 100);
    std::deque<Job> jobs;
    constexpr std::uint32_t kCostMax = 5000;
    const auto submit = [&](const std::string& name) {
      Job& job = jobs.emplace_back();
      job.arrival = jobs.size() & Job::kArrivalMax;
      job.set_expected({.input_tokens = 1 + static_cast<std::uint32_t>(random() % kCostMax)});
      job.queue = &clients.join(clients.named(name), flow);
      flow.push(job);
    };
    for (const std::string& name : names)
      for (int i = 0; i < 3; ++i)
        submit(name);
    std::map<std::string, double> served;
    const auto space_in = [](const std::string& name) { return name.substr(0, name.find('/') + 1); };
    for (int step = 0; step < 3000; ++step) {
      const Job& job = *serve(flow);
      const std::string name = job.queue->client().name;
      served[name] += static_cast<double>(job.cost()) / weight[name];
      if (name[0] == '@') served[space_in(name)] += static_cast<double>(job.cost()) / weight[space_in(name)];
      submit(name);
    }
    for (const auto& [a, got] : served)
      for (const auto& [b, other] : served) {
        const bool both_outside = (a[0] != '@' || a.back() == '/') && (b[0] != '@' || b.back() == '/');
        const bool both_inside =
            a[0] == '@' && a.back() != '/' && b.back() != '/' && space_in(a) == space_in(b);
        if (!both_outside && !both_inside) continue;
        EXPECT_LE(got - other, kCostMax / weight[a] + kCostMax / weight[b] + 1)
            << a << " and " << b << " in round " << round;
      }
  }
}

TEST_F(FlowTest, a_client_that_goes_to_another_tenant_takes_what_it_has_along) {
  Clients clients({{.name = "a", .tenant = "t"}, {.name = "b", .tenant = "t"}}, 100);
  const auto submit = [&](const char* name) {
    Job& job = jobs_.emplace_back();
    job.arrival = ++arrivals_ & Job::kArrivalMax;
    job.queue = &clients.join(clients.named(name), flow_);
    flow_.push(job);
    for (Client* party = &clients.named(name); party != nullptr; party = party->tenant)
      ++party->waiting;
  };
  for (int i = 0; i < 3; ++i)
    for (const char* const name : {"a", "b", "c"})
      submit(name);
  EXPECT_EQ(clients.named("a").party().waiting, 6u);
  EXPECT_EQ(flow_.weight(), 2);

  clients.configure({{.name = "b", .tenant = "t"}, {.name = "c", .weight = 4, .tenant = "t"}});
  EXPECT_EQ(clients.named("a").party().waiting, 3u);
  EXPECT_EQ(clients.named("b").party().waiting, 6u);
  EXPECT_EQ(flow_.weight(), 2);

  clients.configure({});
  EXPECT_EQ(clients.find_party("@t/"), nullptr);
  EXPECT_EQ(flow_.weight(), 3);
  EXPECT_EQ(clients_served(flow_, 9), "abcabcabc");
}

TEST_F(FlowTest, is_found_again_by_what_its_jobs_need) {
  Service other("other");
  Flow& flow = lane_.flow(service_, 0);
  EXPECT_EQ(&lane_.flow(service_, 0), &flow);
  EXPECT_NE(&lane_.flow(service_, 1), &flow);
  EXPECT_NE(&lane_.flow(other, 0), &flow);
  Lane second(LaneOptions{.name = "batch"}, 1);
  EXPECT_NE(&second.flow(service_, 0), &flow);
}

TEST_F(FlowTest, a_group_is_ready_while_it_holds_a_job_and_its_service_has_a_free_place) {
  FlowGroup& group = flow_.group();
  Job& one = push(flow_);
  EXPECT_TRUE(lane_.ready().empty());

  service_.free_places = 1;
  lane_.update_ready(group);
  EXPECT_EQ(lane_.ready(), std::vector<FlowGroup*>{&group});

  flow_.remove(one);
  EXPECT_TRUE(lane_.ready().empty());
  push(flow_);
  EXPECT_EQ(lane_.ready().size(), 1u);
  service_.free_places = 0;
  lane_.update_ready(group);
  EXPECT_TRUE(lane_.ready().empty());
}

/// Flows of a group with costs of all sizes, some of which stand still for a while: who is first is always
/// the one that a look at all of them finds.
TEST_F(FlowTest, of_a_group_the_one_whose_turn_it_is_comes_first) {
  const bool holds = rc::check([](const std::vector<std::pair<std::uint8_t, std::uint8_t>>& steps) {
    Lane lane(LaneOptions{.name = "normal", .boost_after = std::chrono::seconds(1)}, 0);
    Service service("echo");
    Clients clients({}, 1);
    FlowGroup& group = lane.flow(service, 0).group();
    std::deque<Job> jobs;
    std::vector<Flow*> flows;
    for (BudgetSet set = 0; set < 5; ++set)
      flows.push_back(&lane.flow(service, set));
    for (const auto& [which, what] : steps) {
      Flow& flow = *flows[which % flows.size()];
      Flow* const first = group.first();
      if (what < 100) {
        Job& job = jobs.emplace_back();
        job.arrival = jobs.size() & Job::kArrivalMax;
        job.set_expected({.input_tokens = what});
        job.queue = &clients.join(clients.named(which % 2 ? "a" : "b"), flow);
        flow.push(job);
      } else if (what < 200 && first != nullptr) {
        lane.charge(*first, first->head_cost());
        serve(*first);
      } else if (Job* const head = flow.head()) {
        flow.remove(*head);  // it was cancelled
      }
      Flow *next = nullptr, *oldest = nullptr;
      for (Flow* other : flows) {
        if (other->empty()) continue;
        const auto order = [&](const Flow& s) { return std::pair(lane.turn_of(s), s.head_arrival()); };
        if (next == nullptr || order(*other) < order(*next)) next = other;
        if (oldest == nullptr || other->head()->arrival < oldest->head()->arrival) oldest = other;
        RC_ASSERT(other->head_cost() == other->head()->cost());
      }
      RC_ASSERT(group.first() == next);
      RC_ASSERT(group.oldest() == oldest);
    }
  });
  EXPECT_TRUE(holds);
}

TEST_F(FlowTest, streams_of_a_lane_take_turns_too) {
  Flow &first = lane_.flow(service_, 0), &second = lane_.flow(service_, 1);
  lane_.charge(first, 1000);
  EXPECT_GT(lane_.turn_of(first), lane_.turn_of(second));
  // A job whose tokens nobody counts counts for as much as others of late.
  std::int64_t rest = 0;
  const std::int64_t whole_job = virtual_time(1000, 1, rest);
  lane_.charge(second, std::nullopt);
  lane_.charge(second, std::nullopt);
  EXPECT_LT(lane_.turn_of(second) - lane_.turn_of(first), whole_job);
}

TEST(ClientsTest, are_forgotten_when_nobody_refers_to_them_and_bounded_while_idle) {
  Lane lane(LaneOptions{}, 0);
  Service service("s");
  Clients clients({}, 3);
  Flow& flow = lane.flow(service, 0);
  for (int i = 0; i < 100; ++i)
    clients.leave(clients.join(clients.named(std::to_string(i)), flow));
  EXPECT_EQ(clients.size(), 3u);
  ClientQueue& queue = clients.join(clients.named("99"), flow);
  EXPECT_EQ(&clients.join(clients.named("99"), flow), &queue);
  EXPECT_EQ(queue.jobs, 2u);
}

TEST(ClientsTest, options_are_of_the_name_itself_or_of_the_longest_glob) {
  Clients clients(
      {{.name = "*", .weight = 3}, {.name = "team-*", .weight = 2}, {.name = "team-x", .weight = 7}}, 3);
  EXPECT_EQ(clients.named("team-a").options.weight, 2u);
  EXPECT_EQ(clients.named("team-x").options.weight, 7u);
  EXPECT_EQ(clients.named("other").options.weight, 3u);
}

}  // namespace
}  // namespace lanemq::core
