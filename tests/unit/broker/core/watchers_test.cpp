// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/watchers.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>

#include "broker/core/broker.hpp"

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kWindow = static_cast<std::int64_t>(limits::watch_events_max);

Options options_on_disk() {
  Options options = default_options();
  options.store_durable = true;
  options.dead_max = 0;
  return options;
}

/// A broker with one watch by ref 1, of a client that reads nothing unless the test says so.
class WatchersTest : public testing::Test {
 protected:
  WatchersTest() { watch(); }

  void watch(std::string_view group = {}) {
    wire::Watch fields;
    fields.group = group;
    fields.ref = ref();
    broker_.handle(WatchAsked{{.address = "follower", .envelope = {}}, &fields}, now_);
  }
  void seen(std::int64_t seq) {
    const wire::Seen fields{{}, seq, ref()};
    broker_.handle(SeenSaid{{.address = "follower", .envelope = {}}, &fields}, now_);
  }
  /// A job that is accepted, and one event for it.
  void accept(std::string_view group = {}, std::optional<std::int64_t> timeout_ms = {}) {
    const std::string id = "j" + std::to_string(accepted_++);
    wire::Submit fields;
    fields.group = group;
    fields.timeout_ms = timeout_ms;
    fields.id = id;
    fields.service = "none";
    fields.reply = "accepted";
    broker_.handle(Submitted{{.address = "client", .envelope = {}}, &fields, {}}, now_);
  }
  void pass(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ += milliseconds(500);
      broker_.advance(now_);
    }
  }
  /// What the follower was sent since the last call.
  std::vector<wire::JobEvent> take() {
    std::vector<wire::JobEvent> events;
    refused_.clear();
    Outbox& outbox = broker_.outbox();
    for (const Send& send : outbox.sends) {
      if (outbox.address(send) != "follower") continue;
      wire::ClientReply reply;
      EXPECT_EQ(decoder_.decode(outbox.header(send), reply), nullptr);
      if (const auto* event = std::get_if<wire::JobEvent>(&reply)) {
        events.push_back(*event);
        EXPECT_TRUE(send.waits) << "an event that is told before it is on disk";
      }
      if (const auto* error = std::get_if<wire::ErrorReply>(&reply)) refused_ = error->code;
    }
    outbox.clear();
    return events;
  }

  wire::Raw ref() {
    buffer_.clear();
    return number_ref(1, buffer_);
  }

  TimePoint now_{seconds(1000)};
  Broker broker_{options_on_disk(), 7};
  Decoder decoder_;
  Buffer buffer_;
  std::int64_t accepted_ = 0;
  std::string refused_;
};

TEST_F(WatchersTest, leave_out_what_is_beyond_the_window_and_say_how_much) {
  for (std::int64_t i = 0; i < kWindow + 10; ++i)
    accept();
  EXPECT_EQ(take().size(), limits::watch_events_max);
  EXPECT_EQ(broker_.stats().events_left_out, 10u);

  seen(0);  // room for one
  accept();
  accept();
  std::vector<wire::JobEvent> events = take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].seq, kWindow);
  EXPECT_TRUE(events[0].gap);
  EXPECT_EQ(events[0].left_out, 10);

  seen(kWindow + 1000);  // more than was sent counts as all of it
  for (std::int64_t i = 0; i < kWindow + 1; ++i)
    accept();
  events = take();
  ASSERT_EQ(events.size(), limits::watch_events_max);
  EXPECT_EQ(events[0].left_out, 1);
  EXPECT_FALSE(events[1].gap);
}

TEST_F(WatchersTest, tell_that_a_group_is_over_when_there_is_room_since_nothing_may_follow) {
  watch("g");
  for (std::int64_t i = 0; i < kWindow; ++i)
    accept("g", 1000);
  pass(seconds(2));  // all ends are beyond the window, and that of the group
  EXPECT_EQ(take().size(), static_cast<std::size_t>(kWindow));
  seen(kWindow - 1);
  const auto events = take();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].what, "group_over");
  EXPECT_EQ(events[0].expired, kWindow);
  EXPECT_TRUE(events[0].gap);
  EXPECT_EQ(events[0].left_out, kWindow);
  seen(kWindow);
  EXPECT_TRUE(take().empty()) << "once";
}

