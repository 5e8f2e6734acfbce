// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/progress_keeper.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>

#include "broker/core/broker.hpp"

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStall = seconds(10);

Options options_with_stall() {
  Options options;
  options.lanes = {
      {.name = "normal", .timeout = seconds(100'000), .is_default = true, .stall_timeout = kStall}};
  options.dead_max = 0;
  options.heartbeat = std::chrono::hours(10);
  return options;
}

/// A broker with a worker of some places, and a watch. What they hear is kept.
class ProgressKeeperTest : public testing::Test {
 protected:
  explicit ProgressKeeperTest(const Options& options = options_with_stall()) : broker_(options, 7) {
    wire::Ready ready;
    ready.services = {"s"};
    ready.capacity = 4;
    broker_.handle(WorkerReady{"w", &ready}, now_);
    wire::Watch watch;
    watch.ref = ref();
    broker_.handle(WatchAsked{{.address = "o", .envelope = {}}, &watch}, now_);
    turn();
  }

  void submit(const std::string& id, std::int64_t attempts_max = 3) {
    wire::Submit fields;
    fields.id = id;
    fields.service = "s";
    fields.attempts_max = attempts_max;
    fields.retain_ms = 0;
    broker_.handle(Submitted{{.address = "c", .envelope = {}}, &fields, {}}, now_);
    turn();
  }
  wire::Lease lease(const std::string& id) const {
    const Job& job = *broker_.jobs().find(id)->job();
    return {static_cast<std::uint64_t>(job.number), job.attempt};
  }
  void progress(const std::string& id, std::optional<std::int64_t> pct, const std::string& note = "") {
    const wire::Lease of = lease(id);
    wire::Progress fields{.job = of.job, .attempt = of.attempt, .pct = pct, .note = {}};
    if (!note.empty()) fields.note = note;
    broker_.handle(ProgressReported{"w", &fields}, now_);
    turn();
  }
  void result(wire::Lease of) {
    wire::Outcome fields;
    fields.job = of.job;
    fields.attempt = of.attempt;
    broker_.handle(OutcomeReported{"w", &fields, {}}, now_);
    turn();
  }
  /// Time goes on as for the loop, and the follower confirms all that it hears.
  void pass(Duration time) {
    for (const TimePoint end = now_ + time; true;) {
      const auto wakeup = broker_.next_wakeup();
      if (!wakeup || *wakeup > end) {
        now_ = end;
        return turn();
      }
      now_ = std::max(now_, *wakeup);
      turn();
    }
  }
  void turn() {
    broker_.advance(now_);
    Outbox& outbox = broker_.outbox();
    for (const Send& send : outbox.sends) {
      if (outbox.address(send) == "w") continue;
      wire::ClientReply reply;
      ASSERT_EQ(decoder_.decode(outbox.header(send), reply), nullptr);
      if (const auto* event = std::get_if<wire::JobEvent>(&reply)) {
        seen_ = event->seq;
        if (event->what == "progress")
          told_[std::string(event->id)].emplace_back(now_, event->pct.value_or(-1));
      }
      if (const auto* error = std::get_if<wire::ErrorReply>(&reply)) errors_.emplace_back(error->code);
    }
    outbox.clear();
    const wire::Seen seen{{}, seen_, ref()};
    broker_.handle(SeenSaid{{.address = "o", .envelope = {}}, &seen}, now_);
  }
  wire::Raw ref() {
    buffer_.clear();
    return number_ref(1, buffer_);
  }

  TimePoint now_{seconds(1000)};
  Broker broker_;
  Decoder decoder_;
  Buffer buffer_;
  std::int64_t seen_ = 0;
  std::map<std::string, std::vector<std::pair<TimePoint, std::int64_t>>> told_;
  std::vector<std::string> errors_;
};

TEST_F(ProgressKeeperTest, counts_a_word_in_the_bytes_of_its_job) {
  submit("a");
  const std::size_t before = broker_.memory_bytes();
  const std::string note(limits::progress_note_bytes_max, 'n');

  progress("a", 10, note);
  EXPECT_EQ(broker_.memory_bytes(), before + note.size());
  progress("a", 20, "n");
  EXPECT_EQ(broker_.memory_bytes(), before + 1);
  pass(kStall);
  EXPECT_EQ(broker_.stats().jobs_stalled, 1u);
  result(lease("a"));  // of the attempt that began since, at another place
  EXPECT_LT(broker_.memory_bytes(), before);
}

/// The same where memory is used up by a job.
class ProgressWithoutMemory : public ProgressKeeperTest {
 protected:
  static Options short_of_memory() {
    Options options = options_with_stall();
    options.memory_max = 1200;
    return options;
  }
  ProgressWithoutMemory() : ProgressKeeperTest(short_of_memory()) {}
};

TEST_F(ProgressWithoutMemory, a_note_beyond_memory_max_is_left_out_and_the_rest_counts) {
  submit("a", 1);
  progress("a", 10, std::string(limits::progress_note_bytes_max, 'n'));

  EXPECT_LE(broker_.memory_bytes(), 1200u);
  EXPECT_EQ(broker_.jobs().find("a")->job()->progress()->note, "");
  EXPECT_EQ(told_["a"].back().second, 10);
  pass(kStall);
  EXPECT_EQ(errors_, std::vector<std::string>{"stalled"});
}

TEST_F(ProgressKeeperTest, all_bytes_are_given_back) {
  const std::size_t before = broker_.memory_bytes();
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::string id = "j" + std::to_string(round);
    submit(id, 1 + round % 3);
    for (int word = 0; word < 3; ++word)
      progress(id, word, std::string(random() % 200, 'n'));
    const wire::Lease first = lease(id);
    if (round % 2 == 0) pass(kStall * 4);
    if (broker_.jobs().find(id) != nullptr && broker_.jobs().find(id)->job() != nullptr) result(lease(id));
    result(first);
  }
  EXPECT_EQ(broker_.memory_bytes(), before);
  EXPECT_EQ(broker_.stats().jobs_stalled, 100u);
}

TEST_F(ProgressKeeperTest, a_stall_is_an_attempt_and_no_death) {
  submit("a", 3);
  for (int attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_TRUE(errors_.empty()) << "ended before attempt " << attempt;
    progress("a", 1);
    pass(kStall - milliseconds(1));
    EXPECT_EQ(lease("a").attempt, attempt);
    pass(milliseconds(1));
  }
  EXPECT_EQ(errors_, std::vector<std::string>{"stalled"});
  EXPECT_EQ(broker_.stats().jobs_stalled, 3u);
  EXPECT_EQ(broker_.stats().jobs_requeued_worker_lost, 0u);
}

TEST_F(ProgressKeeperTest, places_of_stalled_attempts_are_taken_until_the_worker_is_done) {
  submit("a", 1);
  const wire::Lease first = lease("a");
  progress("a", 1);
  pass(kStall);
  for (int i = 0; i < 4; ++i)
    submit("b" + std::to_string(i));
  EXPECT_EQ(broker_.running(), 3u) << "of four places one is still taken";

  result(first);
  EXPECT_EQ(broker_.running(), 4u);
}

TEST_F(ProgressKeeperTest, a_changed_stall_timeout_counts_from_the_next_word_on) {
  submit("a");
  progress("a", 1);
  Options options = options_with_stall();
  options.lanes[0].stall_timeout = {};
  broker_.handle(OptionsChanged{&options}, now_);
  pass(kStall * 10);
  EXPECT_EQ(broker_.stats().jobs_stalled, 0u);

  options.lanes[0].stall_timeout = seconds(1);
  broker_.handle(OptionsChanged{&options}, now_);
  progress("a", 2);
  pass(seconds(1));
  EXPECT_EQ(broker_.stats().jobs_stalled, 1u);
}

/// Whatever workers say, a follower hears of a job at most once a second, and of the last word within one.
TEST_F(ProgressKeeperTest, tells_the_last_of_many_words_once_a_second) {
  Options options = options_with_stall();
  options.lanes[0].stall_timeout = {};
  broker_.handle(OptionsChanged{&options}, now_);
  const std::vector<std::string> ids{"a", "b", "c"};
  for (const std::string& id : ids)
    submit(id);
  std::mt19937 random(11);
  std::map<std::string, std::int64_t> last;
  for (std::int64_t word = 0; word < 3000; ++word) {
    const std::string& id = ids[random() % ids.size()];
    progress(id, last[id] = word % 101);
    pass(milliseconds(random() % 4 == 0 ? random() % 3000 : random() % 50));
  }
  pass(ProgressKeeper::kToldEvery);

  for (const std::string& id : ids) {
    const auto& told = told_[id];
    ASSERT_GT(told.size(), 100u);
    EXPECT_EQ(told.back().second, last[id]);
    for (std::size_t i = 1; i < told.size(); ++i)
      EXPECT_GE(told[i].first - told[i - 1].first, ProgressKeeper::kToldEvery);
  }
  EXPECT_EQ(broker_.stats().progress_in, 3000u);
}

}  // namespace
}  // namespace lanemq::core
