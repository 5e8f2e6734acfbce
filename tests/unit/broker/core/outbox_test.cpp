// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/outbox.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using testing::ElementsAre;

/// An outbox, and what it would send as words: the op and the ids of each message's items.
class OutboxTest : public testing::Test {
 protected:
  OutboxTest() { grouping_.agree(16); }

  void result(std::string_view id, std::string_view envelope = {}, const Blob& body = {}) {
    wire::JobResult message;
    message.id = id;
    outbox_.add(Peer::client, "c", envelope, message, body, &grouping_);
  }
  void error(std::string_view id, Grouping* grouping) {
    wire::ErrorReply message;
    message.id = id;
    message.code = "deadline";
    outbox_.add(Peer::client, "c", {}, message, {}, grouping);
  }
  std::vector<std::string> sends() {
    std::vector<std::string> all;
    for (const Send& send : outbox_.sends) {
      EXPECT_EQ(decoder_.decode(outbox_.header(send), {}, items_), nullptr);
      EXPECT_EQ(outbox_.items(send), items_.size());
      std::string words;
      for (std::size_t i = 0; i < items_.size(); ++i) {
        const auto* result = std::get_if<wire::JobResult>(&items_[i]);
        words +=
            (i > 0 ? " " : "") + std::string(result ? result->id : std::get<wire::ErrorReply>(items_[i]).id);
      }
      all.push_back(words + (send.body.empty() ? "" : " with a frame"));
    }
    outbox_.clear();
    return all;
  }

  Outbox outbox_;
  Grouping grouping_;
  Decoder decoder_;
  Items<wire::ClientReply> items_;
};

TEST_F(OutboxTest, puts_together_what_goes_to_one_peer_in_a_turn) {
  result("a");
  outbox_.add(Peer::client, "other", {}, wire::Pong{}, {}, nullptr);
  outbox_.clear();
  result("b");
  result("c");
  Grouping single;
  error("d", &single);
  result("e");

  EXPECT_THAT(sends(), ElementsAre("b c e", "d"));
  result("f");
  EXPECT_THAT(sends(), ElementsAre("f"));
}

TEST_F(OutboxTest, nothing_passes_another_message_to_the_same_peer) {
  result("a");
  error("b", &grouping_);
  result("c");
  result("d", {}, Blob::copy(std::string(limits::inline_bytes_max + 1, 'x')));
  result("e");
  result("f");

  EXPECT_THAT(sends(), ElementsAre("a", "b", "c", "d with a frame", "e f"));
}

TEST_F(OutboxTest, a_message_to_nobody_known_ends_all_groups_of_its_side) {
  result("a");
  error("b", nullptr);
  result("c");
  outbox_.add(Peer::worker, "w", {}, wire::Heartbeat{}, {}, nullptr);
  result("d");

  outbox_.sends.erase(outbox_.sends.end() - 1);  // the worker's
  EXPECT_THAT(sends(), ElementsAre("a", "b", "c d"));
}

TEST_F(OutboxTest, requests_of_another_envelope_are_answered_apart) {
  const std::string one("\2\0ab", 4), two("\2\0cd", 4);
  result("a", one);
  result("b", one);
  result("c", two);
  result("d", one);

  EXPECT_THAT(sends(), ElementsAre("a b", "c", "d"));
}

TEST(Grouping, is_bounded) {
  Grouping grouping;
  grouping.agree(1'000'000);
  EXPECT_EQ(grouping.max, limits::batch_items_max);
  grouping.agree(0);
  EXPECT_EQ(grouping.max, 0u);
}

}  // namespace
}  // namespace lanemq::core
