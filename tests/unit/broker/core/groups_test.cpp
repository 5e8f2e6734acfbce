// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/groups.hpp"

#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"

namespace lanemq::core {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

/// A broker whose jobs wait for a worker that never comes, and end when they are cancelled.
class GroupsTest : public testing::Test {
 protected:
  static Options options(std::size_t groups_max) {
    Options options = default_options();
    options.groups_max = groups_max;
    options.retain = seconds(10);
    return options;
  }
  void make(std::size_t groups_max) { broker_.emplace(options(groups_max), 7); }

  /// The message of the refusal; empty: it was accepted.
  std::string submit(const std::string& id, const std::string& group, std::int64_t size = 0,
                     const Identity* identity = nullptr) {
    wire::Submit fields;
    fields.id = id;
    fields.service = "none";
    fields.reply = "accepted";
    fields.group = group;
    if (size > 0) fields.group_size = size;
    broker_->handle(Submitted{{.address = "client", .envelope = {}, .identity = identity}, &fields, {}},
                    now_);
    return take("client");
  }
  void cancel(const std::string& id) {
    wire::Cancel fields;
    fields.id = id;
    broker_->handle(CancelAsked{{.address = "client", .envelope = {}}, &fields}, now_);
  }
  void watch(const std::string& group) {
    wire::Watch fields;
    buffer_.clear();
    fields.ref = number_ref(++refs_, buffer_);
    fields.group = group;
    broker_->handle(WatchAsked{{.address = "follower", .envelope = {}}, &fields}, now_);
  }
  /// The last refusal that `address` was sent since the last call; counts group_over in over_.
  std::string take(std::string_view address) {
    std::string refused;
    Outbox& outbox = broker_->outbox();
    for (const Send& send : outbox.sends) {
      wire::ClientReply reply;
      EXPECT_EQ(decoder_.decode(outbox.header(send), reply), nullptr);
      if (const auto* event = std::get_if<wire::JobEvent>(&reply); event && event->what == "group_over") {
        ++over_[std::string(event->group)];
        last_ended_ = event->succeeded + event->failed + event->cancelled + event->expired;
      }
      const auto* error = std::get_if<wire::ErrorReply>(&reply);
      if (error != nullptr && outbox.address(send) == address)
        refused = std::string(error->code) + ": " + std::string(error->message);
    }
    outbox.clear();
    return refused;
  }
  void pass(Duration time) {
    now_ += time;
    broker_->advance(now_);
  }

