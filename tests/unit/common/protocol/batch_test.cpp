// SPDX-License-Identifier: Apache-2.0
// Batches: several messages of one operation in one header.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "tests/unit/common/protocol/allocation_meter.hpp"
#include "tests/unit/common/protocol/frame.hpp"

namespace lanemq {
namespace {

Frame batch_of(std::string_view op, unsigned items, unsigned elements = 3) {
  return Frame().array(elements).text("LMQ1").text(op).array(items);
}

/// Decodes messages that may be batches and keeps what the last one said.
template <class Message>
class BatchReading {
 public:
  const DecodeError* read(const Frame& header, std::optional<std::string_view> body = {}) {
    header_ = header.view();
    return decoder_.decode(header_, body, items_);
  }
  /// The message as a whole is refused with a text that holds `part`.
  void expect_bad(const Frame& header, std::string_view part, std::optional<std::string_view> body = {}) {
    const DecodeError* error = read(header, body);
    ASSERT_NE(error, nullptr) << "well-formed; expected: " << part;
    EXPECT_NE(error->message.find(part), std::string::npos) << error->message << "\nexpected: " << part;
    EXPECT_TRUE(items_.empty());
  }
  template <class Known>
  const Known& at(std::size_t i) const {
    return std::get<Known>(items_[i]);
  }
  void refuse_ext() { decoder_.refuse_ext(); }
  const Items<Message>& items() const { return items_; }
  std::string error(std::size_t i) const { return items_.error(i) ? items_.error(i)->message : ""; }

