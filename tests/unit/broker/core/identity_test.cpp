// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/identity.hpp"

#include <string>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "broker/core/base/outbox.hpp"
#include "broker/core/broker.hpp"
#include "broker/core/scheduler/clients.hpp"

namespace lanemq::core {
namespace {

TEST(Identity, a_name_in_a_tenants_space_is_taken_apart_again) {
  EXPECT_EQ(space_of(""), "");
  EXPECT_EQ(space_of("acme"), "@acme/");
  EXPECT_EQ(tenant_of("@acme/x"), "acme");
  EXPECT_EQ(own_name("@acme/x"), "x");
  EXPECT_EQ(own_name("@acme/a/b"), "a/b");
  for (const std::string_view name : {"", "x", "a/b", "acme@x/y"}) {
    EXPECT_EQ(tenant_of(name), "") << name;
    EXPECT_EQ(own_name(name), name);
  }
}

TEST(Identity, names_that_no_space_makes_harm_nothing) {
  for (const std::string_view name : {"@", "@acme", "@/", "@/x"}) {
    EXPECT_LE(tenant_of(name).size(), name.size()) << name;
    EXPECT_LE(own_name(name).size(), name.size()) << name;
  }
}

TEST(Identity, a_key_without_names_allows_all) {
  Identity identity;
  EXPECT_TRUE(identity.may_use_service("any") && identity.may_use_lane("any"));
  identity.services = {"a"};
  EXPECT_TRUE(identity.may_use_service("a"));
  EXPECT_FALSE(identity.may_use_service("b"));
}

TEST(Outbox, tells_clients_alone_ids_without_their_tenants_space) {
  for (const Peer peer : {Peer::client, Peer::worker, Peer::admin}) {
    Outbox outbox;
    wire::ErrorReply reply;
    reply.id = "@acme/x";
    reply.code = "gone";
    outbox.add(peer, "a", {}, reply);
    const bool has_space = outbox.header(outbox.sends[0]).find("@acme/x") != std::string_view::npos;
    EXPECT_EQ(has_space, peer != Peer::client);
  }
}

TEST(Clients, a_client_in_a_tenants_space_is_that_tenants) {
  Clients clients({{.name = "@acme/*", .weight = 3, .tenant = "said"}}, 10);
  EXPECT_EQ(clients.options_of("@acme/alice").tenant, "acme");
  EXPECT_EQ(clients.options_of("@acme/alice").weight, 3);
  EXPECT_EQ(clients.options_of("alice").tenant, "");
}

/// A broker whose peers have shown keys.
class Keyed : public testing::Test {
 protected:
  Keyed() : broker_(options(), 1) {}

  static Options options() {
    Options options;
    options.lanes = {{.name = "high"}, {.name = "normal", .is_default = true}};
    return options;
  }
  void ready(std::string_view address, const Identity& identity, std::string_view session = {}) {
    wire::Ready fields;
    fields.services = {"s"};
    fields.capacity = 1;
    fields.resumes = true;
    fields.session = session;
    broker_.handle(WorkerReady{address, &fields, &identity}, now_);
    turn();
  }
  void submit(const Identity& identity, std::string_view id = {}, std::string_view lane = {}) {
    wire::Submit fields;
    fields.service = "s";
    fields.id = id;
    fields.lane = lane;
    fields.reply = "accepted";
    broker_.handle(Submitted{{.address = "c", .envelope = {}, .identity = &identity}, &fields, {}}, now_);
    turn();
  }
  void turn() {
    broker_.advance(now_);
    sent_.clear();
    for (const Send& send : broker_.outbox().sends)
      sent_ +=
          std::string(broker_.outbox().address(send)) + " " + to_json(broker_.outbox().header(send)) + "\n";
    broker_.outbox().clear();
  }
  bool said(std::string_view text) const { return sent_.find(text) != std::string::npos; }

