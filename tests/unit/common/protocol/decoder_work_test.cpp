// SPDX-License-Identifier: Apache-2.0
// What reading costs grows with the bytes that came and with nothing else: counted in bytes and comparisons,
// which are the same on every machine.
#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "tests/fuzz/heavy_shapes.hpp"
#include "tests/unit/common/protocol/frame.hpp"

namespace lanemq {
namespace {

class HeavyShapes : public testing::TestWithParam<std::size_t> {
 protected:
  const fuzz::HeavyShape shape_ = fuzz::heavy_shapes(limits::header_bytes_max)[GetParam()];
  Decoder decoder_;
  Items<wire::ClientRequest> items_;
};

TEST_P(HeavyShapes, cost_what_their_bytes_and_what_they_inherit_cost) {
  SCOPED_TRACE(shape_.name);
  ASSERT_LE(shape_.frame.size(), limits::header_bytes_max);
  ASSERT_GE(shape_.frame.size(), limits::header_bytes_max / 20) << "it has room for more";

  const DecodeError* const error = decoder_.decode(shape_.frame, {}, items_);

  EXPECT_LE(decoder_.work(), shape_.frame.size() * Decoder::kWorkPerByte + limits::batch_inherited_bytes_max)
      << (error == nullptr ? "" : error->message);
}

TEST_P(HeavyShapes, that_are_batches_cost_a_pass_at_most_where_none_was_agreed) {
  class NoBatches final : public BatchRule {
   public:
    std::string refusal(std::size_t maps, std::int64_t) const override {
      ++asked;
      return "a batch of " + std::to_string(maps) + " maps, and none was agreed";
    }
    mutable int asked = 0;
  } rule;

  const DecodeError* const error = decoder_.decode(shape_.frame, {}, items_, &rule);

  if (rule.asked == 0) GTEST_SKIP() << "no batch";
  ASSERT_NE(error, nullptr);
  EXPECT_NE(error->message.find("none was agreed"), std::string::npos) << error->message;
  EXPECT_EQ(rule.asked, 1);
  EXPECT_TRUE(items_.empty());
  EXPECT_LE(decoder_.work(), 3 * shape_.frame.size()) << "maps behind the first one were read";
}

INSTANTIATE_TEST_SUITE_P(All, HeavyShapes,
                         testing::Range<std::size_t>(0, fuzz::heavy_shapes(limits::header_bytes_max).size()));

/// A batch whose first map has a meta of so many bytes, and an `x-` field, and whose others have an `x-`
/// field of their own.
Frame inheriting(std::size_t meta_bytes, unsigned items) {
  Frame frame = Frame().array(3).text("LMQ1").text("submit").array(items);
  frame.map(3).field("service", "echo").text("meta").bin(std::string(meta_bytes, 'm')).field("x-a", "first");
  for (unsigned i = 1; i < items; ++i)
    frame.map(1).field("x-b", static_cast<int>(i));
  return frame;
}

TEST(Inheriting, ends_at_its_limit_for_the_maps_beyond_it_alone) {
  constexpr std::size_t kMetaBytes = 8192;
  const Frame frame = inheriting(kMetaBytes, 200);
  Decoder decoder;
  Items<wire::ClientRequest> items;

  ASSERT_EQ(decoder.decode(frame.view(), {}, items), nullptr);

  ASSERT_EQ(items.size(), 200u);
  std::size_t taken = 1;
  while (taken < items.size() && items.error(taken) == nullptr)
    ++taken;
  EXPECT_NEAR(static_cast<double>(taken), 1.0 * limits::batch_inherited_bytes_max / kMetaBytes, 2);
  const auto& last = std::get<wire::Submit>(items[taken - 1]);
  EXPECT_EQ(last.meta.bytes.size(), kMetaBytes + 5);
  EXPECT_EQ(last.extras.count, 2u);
  ASSERT_LT(taken, items.size());
  for (std::size_t i = taken; i < items.size(); ++i) {
    ASSERT_NE(items.error(i), nullptr);
    EXPECT_EQ(items.error(i)->code, ErrorCode::too_large);
    EXPECT_NE(items.error(i)->message.find("batch_inherited_bytes_max"), std::string::npos);
  }
}

TEST(Inheriting, is_never_more_than_its_limit_in_a_batch_that_is_written_here) {
  const std::string meta = "\xC5\x17\x70" + std::string(6000, 'm');
  wire::Submit submit;
  submit.service = "echo";
  submit.meta.bytes = meta;
  Buffer buffer, out;
  std::optional<Batch> batch;
  std::size_t written = 0;
  for (; written < limits::batch_items_max; ++written) {
    const BatchItem item = write_item(submit, buffer);
    if (!batch)
      batch.emplace(item, "", buffer);
    else if (!batch->add(item, "", limits::batch_items_max, buffer))
      break;
  }
  batch->write(buffer, out);
  Decoder decoder;
  Items<wire::ClientRequest> items;

  ASSERT_EQ(decoder.decode(out.view(), {}, items), nullptr);

  EXPECT_LT(written, limits::batch_items_max);
  EXPECT_GT(written, 50u);
  ASSERT_EQ(items.size(), written);
  for (std::size_t i = 0; i < items.size(); ++i)
    EXPECT_EQ(items.error(i), nullptr) << items.error(i)->message;
}

TEST(Inheriting, leaves_out_the_ids_of_a_status) {
  const Frame frame = Frame()
                          .array(3)
                          .text("LMQ1")
                          .text("status")
                          .array(2)
                          .map(1)
                          .text("ids")
                          .array(1)
                          .text("a")
                          .map(1)
                          .field("id", "b");
  Decoder decoder;
  Items<wire::ClientRequest> items;

  ASSERT_EQ(decoder.decode(frame.view(), {}, items), nullptr);

  EXPECT_EQ(std::get<wire::StatusQuery>(items[0]).ids.size(), 1u);
  EXPECT_TRUE(std::get<wire::StatusQuery>(items[1]).ids.empty());
}

}  // namespace
}  // namespace lanemq