 private:
  std::string header_;
  Decoder decoder_{1024};
  Items<Message> items_;
};

using BatchRequests = BatchReading<wire::ClientRequest>;
using BatchCommands = BatchReading<wire::WorkerCommand>;

TEST(Batch, later_items_inherit_what_they_do_not_name) {
  BatchRequests reading;

  ASSERT_EQ(reading.read(batch_of("submit", 3, 4)
                             .map(7)
                             .field("service", "echo")
                             .field("lane", "high")
                             .field("id", "a")
                             .field("ref", 1)
                             .field("timeout_ms", 50)
                             .field("x-a", "1")
                             .field("x-b", "2")
                             .map(2)
                             .field("id", "b")
                             .field("x-a", "3")
                             .map(3)
                             .text("lane")
                             .nil()
                             .text("timeout_ms")
                             .nil()
                             .field("service", "other")
                             .array(3)
                             .bin("one")
                             .bin("")
                             .bin("three")),
            nullptr);

  ASSERT_EQ(reading.items().size(), 3u);
  EXPECT_TRUE(reading.items().is_batch());
  EXPECT_EQ(reading.items().body(0), "one");
  EXPECT_EQ(reading.items().body(1), "");
  EXPECT_EQ(reading.items().body(2), "three");
  EXPECT_EQ(reading.at<wire::Submit>(0).id, "a");
  EXPECT_EQ(reading.at<wire::Submit>(0).extras.count, 2u);
  const auto& second = reading.at<wire::Submit>(1);
  EXPECT_EQ(second.id, "b");
  EXPECT_EQ(second.service, "echo");
  EXPECT_EQ(second.lane, "high");
  EXPECT_EQ(second.timeout_ms, 50);
  EXPECT_FALSE(second.ref.present()) << "a ref names one request";
  EXPECT_EQ(second.extras.count, 2u);
  EXPECT_EQ(second.extras.bytes, Frame().field("x-a", "3").field("x-b", "2").view());
  const auto& third = reading.at<wire::Submit>(2);
  EXPECT_EQ(third.id.data(), nullptr) << "an id names one job";
  EXPECT_EQ(third.service, "other");
  EXPECT_EQ(third.lane.data(), nullptr) << "nil says that the field is absent";
  EXPECT_EQ(third.timeout_ms, std::nullopt);
  EXPECT_EQ(third.extras.bytes, reading.at<wire::Submit>(0).extras.bytes);
}

TEST(Batch, a_message_of_one_map_is_read_as_ever) {
  BatchRequests reading;

  ASSERT_EQ(reading.read(Frame::header("submit", 1, 4).field("service", "echo").bin("b")), nullptr);

  EXPECT_EQ(reading.items().size(), 1u);
  EXPECT_FALSE(reading.items().is_batch());
  EXPECT_EQ(reading.items().body(0), "b");
}

TEST(Batch, bodies_may_come_in_a_frame_of_their_own) {
  BatchRequests reading;
  const Frame header = batch_of("submit", 2).map(1).field("service", "echo").map(0);
  const Frame bodies = Frame().array(2).bin("one").bin("two");

  ASSERT_EQ(reading.read(header, bodies.view()), nullptr);
  EXPECT_EQ(reading.items().body(0), "one");
  EXPECT_EQ(reading.items().body(1), "two");

  ASSERT_EQ(reading.read(header), nullptr) << "no bodies at all are empty ones";
  EXPECT_EQ(reading.items().body(1), "");

  reading.expect_bad(header, "2 maps and 1 bodies", Frame().array(1).bin("one").view());
  reading.expect_bad(header, "list of bin", Frame().array(2).bin("one").text("two").view());
  reading.expect_bad(header, "one for each map", "two words");
  reading.expect_bad(header, "one for each map", Frame(bodies).byte(0).view());
  for (std::size_t cut = 0; cut < bodies.size(); ++cut)
    EXPECT_NE(reading.read(header, bodies.view().substr(0, cut)), nullptr) << cut;
  reading.expect_bad(batch_of("submit", 1, 4).map(1).field("service", "echo").array(1).bin("b"),
                     "send one of them", Frame().array(1).bin("b").view());
}

TEST(Batch, a_bad_item_fails_alone_and_is_named) {
  BatchRequests reading;

  ASSERT_EQ(reading.read(batch_of("submit", 4)
                             .map(2)
                             .field("service", "echo")
                             .field("id", "a")
                             .map(3)
                             .field("id", "b")
                             .field("ref", 7)
                             .field("cost", 1)
                             .map(2)
                             .field("id", "c")
                             .text("service")
                             .nil()
                             .map(1)
                             .field("id", "d")),
            nullptr);

  EXPECT_EQ(reading.error(0), "");
  EXPECT_EQ(reading.error(1), "item 1 of the batch: field \"cost\" must be a map of numbers");
  EXPECT_EQ(reading.items().error(1)->id, "b");
  EXPECT_EQ(reading.items().error(1)->ref, "\x07");
  EXPECT_EQ(reading.error(2), "item 2 of the batch: field \"service\" is missing");
  EXPECT_EQ(reading.error(3), "");
  EXPECT_EQ(reading.at<wire::Submit>(3).service, "echo");
}

TEST(Batch, nobody_inherits_a_broken_field) {
  BatchRequests reading;

  ASSERT_EQ(reading.read(batch_of("submit", 3)
                             .map(3)
                             .field("service", "echo")
                             .field("id", "a")
                             .field("lane", 5)
                             .map(1)
                             .field("id", "b")
                             .map(2)
                             .field("id", "c")
                             .field("lane", "high")),
            nullptr);

  EXPECT_EQ(reading.error(0), "item 0 of the batch: field \"lane\" must be a string");
  EXPECT_EQ(reading.error(1),
            "item 1 of the batch: field \"lane\" is broken in item 0, from which it is inherited");
  EXPECT_EQ(reading.error(2), "");
}

TEST(Batch, a_first_item_that_lacks_a_field_breaks_no_other) {
  BatchRequests reading;

  ASSERT_EQ(
      reading.read(
          batch_of("submit", 2).map(1).field("id", "a").map(2).field("id", "b").field("service", "echo")),
      nullptr);

  EXPECT_EQ(reading.error(0), "item 0 of the batch: field \"service\" is missing");
  EXPECT_EQ(reading.error(1), "");
}

TEST(Batch, a_body_over_its_limit_fails_alone) {
  BatchRequests reading;

  ASSERT_EQ(reading.read(batch_of("submit", 2, 4)
                             .map(1)
                             .field("service", "echo")
                             .map(0)
                             .array(2)
                             .bin(std::string(1025, 'x'))
                             .bin("small")),
            nullptr);

  EXPECT_EQ(name_of(reading.items().error(0)->code), name_of(ErrorCode::too_large));
  EXPECT_EQ(reading.error(0),
            "item 0 of the batch: the body has 1025 bytes, more than 1024 (body_bytes_max)");
  EXPECT_EQ(reading.error(1), "");
}

TEST(Batch, a_broken_structure_refuses_all_of_it) {
  BatchRequests reading;

  reading.expect_bad(batch_of("submit", 0), "a batch of 0 maps; it has 1 to 256 (batch_items_max)");
  Frame many = batch_of("submit", 257);
  for (int i = 0; i < 257; ++i)
    many.map(0);
  reading.expect_bad(many, "a batch of 257 maps");
  reading.expect_bad(batch_of("submit", 0x7FFFFFFF), "more entries than there are bytes");
  reading.expect_bad(batch_of("submit", 2).map(1).field("service", "a").number(1),
                     "a batch is a list of maps");
  reading.expect_bad(batch_of("submit", 2).map(1).field("service", "a"), "it ends too early");
  reading.expect_bad(batch_of("submit", 1, 4).map(1).field("service", "a").bin("b"), "a list of bin");
  reading.expect_bad(batch_of("submit", 1, 4).map(1).field("service", "a").array(2).bin("").bin(""),
                     "1 maps and 2 bodies");
  reading.expect_bad(batch_of("ping", 1).map(0), "op \"ping\" cannot be batched");
  reading.expect_bad(batch_of("nonsense", 1).map(0), "unknown op \"nonsense\"");
  reading.expect_bad(batch_of("submit", 1).map(1).field("service", "a").byte(0), "bytes behind its end");
  reading.expect_bad(batch_of("submit", 1).map(1).field("meta", Frame().text(std::string(17000, 'x'))),
                     "header_bytes_max");
}

TEST(Batch, an_item_nests_as_deep_as_a_message) {
  const auto nested = [](int depth) {
    Frame value;
    for (int i = 0; i < depth; ++i)
      value.array(1);
    return value.number(1);
  };
  const auto item = [&](int depth) {
    return batch_of("submit", 1).map(2).field("service", "a").field("meta", nested(depth));
  };
  BatchRequests reading;

  EXPECT_EQ(reading.read(item(limits::header_depth_max - 2)), nullptr);
  EXPECT_EQ(reading.error(0), "");
  EXPECT_EQ(reading.read(item(limits::header_depth_max - 1)), nullptr);
  EXPECT_THAT(reading.error(0), testing::HasSubstr("header_depth_max"));
}

// The frames of the message before are gone: a name that was read there is nobody's any more.
TEST(Batch, no_refusal_names_a_field_of_the_message_before) {
  Frame deep;
  for (int i = 0; i < 70; ++i)
    deep.array(1);
  BatchRequests reading;
  ASSERT_EQ(reading.read(batch_of("submit", 1).map(2).field("service", "a").field("x-mine", 1)), nullptr);

  reading.expect_bad(batch_of("submit", 1).map(1).number(1).raw(deep.view()), "nests deeper than 8");
  EXPECT_EQ(reading.read(batch_of("submit", 1).map(1).number(1).raw(deep.view()))->message.find("in field"),
            std::string::npos);
}

// One caller's odd request must not take those with it that its client had put into the same message.
TEST(Batch, an_item_whose_maps_break_a_rule_fails_alone) {
  const auto wide = [](unsigned entries) {
    Frame map = Frame().map(entries);
    for (unsigned i = 0; i < entries; ++i)
      map.field("x-" + std::to_string(i), 1);
    return map;
  };
  Frame deep;
  for (int i = 0; i < 40; ++i)
    i % 2 == 0 ? deep.array(1) : deep.map(1).text("k");
  deep.number(1);
  const struct {
    Frame value;
    const char* error;
  } odd[] = {{wide(65), "a map has 65 entries, more than 64 (map_entries_max)"},
             {Frame().array(1).raw(wide(300).view()), "a map has 300 entries"},
             {deep, "nests deeper than 8 (header_depth_max)"},
             {Frame().map(1).number(1).number(1), "a key of a map is not a string"},
             {Frame().map(1).raw(Frame().map(1).field("k", 1).view()).number(1), "a key of a map is not a"},
             {Frame().map(1).ext(1, "k").number(1), "a key of a map is not a string"},
             {Frame().ext(-1, "123"), "field \"meta\" holds an ext"},
             {Frame().map(2).field("k", 1).field("k", 2), "duplicate key \"k\""}};
  for (const auto& [value, text] : odd) {
    for (const char* field : {"meta", "unknown"}) {
      if (std::string_view(text).find("ext") != std::string_view::npos && field[0] == 'u') continue;
      BatchRequests reading;
      reading.refuse_ext();
      ASSERT_EQ(reading.read(batch_of("submit", 3)
                                 .map(2)
                                 .field("service", "echo")
                                 .field("id", "a")
                                 .map(3)
                                 .field("id", "b")
                                 .field(field, value)
                                 .field("ref", 7)
                                 .map(2)
                                 .field("id", "c")
                                 .field("meta", "fine")),
                nullptr)
          << text;
      EXPECT_EQ(reading.error(0), "");
      EXPECT_EQ(reading.error(1).find("item 1 of the batch: "), 0u) << reading.error(1);
      EXPECT_THAT(reading.error(1), testing::HasSubstr(text));
      EXPECT_EQ(reading.items().error(1)->id, "b");
      EXPECT_EQ(reading.items().error(1)->ref, Frame().number(7).view());
      EXPECT_EQ(reading.error(2), "");
      EXPECT_EQ(reading.at<wire::Submit>(2).meta.bytes, Frame().text("fine").view());
      EXPECT_TRUE(reading.at<wire::Submit>(0).meta.bytes.empty());
    }
  }
}

TEST(Batch, an_item_with_too_many_fields_fails_alone) {
  for (const unsigned bad : {0u, 1u}) {
    Frame frame = batch_of("submit", 3);
    for (unsigned item = 0; item < 3; ++item) {
      const unsigned extras = item == bad ? 80 : 2;
      frame.map(extras + 2).field("service", "echo").field("id", std::to_string(item));
      for (unsigned i = 0; i < extras; ++i)
        frame.field("x-" + std::to_string(i), item);
    }
    BatchRequests reading;

    ASSERT_EQ(reading.read(frame), nullptr);

    EXPECT_THAT(reading.error(bad), testing::HasSubstr("a map has 82 entries, more than 64"));
    EXPECT_EQ(reading.items().error(bad)->id, std::to_string(bad));
    // From a broken first map nothing is inherited.
    EXPECT_EQ(
        reading.error(1 - bad),
        bad == 1 ? "" : "item 1 of the batch: an x- field is broken in item 0, from which it is inherited");
    EXPECT_EQ(reading.error(2).empty(), bad == 1);
  }
}

// ---- writing ------------------------------------------------------------------------------------------

wire::JobOffer offer(std::uint64_t job, std::string_view id) {
  wire::JobOffer offer;
  offer.job = job;
  offer.id = id;
  offer.lane = "high";
  return offer;
}

/// What a batch of these offers and bodies looks like on the wire.
class Written {
 public:
  bool add(const wire::JobOffer& offer, std::string_view body, std::size_t items_max = 16) {
    const BatchItem item = write_item(offer, buffer_);
    if (batch_) return batch_->add(item, body, items_max, buffer_);
    batch_.emplace(item, body, buffer_);
    return true;
  }
  Frame frame() {
    Buffer out;
    batch_->write(buffer_, out);
    return Frame().raw(out.view());
  }

