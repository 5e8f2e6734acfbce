// SPDX-License-Identifier: Apache-2.0
#include "broker/io/loop/held_messages.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/io/store/memory_store.hpp"

namespace lanemq {
namespace {

using io::HeldMessages;
using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

/// Puts bodies in when the test says so.
class SlowStore : public io::MemoryStore {
 public:
  bool wants_ahead(std::size_t body_bytes) const override { return body_bytes > 0; }
  void put_ahead(const Blob& body) override { puts.push_back(body); }
  void take_put(std::vector<Blob>& bodies) override { std::swap(bodies, in); }
  void drop_put(const Blob& body) override { dropped.emplace_back(body.bytes()); }

  void has_put(std::size_t at) { in.push_back(puts.at(at)); }

  std::vector<Blob> puts, in;
  std::vector<std::string> dropped;
};

class HeldMessagesTest : public testing::Test {
 protected:
  HeldMessagesTest() { peer_.connect(router_.endpoint()); }

  /// The message as it comes from the socket, with that header and body.
  io::Incoming from_peer(const std::string& words, const std::string& body = {}) {
    peer_.send(zmq::buffer("\x93\xA4LMQ1" + words),
               body.empty() ? zmq::send_flags::none : zmq::send_flags::sndmore);
    if (!body.empty()) peer_.send(zmq::buffer(body));
    zmq::pollitem_t item{router_.handle().handle(), 0, ZMQ_POLLIN, 0};
    zmq::poll(&item, 1, 10s);
    io::Incoming message;
    EXPECT_TRUE(router_.receive(message));
    return message;
  }
  static HeldMessages::About about(std::vector<std::string> ids, std::int64_t batch = 0) {
    return {.ids = std::move(ids), .batch = batch};
  }

