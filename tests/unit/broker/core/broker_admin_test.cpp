// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "broker/core/broker.hpp"
#include "broker/core/desks/document_page.hpp"

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;

constexpr const char* kLanes[] = {"high", "normal", "low"};
constexpr const char* kServices[] = {"s0", "s1"};
constexpr const char* kClients[] = {"c0", "c1", "c2"};

Options options_with_budgets() {
  Options options;
  options.lanes = {{.name = "high", .share_min = 0, .boost_after = {}},
                   {.name = "normal", .is_default = true, .share_min = 100},
                   {.name = "low", .share_min = 50, .boost_after = std::chrono::seconds(1)}};
  BudgetOptions of_low, of_s1;
  of_low.name = "b";
  of_low.lane = "low";
  of_low.concurrency = 2;
  of_s1.name = "t";
  of_s1.service = "s1";
  of_s1.concurrency = 3;
  options.budgets = {of_low, of_s1};
  options.clients = {{.name = "c1", .weight = 3, .in_flight_max = 2}};
  options.breaker = false;
  return options;
}

/// A broker, a worker that serves all, and an operator who does anything at any time.
class Disorder {
 public:
  explicit Disorder(unsigned seed) : random_(seed), broker_(options_with_budgets(), seed) {
    wire::Ready ready;
    ready.services = {kServices[0], kServices[1]};
    ready.capacity = 5;
    broker_.handle(WorkerReady{"w", &ready}, now_);
  }

  void submit() {
    const std::string id = "j" + std::to_string(submitted_++);
    wire::Submit fields;
    fields.id = id;
    fields.service = any(kServices);
    fields.lane = any(kLanes);
    fields.client = any(kClients);
    broker_.handle(Submitted{{.address = "c", .envelope = {}}, &fields, {}}, now_);
  }
  void move() {
    if (submitted_ == 0) return;
    const std::string id = "j" + std::to_string(random_() % submitted_);
    wire::AdminQuery fields;
    fields.verb = "move";
    fields.id = id;
    fields.lane = any(kLanes);
    ask(fields);
  }
  void pause_or_resume(bool pause) {
    static constexpr std::pair<const char*, const char*> kThings[] = {
        {"lane", "high"}, {"lane", "low"}, {"service", "s0"}, {"service", "s1"}, {"client", "c0"},
        {"client", "c1"}, {"budget", "b"}, {"budget", "t"},   {"client", "new"}, {"lane", "normal"}};
    const auto& [what, name] = kThings[random_() % std::size(kThings)];
    if (pause)
      say(what, name, "pause");
    else
      say(what, name, "resume");
  }
  void drain_or_resume() { random_() % 2 == 0 ? say({}, "", "drain") : say("worker", "", "resume"); }
  void resume_all() {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& [key, pause] : broker_.pauses().all())
      all.emplace_back(name_of(pause.kind), pause.name);
    for (const auto& [what, name] : all)
      say(what, name, "resume");
    say("worker", "", "resume");
  }
  /// The worker ends a job that it holds, or gives it back for another attempt.
  void end_one() {
    if (held_.empty()) return;
    const auto job = std::next(held_.begin(), static_cast<std::ptrdiff_t>(random_() % held_.size()));
    const auto [number, attempt] = *job;
    held_.erase(job);
    if (random_() % 4 == 0) {
      wire::Failure fields;
      fields.job = number;
      fields.attempt = attempt;
      fields.error_class = "released";
      broker_.handle(FailureReported{"w", &fields, {}}, now_);
    } else {
      wire::Outcome fields;
      fields.job = number;
      fields.attempt = attempt;
      broker_.handle(OutcomeReported{"w", &fields, {}}, now_);
    }
  }
  void turn() {
    now_ += milliseconds(7);
    broker_.handle(WorkerHeard{"w"}, now_);
    broker_.advance(now_);
    for (const Send& send : broker_.outbox().sends) {
      const std::string_view header = broker_.outbox().header(send);
      if (send.peer == Peer::worker) {
        wire::WorkerCommand command;
        ASSERT_EQ(decoder_.decode(header, command), nullptr);
        if (const auto* offer = std::get_if<wire::JobOffer>(&command)) take(*offer);
      } else {
        wire::ClientReply reply;
        ASSERT_EQ(decoder_.decode(header, reply), nullptr);
        if (std::holds_alternative<wire::JobResult>(reply)) ++answered_;
      }
    }
    broker_.outbox().clear();
  }
  std::size_t submitted() const { return submitted_; }
  std::size_t answered() const { return answered_; }
  unsigned chance(unsigned of) { return static_cast<unsigned>(random_() % of); }
  const Broker& broker() const { return broker_; }

 private:
  template <std::size_t n>
  const char* any(const char* const (&names)[n]) {
    return names[random_() % n];
  }
  void ask(const wire::AdminQuery& fields) {
    broker_.handle(AdminAsked{{.address = "o", .envelope = {}, .peer = Peer::admin}, &fields}, now_);
  }
  /// Of the worker where no name is given.
  void say(std::string_view what, std::string_view name, std::string_view verb) {
    wire::AdminQuery fields;
    fields.verb = verb;
    if (!what.empty()) fields.what = what;
    const std::string session = broker_.workers().find("w")->session;
    fields.name = name.empty() ? std::string_view(session) : name;
    ask(fields);
  }
  /// What is paused is not handed over, whatever else is going on.
  void take(const wire::JobOffer& offer) {
    held_.emplace(offer.job, offer.attempt);
    const Job& job = *broker_.jobs().find(JobNumber{offer.job})->job();
    const Flow& flow = job.flow();
    EXPECT_FALSE(flow.lane().paused || flow.service().paused || job.queue->client().paused ||
                 broker_.budgets().paused(flow.budgets()))
        << offer.id;
    EXPECT_FALSE(broker_.workers().find("w")->draining);
    EXPECT_EQ(broker_.budgets().of(flow.budgets()).size(),
              std::size_t{flow.lane().options().name == "low"} + std::size_t{flow.service().name == "s1"});
  }

  std::mt19937 random_;
  Broker broker_;
  TimePoint now_{};
  Decoder decoder_;
  std::set<std::pair<std::uint64_t, std::int64_t>> held_;
  std::size_t submitted_ = 0, answered_ = 0;
};