 private:
  Buffer buffer_;
  std::optional<Batch> batch_;
};

TEST(Batch, leaves_out_what_is_shared_with_the_first_item) {
  Written written;
  wire::JobOffer second = offer(2, "b");
  second.timeout_ms = 9;

  written.add(offer(1, "a"), "one");
  written.add(second, "two");

  EXPECT_EQ(written.frame().view(), Frame()
                                        .array(4)
                                        .text("LMQ1")
                                        .text("job")
                                        .array(2)
                                        .map(4)
                                        .field("job", 1)
                                        .field("attempt", 1)
                                        .field("id", "a")
                                        .field("lane", "high")
                                        .map(3)
                                        .field("job", 2)
                                        .field("id", "b")
                                        .field("timeout_ms", 9)
                                        .array(2)
                                        .raw("\xC4\x03one\xC4\x03two")
                                        .view());
}

TEST(Batch, of_one_item_is_an_ordinary_message) {
  Written written, empty;
  Buffer expected, expected_empty;
  encode(offer(1, "a"), "one", expected);
  encode(offer(1, "a"), expected_empty);

  written.add(offer(1, "a"), "one");
  empty.add(offer(1, "a"), "");

  EXPECT_EQ(written.frame().view(), expected.view());
  EXPECT_EQ(empty.frame().view(), expected_empty.view());
}

TEST(Batch, what_is_read_is_what_was_written) {
  const std::string extras(Frame().field("x-a", "1").view());
  std::vector<wire::JobOffer> offers(6, offer(7, "a"));
  offers[1].model = "m";
  offers[1].stream = true;
  offers[2].lane = {};
  offers[2].attempt = 3;
  offers[3].cost = wire::Cost{5, {}};
  offers[4].meta.bytes = "\x01";
  offers[4].extras = {1, extras};
  offers[5].timeout_ms = 12;
  // Each of them first once: every field is inherited, changed and dropped.
  for (std::size_t first = 0; first < offers.size(); ++first) {
    Written written;
    std::vector<const wire::JobOffer*> order;
    for (std::size_t i = 0; i < offers.size(); ++i) {
      const wire::JobOffer& next = offers[(first + i) % offers.size()];
      if (written.add(next, i % 2 == 0 ? "body" : "")) order.push_back(&next);
    }
    EXPECT_EQ(order.size(), first == 4 ? 1u : 6u) << "x- fields are shared by all or by none";

    BatchCommands reading;
    ASSERT_EQ(reading.read(written.frame()), nullptr);

    ASSERT_EQ(reading.items().size(), order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(reading.items().body(i), i % 2 == 0 ? "body" : "");
      Buffer read, expected;
      encode(reading.at<wire::JobOffer>(i), read);
      encode(*order[i], expected);
      EXPECT_EQ(read.view(), expected.view()) << "first " << first << ", item " << i;
    }
  }
}

TEST(Batch, ends_at_its_bounds) {
  Written few;
  EXPECT_TRUE(few.add(offer(1, "a"), "", 2));
  EXPECT_TRUE(few.add(offer(2, "b"), "", 2));
  EXPECT_FALSE(few.add(offer(3, "c"), "", 2));

  // A full header is still one that is read.
  Written wide;
  const std::string meta(Frame().text(std::string(1000, 'm')).view());
  std::size_t items = 0;
  for (bool taken = true; taken; ++items) {
    wire::JobOffer large = offer(items, "a");
    const std::string different(Frame().text(std::string(1000, static_cast<char>('a' + items))).view());
    large.meta.bytes = different;
    taken = wide.add(large, "", 256);
  }
  EXPECT_GT(items, 10u);
  BatchCommands reading;
  EXPECT_EQ(reading.read(wide.frame()), nullptr);

  Written heavy;
  const std::string body(limits::inline_bytes_max, 'b');
  std::size_t bodies = 0;
  while (heavy.add(offer(bodies, "a"), body, 256))
    ++bodies;
  EXPECT_LE(heavy.frame().size(), limits::batch_bytes_max);
  EXPECT_EQ(bodies, 15u);
}

TEST(Batch, allocates_nothing_once_it_is_warm) {
  Buffer buffer, out;
  Decoder decoder;
  Items<wire::WorkerCommand> items;
  const auto round = [&] {
    buffer.clear();
    out.clear();
    std::optional<Batch> batch;
    for (std::uint64_t job = 0; job < 16; ++job) {
      const BatchItem item = write_item(offer(job, "01JB00000000000000000000AB"), buffer);
      if (batch)
        batch->add(item, "a small body", 16, buffer);
      else
        batch.emplace(item, "a small body", buffer);
    }
    batch->write(buffer, out);
    return decoder.decode(out.view(), {}, items) == nullptr && items.size() == 16;
  };
  ASSERT_TRUE(round());

  const AllocationMeter meter;
  ASSERT_TRUE(round());

  EXPECT_LE(meter.bytes(), 1024u) << "msgpack's own stack, once a message";
}

}  // namespace
}  // namespace lanemq