  void put(const std::string& words, HeldMessages::About about) {
    io::Incoming message = from_peer(words, large(words));
    address_ = message.address();
    const Blob body = message.take_body({}, 0);
    ASSERT_TRUE(held_.wants(body));
    held_.hold_and_put(message, body, std::move(about), now_);
  }
  void put_outcome(const std::string& words, wire::Lease lease) {
    io::Incoming message = from_peer(words, large(words));
    address_ = message.address();
    held_.hold_and_put(message, message.take_body({}, 0), lease, now_);
  }
  bool wait(const std::string& words, HeldMessages::About about) {
    io::Incoming message = from_peer(words);
    return held_.hold_behind(message, {}, std::move(about), now_);
  }
  static std::string large(const std::string& words) { return words + std::string(10'000, '.'); }

  /// What is to be heard now, by their words.
  std::vector<std::string> heard() {
    std::vector<std::string> all;
    ready_ = held_.take_ready(now_);
    for (const HeldMessages::Ready& ready : ready_)
      for (const HeldMessages::Message& one : ready.messages)
        all.emplace_back(one.message.header().substr(6));
    return all;
  }

  zmq::context_t context_;
  io::Router router_{context_, {.endpoint = "tcp://127.0.0.1:*", .frame_bytes_max = 1 << 20}};
  zmq::socket_t peer_{context_, zmq::socket_type::dealer};
  SlowStore store_;
  HeldMessages held_{store_};
  std::vector<HeldMessages::Ready> ready_;
  std::string address_;
  core::TimePoint now_{core::Duration(1h)};
};

TEST_F(HeldMessagesTest, nothing_overtakes_what_names_the_same_id) {
  put("one", about({"one"}));
  put("two", about({"two"}));
  EXPECT_TRUE(wait("batch", about({"two", "new", "one"})));
  EXPECT_TRUE(wait("cancel one", about({"one"})));
  EXPECT_TRUE(wait("cancel new", about({"new"})));
  EXPECT_TRUE(held_.names_any_of({"elsewhere", "new"}));
  EXPECT_FALSE(held_.names_any_of({"elsewhere"}));

  EXPECT_THAT(heard(), IsEmpty());
  store_.has_put(0);
  EXPECT_THAT(heard(), ElementsAre("one")) << "the batch waits for two, and the cancel for the batch";
  EXPECT_EQ(ready_.at(0).body.bytes(), large("one"));
  EXPECT_TRUE(held_.names_any_of({"one"}));
  store_.has_put(1);
  EXPECT_THAT(heard(), ElementsAre("two", "batch", "cancel one", "cancel new"));
  EXPECT_TRUE(held_.empty());
  EXPECT_FALSE(held_.names_any());
}

TEST_F(HeldMessagesTest, what_names_another_id_is_heard_before_those_that_came_earlier) {
  put("one", about({"one"}));
  put("two", about({"two"}));
  EXPECT_TRUE(wait("fetch one", about({"one"})));
  EXPECT_TRUE(wait("fetch two", about({"two"})));

  store_.has_put(1);
  EXPECT_THAT(heard(), ElementsAre("two", "fetch two"));
}

TEST_F(HeldMessagesTest, where_no_body_comes_in_they_go_with_their_turn) {
  put("one", about({"one"}));
  now_ += 3s;
  put("two", about({"two"}));
  EXPECT_TRUE(wait("fetch two", about({"two"})));
  now_ += 1s;
  store_.has_put(0);
  EXPECT_THAT(heard(), ElementsAre("one"));

  now_ += HeldMessages::kStandstillMax - 1ms;
  EXPECT_THAT(heard(), IsEmpty()) << "one body came in meanwhile";
  EXPECT_EQ(held_.next_wakeup(), now_ + 1ms);
  now_ += 1ms;
  EXPECT_THAT(heard(), ElementsAre("two", "fetch two"));
  EXPECT_TRUE(ready_.at(0).body.empty());
  const Blob own = ready_.at(0).messages.at(0).message.take_body({}, 0);
  EXPECT_EQ(own.bytes(), large("two"));
  EXPECT_NE(own.bytes().data(), store_.puts.at(1).bytes().data());
  EXPECT_EQ(held_.next_wakeup(), std::nullopt);

  EXPECT_THAT(store_.dropped, IsEmpty());
  store_.has_put(1);
  EXPECT_THAT(heard(), IsEmpty());
  EXPECT_THAT(store_.dropped, ElementsAre(large("two")));
}

TEST_F(HeldMessagesTest, a_body_inside_the_header_is_the_messages_as_any_other) {
  const std::string body = large("inside");
  for (const bool goes : {false, true}) {
    io::Incoming message = from_peer(body);
    const std::string_view inside = message.header().substr(6);
    address_ = message.address();
    const Blob taken = message.take_body(inside, 4096);
    EXPECT_EQ(message.header().substr(6), body) << "it can be read all the same";
    held_.hold_and_put(message, taken, wire::Lease{7, 1}, now_);

    store_.has_put(store_.puts.size() - 1);
    auto messages = goes ? held_.take_outcomes([&](std::string_view address, wire::Lease lease) {
      return address == address_ && lease.job == 7;
    })
                         : std::move(held_.take_ready(now_).at(0).messages);
    ASSERT_EQ(messages.size(), 1U);
    EXPECT_EQ(messages[0].message.header().substr(6), body);
    EXPECT_EQ(messages[0].message.take_body({}, 4096).bytes(), body);
    EXPECT_EQ(messages[0].message.take_body({}, 4096).bytes().data() == taken.bytes().data(), !goes);
  }
}

TEST_F(HeldMessagesTest, a_connection_has_what_its_held_messages_say) {
  put("one", about({"one"}, 16));
  EXPECT_TRUE(wait("again", about({"one"}, 64)));
  EXPECT_EQ(held_.batch_of(address_), 64);
  EXPECT_EQ(held_.batch_of("another"), 0);

  held_.sender_gone("another");
  store_.has_put(0);
  held_.sender_gone(address_);
  EXPECT_THAT(heard(), ElementsAre("one", "again"));
  EXPECT_TRUE(ready_.at(0).messages.at(0).sender_gone);
  EXPECT_EQ(held_.batch_of(address_), 0);
}

TEST_F(HeldMessagesTest, an_outcome_that_is_let_go_leaves_its_body_to_be_dropped) {
  put_outcome("first", {1, 1});
  put_outcome("second", {2, 1});

  EXPECT_TRUE(held_.has_outcome_of(address_));
  const auto gone = held_.take_outcomes([](std::string_view, wire::Lease lease) { return lease.job == 1; });
  EXPECT_EQ(gone.size(), 1U);
  store_.has_put(0);
  store_.has_put(1);
  EXPECT_THAT(heard(), ElementsAre("second"));
  EXPECT_TRUE(ready_.at(0).of_worker);
  EXPECT_THAT(store_.dropped, ElementsAre(large("first")));
}

TEST_F(HeldMessagesTest, it_holds_so_many_and_no_more) {
  put("first", about({"id"}));
  for (std::size_t i = 1; i < HeldMessages::kMessagesMax; ++i)
    ASSERT_TRUE(wait("waits", about({"id"})));

  EXPECT_FALSE(wait("too many", about({"id"})));
  EXPECT_FALSE(held_.wants(Blob::copy("body")));
  store_.has_put(0);
  EXPECT_EQ(heard().size(), HeldMessages::kMessagesMax);
  EXPECT_TRUE(held_.wants(Blob::copy("body")));
}

TEST_F(HeldMessagesTest, it_holds_so_many_bytes_and_counts_those_that_are_heard_no_more) {
  const std::string body(HeldMessages::kBytesMax / 8, 'x');
  const auto waits = [&] {
    io::Incoming message = from_peer("waits");
    return held_.hold_behind(message, Blob::borrow(body), about({"id"}), now_);
  };
  for (std::size_t round = 0; round < 2; ++round) {
    put("first", about({"id"}));
    for (int i = 0; i < 7; ++i)
      ASSERT_TRUE(waits()) << round;
    EXPECT_FALSE(waits());

    store_.has_put(round);

    EXPECT_EQ(heard().size(), 8u);
  }
}

}  // namespace
}  // namespace lanemq
