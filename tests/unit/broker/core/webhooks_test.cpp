// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/webhooks.hpp"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>

#include "broker/core/broker.hpp"

namespace lanemq::core {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

/// A broker whose jobs end when they are cancelled; the jobs that tell so wait for workers.
class WebhooksTest : public testing::Test {
 protected:
  WebhooksTest() {
    Options options = default_options();
    options.webhook_service = "hook";
    options.webhook_lane = "low";
    options.wall_ms = 1'764'111'900'123 - 1'000'000;  // 2025-11-25T23:05:00.123Z at the core's second 1000
    options.heartbeat = std::chrono::hours(1000);     // the worker says nothing but how its calls end
    options_ = options;
    start();
  }
  void start() { broker_.emplace(options_, 7); }
  void end(const std::string& id, const Identity* identity = nullptr, const std::string& url = "http://h/",
           const std::string& client = "") {
    wire::Submit fields;
    fields.id = id;
    fields.service = "none";
    fields.reply = "accepted";
    fields.notify = url;
    fields.client = client;
    fields.model = "a \"model\"\n\\";
    broker_->handle(Submitted{{.address = "client", .envelope = {}, .identity = identity}, &fields, {}},
                    now_);
    wire::Cancel cancel;
    cancel.id = id;
    broker_->handle(CancelAsked{{.address = "client", .envelope = {}}, &cancel}, now_);
  }
  /// Of the job whose id is that with the time of the end behind it; null: there is none.
  const Record* record_of(const std::string& id) {
    for (std::size_t place = 0; place < broker_->jobs().places(); ++place)
      if (const Record* const record = broker_->jobs().at(place); record != nullptr) {
        const std::string_view other = record->id();
        if (other.substr(0, other.rfind(':')) == id) return record;
      }
    return nullptr;
  }
  /// The body of a job that waits; empty: there is none.
  std::string body_of(const std::string& id) {
    const Record* const record = record_of(id);
    return record != nullptr && record->job() != nullptr ? std::string(record->job()->body().bytes()) : "";
  }

  /// A worker that calls; the jobs that it has are running.
  void begin_to_call(std::int64_t places) {
    wire::Ready fields;
    fields.services = {"hook"};
    fields.capacity = places;
    broker_->handle(WorkerReady{"w", &fields}, now_);
    broker_->advance(now_);
  }
  const Job* job(const std::string& id) {
    const Record* const record = record_of(id);
    return record != nullptr && record->result() == nullptr ? record->job() : nullptr;
  }
  bool is_called(const std::string& id) {
    const Job* const one = job(id);
    return one != nullptr && one->state == JobState::running;
  }
  /// A call ends.
  void answer(const std::string& id, bool well) {
    const Job& one = *job(id);
    const auto number = static_cast<std::uint64_t>(one.number);
    if (well) {
      const wire::Outcome fields{.job = number, .attempt = one.attempt};
      broker_->handle(OutcomeReported{"w", &fields, {}}, now_);
    } else {
      const wire::Failure fields{
          .job = number, .attempt = one.attempt, .error_class = "retry", .code = "connect"};
      broker_->handle(FailureReported{"w", &fields, {}}, now_);
    }
    broker_->advance(now_);
    broker_->outbox().clear();
  }
  /// Time passes until something happens.
  void pass() {
    now_ = std::max(now_, broker_->next_wakeup().value_or(now_));
    broker_->advance(now_);
  }

  TimePoint now_{seconds(1000)};
  Options options_;
  std::optional<Broker> broker_;
};

TEST_F(WebhooksTest, say_in_json_what_has_ended_and_when) {
  end("a");

  EXPECT_EQ(
      body_of("webhook:a"),
      R"({"type":"job.ended","timestamp":"2025-11-25T23:05:00.123Z","data":{"id":"a","state":"cancelled",)"
      R"("code":"cancelled","message":"cancelled by its client","lane":"normal","service":"none",)"
      R"("model":"a \"model\"\u000a\\","attempts":0,"queued_ms":0,"ran_ms":0}})");
  EXPECT_EQ(broker_->stats().webhooks_made, 1u);
}