  Broker broker_;
  TimePoint now_{std::chrono::hours(48)};
  std::string sent_;
  Identity client_{
      .name = "alice", .role = Identity::Role::client, .space = "@acme/", .services = {}, .lanes = {}};
  Identity one_{.name = "one", .role = Identity::Role::worker, .space = {}, .services = {}, .lanes = {}};
  Identity other_{.name = "other", .role = Identity::Role::worker, .space = {}, .services = {}, .lanes = {}};
};

TEST_F(Keyed, a_made_id_is_in_its_owners_space) {
  ready("w", one_);
  submit(client_);
  EXPECT_TRUE(said("w [\"LMQ1\",\"job\"")) << sent_;
  EXPECT_TRUE(said("\"id\":\"@acme/")) << sent_;
}

TEST_F(Keyed, a_service_or_lane_that_the_key_does_not_allow_is_refused_and_leaves_nothing) {
  client_.services = {"another"};
  submit(client_, "@acme/a");
  EXPECT_TRUE(said("forbidden") && said("service")) << sent_;
  client_.services = {"s"};
  client_.lanes = {"normal"};
  submit(client_, "@acme/a", "high");
  EXPECT_TRUE(said("forbidden") && said("lane")) << sent_;
  EXPECT_EQ(broker_.jobs().size(), 0u);
  submit(client_, "@acme/a");
  EXPECT_TRUE(said("accepted")) << sent_;
  client_.lanes = {"high"};
  submit(client_, "@acme/b");
  EXPECT_TRUE(said("forbidden") && said("lane")) << "the default lane is a lane: " << sent_;
}

TEST_F(Keyed, jobs_of_a_worker_whose_key_is_taken_back_go_to_others) {
  ready("w", one_);
  submit(client_, "@acme/a");
  ASSERT_TRUE(said("w [\"LMQ1\",\"job\"")) << sent_;
  ready("v", other_);

  broker_.handle(KeyRevoked{"one"}, now_);
  EXPECT_EQ(broker_.workers().find("w"), nullptr);
  now_ += std::chrono::minutes(1);
  broker_.handle(WorkerHeard{"v"}, now_);
  turn();
  EXPECT_NE(broker_.workers().find("v"), nullptr);
  EXPECT_TRUE(said("v [\"LMQ1\",\"job\"")) << sent_;
}

TEST_F(Keyed, a_session_belongs_to_its_key) {
  ready("w", one_);
  const std::string session = broker_.workers().find("w")->session;
  broker_.handle(WorkerDisconnected{"w"}, now_);

  ready("thief", other_, session);
  EXPECT_NE(broker_.workers().find("thief")->session, session);
  ready("back", one_, session);
  EXPECT_EQ(broker_.workers().find("back")->session, session);
}

TEST_F(Keyed, who_only_waits_for_a_job_is_known_by_its_key) {
  submit(client_, "@acme/a");
  wire::Fetch fields;
  fields.id = "@acme/a";
  fields.wait_ms = 1000;
  broker_.handle(FetchAsked{{.address = "waits", .envelope = {}, .identity = &client_}, &fields}, now_);
  int connections = 0;
  broker_.connections().each_of_key("alice", [&](const Connection&) { ++connections; });
  EXPECT_EQ(connections, 2);
}

TEST_F(Keyed, who_owns_jobs_loses_them_with_the_key) {
  wire::Submit fields;
  fields.service = "s";
  fields.id = "@acme/owned";
  fields.orphan = "cancel";
  broker_.handle(Submitted{{.address = "c", .envelope = {}, .identity = &client_}, &fields, {}}, now_);
  turn();
  broker_.handle(KeyRevoked{"alice"}, now_);
  now_ += std::chrono::minutes(1);
  turn();
  ASSERT_NE(broker_.jobs().find("@acme/owned"), nullptr);
  EXPECT_NE(broker_.jobs().find("@acme/owned")->result(), nullptr) << "it was cancelled";
}

}  // namespace
}  // namespace lanemq::core