TEST_F(WatchersTest, let_go_of_who_is_silent) {
  pass(Watchers::kSilenceMax - seconds(1));
  take();
  EXPECT_EQ(refused_, "");

  pass(seconds(2));
  take();
  EXPECT_EQ(refused_, "slow_reader");
  accept();
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(broker_.stats().watchers_let_go, 1u);
}

TEST_F(WatchersTest, count_no_silence_while_nothing_can_leave) {
  broker_.handle(StoreStalled{true}, now_);
  pass(3 * Watchers::kSilenceMax);
  broker_.handle(StoreStalled{false}, now_);
  pass(Watchers::kSilenceMax - seconds(1));
  take();
  EXPECT_EQ(refused_, "");

  now_ += seconds(100);
  broker_.handle(StoodStill{seconds(100)}, now_);
  broker_.advance(now_);
  take();
  EXPECT_EQ(refused_, "");

  watch();
  pass(Watchers::kSilenceMax - seconds(1));
  take();
  EXPECT_EQ(refused_, "");
}

/// A broker, a worker that does anything, and an operator who follows all: what the events say of a job is
/// what its status says.
class Followed {
 public:
  explicit Followed(unsigned seed) : random_(seed), broker_(options(), seed) {
    wire::Watch fields;
    Buffer ref;
    fields.ref = number_ref(1, ref);
    broker_.handle(WatchAsked{{.address = "o", .envelope = {}, .peer = Peer::admin}, &fields}, now_);
    ready();
  }

  void step() {
    switch (random_() % 12) {
      case 0:
      case 1:
      case 2:
      case 3:
        return submit();
      case 4:
        return cancel();
      case 5:
        return move();
      case 6:
        return leave();
      default:
        return end_one();
    }
  }
  void turn() {
    now_ += milliseconds(random_() % 20);
    broker_.handle(WorkerHeard{"w"}, now_);
    broker_.advance(now_);
    take();
    compare(random_() % std::max<std::size_t>(submitted_, 1));
  }
  void compare_all() {
    for (std::size_t i = 0; i < submitted_; ++i)
      compare(i);
  }
  std::size_t events() const { return static_cast<std::size_t>(next_); }
  const std::set<std::string>& whats() const { return whats_; }

 private:
  struct Known {
    std::string state, lane;
    std::int64_t attempts = 0;
    bool ended = false;
  };

  static Options options() {
    Options options = default_options();
    options.backoff_base = milliseconds(20);
    return options;
  }
  void ready() {
    held_.clear();
    wire::Ready fields;
    fields.services = {"echo"};
    fields.capacity = 6;
    broker_.handle(WorkerReady{"w", &fields}, now_);
  }
  std::string any_job() { return "j" + std::to_string(random_() % std::max<std::size_t>(submitted_, 1)); }
  void submit() {
    const std::string id = "j" + std::to_string(submitted_++);
    wire::Submit fields;
    fields.id = id;
    fields.service = random_() % 8 == 0 ? "none" : "echo";
    fields.reply = "accepted";
    if (random_() % 4 == 0) fields.delay_ms = 15;
    if (random_() % 8 == 0) fields.timeout_ms = 40;
    broker_.handle(Submitted{{.address = "c", .envelope = {}}, &fields, {}}, now_);
  }
  void cancel() {
    const std::string id = any_job();
    const wire::Cancel fields{id, {}};
    broker_.handle(CancelAsked{{.address = "c", .envelope = {}}, &fields}, now_);
  }
  void move() {
    const std::string id = any_job();
    wire::AdminQuery fields;
    fields.verb = random_() % 3 == 0 ? "redrive" : "move";
    fields.id = id;
    if (fields.verb == "move") fields.lane = random_() % 2 == 0 ? "high" : "normal";
    broker_.handle(AdminAsked{{.address = "o", .envelope = {}, .peer = Peer::admin}, &fields}, now_);
  }
  /// The worker dies, or goes, and another comes.
  void leave() {
    if (random_() % 4 != 0) return;
    if (random_() % 2 == 0)
      broker_.handle(WorkerLeaving{"w"}, now_);
    else
      broker_.handle(WorkerUnreachable{"w"}, now_);
    ready();
  }
  void end_one() {
    static constexpr const char* kClasses[] = {"retry", "limited", "released", "permanent", "overloaded"};
    if (held_.empty()) return;
    const auto lease = std::next(held_.begin(), static_cast<std::ptrdiff_t>(random_() % held_.size()));
    const auto [number, attempt] = *lease;
    held_.erase(lease);
    if (random_() % 2 == 0) {
      wire::Outcome fields;
      fields.job = number;
      fields.attempt = attempt;
      return broker_.handle(OutcomeReported{"w", &fields, {}}, now_);
    }
    wire::Failure fields;
    fields.job = number;
    fields.attempt = attempt;
    fields.error_class = kClasses[random_() % std::size(kClasses)];
    fields.retry_after_ms = 10;
    broker_.handle(FailureReported{"w", &fields, {}}, now_);
  }