TEST_F(WebhooksTest, have_ids_that_fit_whatever_the_job_is_called) {
  const std::string longest(limits::id_bytes_max, 'x');
  const Identity acme{.name = "k", .space = "@acme/", .services = {}, .lanes = {}};
  const std::string of_tenant = "@acme/" + std::string(limits::id_bytes_max - 6, 'y');
  end(longest);
  end(of_tenant, &acme);
  end("@acme/z", &acme);
  end(longest.substr(1) + 'z');

  std::vector<std::string> ids;
  for (std::size_t place = 0; place < broker_->jobs().places(); ++place)
    if (const Record* const record = broker_->jobs().at(place); record != nullptr && record->job() != nullptr)
      ids.emplace_back(record->id());
  ASSERT_EQ(ids.size(), 4u);
  for (const std::string& id : ids)
    EXPECT_LE(id.size(), limits::id_bytes_max);
  EXPECT_THAT(ids[0], StartsWith("webhook:"));
  EXPECT_THAT(ids[1], StartsWith("@acme/webhook:"));
  EXPECT_EQ(ids[2], "@acme/webhook:z:1764111900123");
  const auto without_time = [](const std::string& id) { return id.substr(0, id.rfind(':')); };
  EXPECT_NE(without_time(ids[0]), without_time(ids[3]))
      << "long ids that begin alike stay apart in one moment";
  const std::string body = body_of(ids[1].substr(0, ids[1].rfind(':')));
  EXPECT_THAT(body, HasSubstr(R"("data":{"tenant":"acme","id":)"));
  EXPECT_THAT(body, HasSubstr("\"id\":\"" + of_tenant.substr(6) + '"'));
}

TEST_F(WebhooksTest, that_are_refused_are_counted_and_told) {
  options_.webhooks_max = 3;
  start();
  for (const char* const id : {"a", "b", "c"})
    end(id);
  broker_->outbox().clear();
  end("d");

  EXPECT_EQ(broker_->stats().webhooks_made, 3u);
  EXPECT_EQ(broker_->stats().webhooks_refused, 1u);
  const auto& notices = broker_->outbox().notices;
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].kind, Notice::Kind::webhook_refused);
  EXPECT_EQ(notices[0].name, "webhook:d");
  EXPECT_EQ(notices[0].code, "bytes_full");
  EXPECT_THAT(notices[0].how, HasSubstr("webhooks_max"));
}

TEST_F(WebhooksTest, of_jobs_that_end_with_the_broker_are_refused) {
  wire::Submit fields;
  fields.id = "waits";
  fields.service = "none";
  fields.reply = "accepted";
  fields.notify = "http://h/";
  broker_->handle(Submitted{{.address = "client", .envelope = {}}, &fields, {}}, now_);
  broker_->handle(DrainAsked{}, now_);

  EXPECT_EQ(broker_->stats().webhooks_refused, 1u);
  EXPECT_EQ(record_of("webhook:waits"), nullptr);
}

TEST_F(WebhooksTest, of_receivers_that_are_away_are_tried_for_a_day_and_longer) {
  options_.breaker = false;
  start();
  std::vector<std::string> ids;
  for (int n = 0; n < 40; ++n) {  // more than may be tried again of another service
    end("a" + std::to_string(n));
    ids.push_back("webhook:a" + std::to_string(n));
  }
  begin_to_call(100);
  const TimePoint began = now_;
  std::vector<Duration> reached(ids.size());
  std::vector<int> attempts(ids.size());

  for (bool waits = true; waits; waits ? pass() : void()) {
    waits = false;
    for (std::size_t n = 0; n < ids.size(); ++n) {
      if (!is_called(ids[n])) {
        waits = waits || job(ids[n]) != nullptr;
        continue;
      }
      reached[n] = now_ - began;
      ++attempts[n];
      answer(ids[n], false);
      waits = waits || job(ids[n]) != nullptr;
      EXPECT_FALSE(is_called(ids[n])) << "no place is held while it waits";
    }
  }

  for (std::size_t n = 0; n < ids.size(); ++n) {
    EXPECT_EQ(attempts[n], options_.webhook_attempts_max);
    EXPECT_GE(reached[n], std::chrono::hours(24));
    EXPECT_LE(reached[n], std::chrono::hours(72));
  }
  EXPECT_EQ(broker_->stats().jobs_failed_retry_budget, 0u);
}

