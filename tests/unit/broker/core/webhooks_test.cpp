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

TEST(Webhooks, take_what_can_be_a_url_and_nothing_else) {
  for (const std::string_view good :
       {"http://h", "https://example.com/a?b=c#d", "http://[::1]:80/", "http://user:word@h/"})
    EXPECT_TRUE(Webhooks::is_url(good)) << good;
  for (const std::string_view bad :
       {"", "h", "http://", "http:///path", "https://?x", "ftp://h", "HTTP://h", "http://h /", "http://h\n",
        "http://\xc3\xa4", "file:///etc/passwd", "http://:80/", "http://@h/", "javascript:alert(1)"})
    EXPECT_FALSE(Webhooks::is_url(bad)) << bad;
}

/// A broker whose jobs end when they are cancelled; the jobs that tell so wait for workers.
class WebhooksTest : public testing::Test {
 protected:
  WebhooksTest() {
    Options options = default_options();
    options.webhook_service = "hook";
    options.webhook_lane = "low";
    options.wall_ms = 1'764'111'900'123 - 1'000'000;  // 2025-11-25T23:05:00.123Z at the core's second 1000
    options.lanes[3].depth_max = 3;
    broker_.emplace(options, 7);
  }
  void end(const std::string& id, const Identity* identity = nullptr) {
    wire::Submit fields;
    fields.id = id;
    fields.service = "none";
    fields.reply = "accepted";
    fields.notify = "http://h/";
    fields.model = "a \"model\"\n\\";
    broker_->handle(Submitted{{.address = "client", .envelope = {}, .identity = identity}, &fields, {}},
                    now_);
    wire::Cancel cancel;
    cancel.id = id;
    broker_->handle(CancelAsked{{.address = "client", .envelope = {}}, &cancel}, now_);
  }
  /// The body of a job that waits; empty: there is none.
  std::string body_of(const std::string& id) {
    const Record* const record = broker_->jobs().find(id);
    return record != nullptr && record->job() != nullptr ? std::string(record->job()->body().bytes()) : "";
  }

  TimePoint now_{seconds(1000)};
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

  std::vector<std::string> ids;
  for (std::size_t place = 0; place < broker_->jobs().places(); ++place)
    if (const Record* const record = broker_->jobs().at(place); record != nullptr && record->job() != nullptr)
      ids.emplace_back(record->id());
  ASSERT_EQ(ids.size(), 3u);
  for (const std::string& id : ids)
    EXPECT_LE(id.size(), limits::id_bytes_max);
  EXPECT_THAT(ids[0], StartsWith("webhook:"));
  EXPECT_THAT(ids[1], StartsWith("@acme/webhook:"));
  EXPECT_EQ(ids[2], "@acme/webhook:z");
  EXPECT_THAT(body_of(ids[1]), HasSubstr("\"id\":\"" + of_tenant.substr(6) + '"'));
}

TEST_F(WebhooksTest, that_are_refused_are_counted_and_told) {
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
  EXPECT_EQ(notices[0].code, "lane_full");
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
  EXPECT_EQ(broker_->jobs().find("webhook:waits"), nullptr);
}

}  // namespace
}  // namespace lanemq::core
