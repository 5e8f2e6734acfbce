// SPDX-License-Identifier: Apache-2.0
#include "worker/metrics/call_figures.hpp"

#include <chrono>
#include <memory>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "worker/metrics/metrics_text.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

/// Keeps what it is told.
struct Listener final : CallWatcher {
  std::string began(const JobCall& job) override {
    heard += "began " + std::string(job.service) + "\n";
    return "00-trace";
  }
  void streams(wire::Lease, TimePoint) override { heard += "streams\n"; }
  void ended(wire::Lease, const CallEnd& end, TimePoint) override {
    heard += "ended " + std::string(end.failure) + "\n";
  }
  std::string heard;
};

class CallFiguresTest : public ::testing::Test {
 protected:
  TimePoint at(int ms) const { return TimePoint{} + milliseconds(ms); }
  wire::Lease begin(std::string_view service, int ms) {
    const wire::Lease lease{.job = ++job_, .attempt = 1};
    figures_.began({.lease = lease, .service = service, .now = at(ms)});
    return lease;
  }
  ServiceFigures of(std::size_t service) const { return figures_.now().at(service); }

  std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  CallFigures figures_{{"chat", "embed"}, listener_};
  std::uint64_t job_ = 0;
};

TEST_F(CallFiguresTest, EachServiceHasItsOwn) {
  const wire::Lease one = begin("chat", 0), two = begin("embed", 0);
  begin("chat", 5);
  figures_.ended(one, {}, at(20));
  figures_.ended(two, {.failure = "upstream_503", .upstream_status = 503}, at(20));
  EXPECT_EQ(of(0).started, 2U);
  EXPECT_EQ(of(0).running, 1U);
  EXPECT_EQ(of(0).succeeded, 1U);
  EXPECT_TRUE(of(0).failed.empty());
  EXPECT_EQ(of(1).running, 0U);
  EXPECT_EQ(of(1).succeeded, 0U);
  EXPECT_EQ(of(1).failed.at("upstream_503"), 1U);
  EXPECT_EQ(of(1).statuses.at("503"), 1U);
}

TEST_F(CallFiguresTest, DurationsAreThoseOfTheCall) {
  const wire::Lease lease = begin("chat", 1000);
  figures_.streams(lease, at(1100));
  figures_.streams(lease, at(1900));
  figures_.ended(lease, {}, at(3000));
  const ServiceFigures chat = of(0);
  EXPECT_DOUBLE_EQ(chat.first_pieces.sum, 0.1);
  EXPECT_DOUBLE_EQ(chat.calls.sum, 2.0);
  // The bounds are inclusive, as Prometheus has it: 0.1 s is at most 0.1 s, and 2 s at most 2.5 s.
  EXPECT_EQ(chat.first_pieces.counts[4], 1U);
  EXPECT_EQ(chat.calls.counts[8], 1U);
  EXPECT_EQ(std::accumulate(chat.calls.counts.begin(), chat.calls.counts.end(), std::uint64_t{0}), 1U);
}

TEST_F(CallFiguresTest, TokensThatNoUpstreamCanMeanTakeNothingBack) {
  const wire::Lease one = begin("chat", 0), two = begin("chat", 0);
  figures_.ended(one, {.usage = wire::Usage{.input_tokens = 7, .output_tokens = 3}}, at(1));
  figures_.ended(two, {.usage = wire::Usage{.input_tokens = -5}}, at(1));
  EXPECT_EQ(of(0).input_tokens, 7U);
  EXPECT_EQ(of(0).output_tokens, 3U);
}

TEST_F(CallFiguresTest, CodesWithoutEndMakeNoSeriesWithoutEnd) {
  for (int i = 0; i < 1000; ++i) {
    const std::string code = "made_up_" + std::to_string(i);
    figures_.ended(begin("chat", 0), {.failure = code, .upstream_status = i}, at(1));
  }
  const ServiceFigures chat = of(0);
  EXPECT_EQ(chat.failed.size(), 17U);
  EXPECT_EQ(chat.failed.at("other"), 1000U - 16U);
  EXPECT_EQ(chat.statuses.size(), 17U);
}

TEST_F(CallFiguresTest, AnUnknownCallIsNone) {
  figures_.streams({.job = 99, .attempt = 1}, at(1));
  figures_.ended({.job = 99, .attempt = 1}, {}, at(2));
  figures_.began({.lease = {.job = 100, .attempt = 1}, .service = "nobody", .now = at(0)});
  figures_.ended({.job = 100, .attempt = 1}, {}, at(2));
  EXPECT_EQ(of(0).succeeded + of(1).succeeded, 0U);
}

TEST_F(CallFiguresTest, WhoListensHearsTheSame) {
  EXPECT_EQ(figures_.began({.lease = {.job = 1, .attempt = 1}, .service = "chat", .now = at(0)}), "00-trace");
  figures_.streams({.job = 1, .attempt = 1}, at(1));
  figures_.ended({.job = 1, .attempt = 1}, {.failure = "gone"}, at(2));
  EXPECT_EQ(listener_->heard, "began chat\nstreams\nended gone\n");
}

TEST(WorkerMetricsText, NamesOfServicesAreQuoted) {
  ServiceFigures service{.name = "a\"b\nc"};
  service.failed["x\\y"] = 2;
  const std::string text = metrics_text({.capacity = 3, .services = {service}});
  EXPECT_NE(text.find("lanemq_worker_capacity 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find(R"(lanemq_worker_calls_failed_total{service="a\"b\\x0ac",code="x\\y"} 2)"),
            std::string::npos)
      << text;
}

TEST(WorkerMetricsText, ShardsAreToldApart) {
  WorkerFigures figures{.capacity = 4};
  figures.beat.running = 3;
  figures.beat.shards = {{.name = "a", .connected = true, .capacity = 1, .running = 1},
                         {.name = "b", .connected = false, .capacity = 3, .running = 2}};

  const std::string text = metrics_text(figures);

  for (const char* line :
       {"lanemq_worker_capacity{shard=\"a\"} 1\n", "lanemq_worker_capacity{shard=\"b\"} 3\n",
        "lanemq_worker_jobs_running{shard=\"b\"} 2\n", "lanemq_worker_connected{shard=\"b\"} 0\n",
        "lanemq_worker_welcomes_total 0\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(text.find("lanemq_worker_capacity 4"), std::string::npos);
}

}  // namespace
}  // namespace lanemq::worker