  void take() {
    for (const Send& send : broker_.outbox().sends) {
      const std::string_view header = broker_.outbox().header(send);
      if (send.peer == Peer::worker) {
        wire::WorkerCommand command;
        ASSERT_EQ(decoder_.decode(header, command), nullptr);
        if (const auto* offer = std::get_if<wire::JobOffer>(&command))
          held_.emplace(offer->job, offer->attempt);
        continue;
      }
      wire::ClientReply reply;
      ASSERT_EQ(decoder_.decode(header, reply), nullptr);
      if (const auto* event = std::get_if<wire::JobEvent>(&reply)) note(*event);
    }
    broker_.outbox().clear();
    Buffer ref;
    const wire::Seen fields{{}, std::max<std::int64_t>(next_ - 1, 0), number_ref(1, ref)};
    broker_.handle(SeenSaid{{.address = "o", .envelope = {}, .peer = Peer::admin}, &fields}, now_);
  }
  void note(const wire::JobEvent& event) {
    EXPECT_EQ(event.seq, next_++);
    EXPECT_FALSE(event.gap);
    whats_.emplace(event.what);
    Known& known = known_[std::string(event.id)];
    EXPECT_EQ(known.ended, event.what == "redriven") << event.id << " " << event.what;
    EXPECT_EQ(known.state.empty(), event.what == "accepted") << event.id << " " << event.what;
    EXPECT_EQ(event.delay_ms.has_value(), event.state == "delayed") << event.id << " " << event.what;
    known = {.state = std::string(event.state),
             .lane = std::string(event.lane),
             .attempts = event.attempts,
             .ended = event.what == "ended"};
  }
  void compare(std::size_t job) {
    const std::string id = "j" + std::to_string(job);
    const auto known = known_.find(id);
    const wire::StatusQuery fields{id, {}, {}};
    broker_.handle(StatusAsked{{.address = "s", .envelope = {}}, &fields}, now_);
    wire::ClientReply reply;
    ASSERT_EQ(decoder_.decode(broker_.outbox().header(broker_.outbox().sends.back()), reply), nullptr);
    const auto& status = std::get<wire::StatusReply>(reply);
    EXPECT_EQ(status.state, known == known_.end() ? "unknown" : known->second.state) << id;
    if (known != known_.end()) {
      EXPECT_EQ(status.attempts, known->second.attempts) << id;
      EXPECT_EQ(status.lane.empty() ? "normal" : status.lane, known->second.lane) << id;
    }
    broker_.outbox().clear();
  }

  std::mt19937 random_;
  Broker broker_;
  TimePoint now_{seconds(1000)};
  Decoder decoder_;
  std::set<std::pair<std::uint64_t, std::int64_t>> held_;
  std::map<std::string, Known> known_;
  std::set<std::string> whats_;
  std::size_t submitted_ = 0;
  std::int64_t next_ = 0;
};

TEST(Watchers, tell_what_the_status_says_whatever_happens) {
  std::set<std::string> whats;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Followed world(seed);
    for (int step = 0; step < 600; ++step) {
      world.step();
      if (step % 2 == 0) world.turn();
      if (testing::Test::HasFailure()) return;
    }
    world.turn();
    world.compare_all();
    EXPECT_GT(world.events(), 250u);
    whats.insert(world.whats().begin(), world.whats().end());
  }
  EXPECT_EQ(whats, (std::set<std::string>{"accepted", "ended", "moved", "queued", "redriven", "requeued",
                                          "started"}));
}

}  // namespace
}  // namespace lanemq::core