TEST(BrokerAdmin, whatever_is_paused_and_moved_each_job_ends_once_and_nothing_is_left_behind) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Disorder world(seed);
    for (int step = 0; step < 400; ++step) {
      switch (world.chance(8)) {
        case 0:
        case 1:
        case 2:
          world.submit();
          break;
        case 3:
          world.move();
          break;
        case 4:
          world.pause_or_resume(world.chance(2) == 0);
          break;
        case 5:
          if (world.chance(8) == 0) world.drain_or_resume();
          break;
        default:
          world.end_one();
      }
      if (world.chance(2) == 0) world.turn();
    }
    world.resume_all();
    for (int step = 0; step < 3000 && world.answered() < world.submitted(); ++step) {
      world.end_one();
      world.turn();
    }

    EXPECT_EQ(world.answered(), world.submitted());
    EXPECT_TRUE(world.broker().pauses().empty());
    EXPECT_EQ(world.broker().running(), 0u);
    for (const auto& lane : world.broker().lanes())
      EXPECT_EQ(lane->depth() + lane->bytes, 0u) << lane->options().name;
    const auto& clients = world.broker().clients().all();
    for (const Client* client = clients.front(); client != nullptr; client = clients.next(*client)) {
      EXPECT_EQ(client->waiting + client->running, 0u) << client->name;
      for (const auto& queue : client->queues)
        EXPECT_EQ(queue->jobs, 0u) << client->name;
      EXPECT_NE(client->name, "new");  // was known only while it was paused
    }
  }
}

TEST(BrokerAdmin, a_page_of_the_largest_budgets_and_keys_fits_an_answer) {
  constexpr std::size_t kBudgets = 8, kKeys = 5;
  constexpr std::int64_t kMost = 1'000'000'000;
  std::vector<RateOptions> all_limits;
  for (const RateKind& kind : rate_kinds())
    all_limits.push_back({std::string(kind.name), kMost, kind.period, kMost / 2, kind.resource});
  const std::string longest(limits::name_bytes_max - 1, 'n');
  Options options = options_with_budgets();
  options.budgets.clear();
  for (std::size_t i = 0; i < kBudgets; ++i) {
    BudgetOptions& budget = options.budgets.emplace_back();
    budget.name = longest + static_cast<char>('a' + i);
    budget.service = budget.model = budget.client = budget.lane = longest + "*";
    budget.rates = all_limits;
    budget.concurrency = kMost;
    for (std::size_t k = 0; k < kKeys; ++k)
      budget.keys.push_back({.name = longest + static_cast<char>('a' + k),
                             .quota_group = longest + static_cast<char>('A' + k),
                             .weight = KeyOptions::kWeightMax,
                             .rates = all_limits,
                             .concurrency = kMost});
  }
  Broker broker(options, 1);
  Decoder decoder;
  std::size_t largest = 0;
  wire::AdminQuery query;
  query.verb = "budgets";
  query.limit = static_cast<std::int64_t>(limits::page_rows_max);

  for (std::size_t from = 0; from < kBudgets * (1 + kKeys); ++from) {
    query.from = static_cast<std::int64_t>(from);
    broker.handle(AdminAsked{{.address = "o", .envelope = {}, .peer = Peer::admin}, &query}, TimePoint{});
    ASSERT_EQ(broker.outbox().sends.size(), 1u);
    const std::string_view header = broker.outbox().header(broker.outbox().sends[0]);
    largest = std::max(largest, header.size());
    wire::ClientReply reply;
    ASSERT_EQ(decoder.decode(header, reply), nullptr) << header.size() << " bytes";
    EXPECT_TRUE(std::holds_alternative<wire::AdminReply>(reply));
    broker.outbox().clear();
  }

  EXPECT_LE(largest, limits::header_bytes_max);
  EXPECT_GT(largest, DocumentPage::kBytesMax);  // pages were full
}

}  // namespace
}  // namespace lanemq::core