  TimePoint now_{seconds(1000)};
  std::optional<Broker> broker_;
  Decoder decoder_;
  Buffer buffer_;
  std::uint64_t refs_ = 0;
  std::map<std::string, int> over_;
  std::int64_t last_ended_ = 0;
};

TEST_F(GroupsTest, a_tenant_has_a_quarter_of_them_and_its_own_make_way) {
  make(8);
  const Identity acme{.name = "k", .space = "@acme/", .services = {}, .lanes = {}};
  EXPECT_EQ(submit("@acme/a", "@acme/one", 0, &acme), "");
  EXPECT_EQ(submit("@acme/b", "@acme/two", 0, &acme), "");
  EXPECT_THAT(submit("@acme/c", "@acme/three", 0, &acme),
              HasSubstr("client_full: this tenant has jobs in 2 groups"));
  EXPECT_EQ(submit("x", "one"), "");  // nobody's group of that name is another one

  cancel("@acme/a");
  EXPECT_EQ(submit("@acme/c", "@acme/three", 0, &acme), "");
  EXPECT_EQ(broker_->stats().groups_evicted, 1u);
  EXPECT_THAT(submit("@acme/d", "@acme/four", 0, &acme), HasSubstr("client_full"));
}

TEST_F(GroupsTest, none_may_be_named_where_there_may_be_none) {
  make(0);
  EXPECT_THAT(submit("a", "g"), HasSubstr("bytes_full: there are jobs in 0 groups already (groups_max)"));
  EXPECT_EQ(submit("b", ""), "");
}

TEST_F(GroupsTest, count_for_memory_until_they_are_forgotten) {
  make(100);
  const std::size_t before = broker_->memory_bytes();
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(submit("j" + std::to_string(i), "g" + std::to_string(i % 10)), "");
  const std::size_t open = broker_->memory_bytes();
  for (int i = 0; i < 50; ++i)
    cancel("j" + std::to_string(i));
  broker_->outbox().clear();
  EXPECT_GT(open, before + 10 * sizeof(Group));

  pass(seconds(11));  // results and groups are forgotten
  EXPECT_EQ(broker_->memory_bytes(), before);
  EXPECT_EQ(broker_->stats().groups_over, 10u);
}

TEST_F(GroupsTest, under_way_are_those_with_a_size_until_they_are_over) {
  make(100);
  const auto listed = [&] {
    std::vector<std::string> names;
    const Groups::UnderWay& all = broker_->groups().under_way();
    for (const Group* group = all.front(); group != nullptr; group = all.next(*group))
      names.push_back(group->name);
    return names;
  };
  const auto left = [&](const std::string& name) { return broker_->groups().find(name)->left(now_); };
  submit("x", "without a size");
  submit("a", "g", 4);
  submit("b", "h", 2);
  EXPECT_THAT(listed(), testing::ElementsAre("g", "h"));
  EXPECT_EQ(left("g"), std::nullopt) << "there is no pace yet";

  pass(seconds(3));
  cancel("a");
  EXPECT_THAT(listed(), testing::ElementsAre("g", "h")) << "none of its jobs is open, and three are to come";
  EXPECT_EQ(left("g"), seconds(9));
  submit("c", "g", 4);
  pass(seconds(3));
  cancel("c");
  EXPECT_EQ(left("g"), seconds(6));

  cancel("b");
  submit("d", "h", 2);
  cancel("d");
  EXPECT_THAT(listed(), testing::ElementsAre("g")) << "h is over";
  submit("e", "h", 3);
  EXPECT_THAT(listed(), testing::ElementsAre("g", "h")) << "another life of it";
  EXPECT_EQ(broker_->groups().find("h")->begun_at, now_);
  pass(seconds(20));
  EXPECT_THAT(listed(), testing::ElementsAre("h")) << "g is forgotten, h has an open job";
}

TEST_F(GroupsTest, are_told_once_a_life_whatever_comes_in_which_order) {
  make(1000);
  std::mt19937 random(5);
  struct Model {
    std::size_t open = 0, ended = 0, size = 0;
    int overs = 0;
  };
  std::map<std::string, Model> models;
  std::vector<std::pair<std::string, std::string>> open;  // ids and their groups
  for (int g = 0; g < 5; ++g)
    watch("g" + std::to_string(g));
  for (int i = 0; i < 4000; ++i) {
    if (open.empty() || random() % 2 == 0) {
      const std::string group = "g" + std::to_string(random() % 5), id = "j" + std::to_string(i);
      Model& model = models[group];
      if (model.open == 0 && model.size == 0) model.ended = 0;
      const std::size_t size = random() % 3 == 0 ? 1 + random() % 4 : 0;
      const bool left = model.open == 0 && model.size > 0 && size > 0 && size != model.size;
      if (left) model = {.overs = model.overs};
      const std::size_t most = model.size > 0 ? model.size : size;
      const bool fits = most == 0 || model.open + model.ended < most;
      const bool agrees = size == 0 || model.size == 0 || size == model.size;
      ASSERT_EQ(submit(id, group, static_cast<std::int64_t>(size)).empty(), fits && agrees) << i;
      if (!fits || !agrees) continue;
      model.size = most;
      ++model.open;
      open.emplace_back(id, group);
    } else {
      std::swap(open[random() % open.size()], open.back());
      const auto [id, group] = open.back();
      open.pop_back();
      Model& model = models[group];
      --model.open;
      ++model.ended;
      cancel(id);
      take("follower");
      if (model.open == 0 && model.ended >= model.size) {
        ASSERT_EQ(last_ended_, static_cast<std::int64_t>(model.ended)) << i;
        model = {.overs = model.overs + 1};
      }
      ASSERT_EQ(over_[group], model.overs) << i;
      // Nobody confirms events here, so the follower watches anew before its window is full.
      if (i % 50 == 0) {
        broker_->handle(ClientUnreachable{"follower"}, now_);
        std::map<std::string, int> before = over_;
        for (int g = 0; g < 5; ++g)
          watch("g" + std::to_string(g));
        take("follower");
        over_ = std::move(before);
      }
    }
  }
  EXPECT_GT(broker_->stats().groups_over, 300u);
}

}  // namespace
}  // namespace lanemq::core