TEST_F(WebhooksTest, that_wait_take_no_room_of_their_lane_or_of_their_client) {
  options_.clients.push_back({.name = "team", .depth_max = 2, .lane_max = "batch"});
  options_.lanes[3].depth_max = 3;
  start();
  wire::Submit fields;
  fields.service = "none";
  fields.lane = "batch";
  fields.reply = "accepted";
  fields.client = "team";
  fields.notify = "http://h/";
  for (const char* const id : {"1", "2", "3", "4", "5"}) {
    fields.id = id;
    broker_->handle(Submitted{{.address = "client", .envelope = {}}, &fields, {}}, now_);
    wire::Cancel cancel;
    cancel.id = id;
    broker_->handle(CancelAsked{{.address = "client", .envelope = {}}, &cancel}, now_);
  }

  // `low`, where they wait, is above the client's lane_max: it submits nothing there, and is told all the
  // same.
  EXPECT_EQ(broker_->stats().webhooks_made, 5u);
  EXPECT_EQ(broker_->stats().webhooks_refused, 0u);
  const Lane& low = *broker_->lanes()[3];
  EXPECT_EQ(low.depth(), 5u);
  EXPECT_EQ(low.bounded_depth(), 0u);
  fields.client = {};
  fields.lane = "low";
  for (const char* const id : {"6", "7", "8", "9"}) {
    fields.id = id;
    broker_->handle(Submitted{{.address = "client", .envelope = {}}, &fields, {}}, now_);
  }
  EXPECT_EQ(low.bounded_depth(), 3u);
  EXPECT_NE(job("8"), nullptr);
  EXPECT_EQ(job("9"), nullptr);
}

TEST_F(WebhooksTest, of_one_client_leave_the_last_part_of_their_bound_to_others) {
  options_.webhooks_max = 100;
  options_.client_share = 250;
  start();
  for (int n = 0; n < 120; ++n)
    end("a" + std::to_string(n), nullptr, "http://h/", "many");
  EXPECT_EQ(broker_->stats().webhooks_made, 75u);

  end("b", nullptr, "http://h/", "few");

  EXPECT_EQ(broker_->stats().webhooks_made, 76u);
}

TEST_F(WebhooksTest, a_receiver_that_fails_is_left_alone_and_no_other_is) {
  for (int n = 0; n < 6; ++n)
    end("dead" + std::to_string(n), nullptr, "https://Dead.example/hook");
  begin_to_call(100);
  ASSERT_TRUE(is_called("webhook:dead0"));
  EXPECT_EQ(job("webhook:dead0")->text.get(JobText::model), "dead.example:443");
  for (int n = 0; n < 6; ++n)
    answer("webhook:dead" + std::to_string(n), false);

  end("dead-too", nullptr, "https://dead.example/other", "somebody");
  end("well", nullptr, "https://well.example/");
  broker_->advance(now_);

  EXPECT_FALSE(is_called("webhook:dead-too"));
  EXPECT_TRUE(is_called("webhook:well"));
  answer("webhook:well", true);
  // It is tried, and is called again when it answers.
  while (!is_called("webhook:dead-too") && now_ < TimePoint(seconds(1100)))
    pass();
  ASSERT_TRUE(is_called("webhook:dead-too"));
  answer("webhook:dead-too", true);
}

TEST_F(WebhooksTest, neighbours_whose_receivers_all_fail_keep_nobody_from_being_called) {
  begin_to_call(100'000);
  int number = 0;
  for (int round = 0; round < 6; ++round)
    for (int host = 0; host < 500; ++host) {
      const std::string id = "n" + std::to_string(number++);
      end(id, nullptr, "http://h" + std::to_string(host % 100) + ".example/",
          "neighbour-" + std::to_string(host % 10));
      broker_->advance(now_);
      if (is_called("webhook:" + id)) answer("webhook:" + id, false);
    }
  const auto& services = broker_->workers().services();
  const Service& hook = *services.find("hook")->second;
  EXPECT_TRUE(hook.breaker.closed());
  EXPECT_LE(hook.failed_models.size(), Service::kFailedReceiversMax);

  end("mine", nullptr, "https://well.example/", "me");
  broker_->advance(now_);

  EXPECT_TRUE(is_called("webhook:mine"));
}

TEST_F(WebhooksTest, name_receivers_of_any_length_by_a_model_that_fits) {
  const std::string label(60, 'x');
  const std::string host = label + '.' + label + '.' + label;
  end("long", nullptr, "https://a." + host + "/");
  end("longer", nullptr, "https://b." + host + "/");

  const auto model_of = [&](const char* id) { return std::string(job(id)->text.get(JobText::model)); };
  EXPECT_EQ(model_of("webhook:long").size(), limits::name_bytes_max);
  EXPECT_THAT(model_of("webhook:long"), StartsWith("a." + label));
  EXPECT_NE(model_of("webhook:long").substr(100), model_of("webhook:longer").substr(100));
}

}  // namespace
}  // namespace lanemq::core
