// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/unit/common/protocol/frame.hpp"

namespace lanemq {
namespace {

TEST(DocumentWriter, writes_what_is_read_as_json) {
  Buffer buffer;
  DocumentWriter document(buffer);

  document.map(5)
      .text("text")
      .text("a\"b")
      .text("numbers")
      .array(3)
      .integer(-1)
      .integer(1'700'000'000'000)
      .number(0.25);
  document.text("yes").boolean(true).text("empty").map(0).text("").array(0);

  EXPECT_EQ(to_json(buffer.view()),
            R"({"text":"a\"b","numbers":[-1,1700000000000,0.25],"yes":true,"empty":{},"":[]})");
}

TEST(DocumentWriter, writes_a_whole_number_as_a_number_of_the_same_type) {
  Buffer buffer;
  DocumentWriter document(buffer);

  document.number(2);

  EXPECT_EQ(buffer.view(), Frame().float64(2).view());
}

TEST(Json, shows_every_type_of_msgpack_as_valid_json) {
  const auto json = [](const Frame& frame) { return to_json(frame.view()); };

  EXPECT_EQ(json(Frame().nil()), "null");
  EXPECT_EQ(json(Frame().number(~0ull)), "18446744073709551615");
  EXPECT_EQ(json(Frame().negative(std::numeric_limits<std::int64_t>::min())), "-9223372036854775808");
  EXPECT_EQ(json(Frame().float64(0.1)), "0.1");
  EXPECT_EQ(json(Frame().float64(1e300)), "1e+300");
  EXPECT_EQ(json(Frame().float64(std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(json(Frame().float64(std::numeric_limits<double>::quiet_NaN())), "null");
  EXPECT_EQ(json(Frame().text("ü\n\x7F\\")), R"("ü\u000a\u007f\\")");
  EXPECT_EQ(json(Frame().bin("a\xFF")), R"("a\u00ff")");
  EXPECT_EQ(json(Frame().ext(1, "x")), "null");
  EXPECT_EQ(json(Frame().array(2).array(1).number(1).array(0)), "[[1],[]]");
  EXPECT_EQ(json(Frame().map(2).field("[", "{").field("k", Frame().map(1).field("a", 1))),
            R"({"[":"{","k":{"a":1}})");
}

TEST(Json, is_empty_for_what_is_not_one_value_within_the_limits) {
  const auto json = [](const Frame& frame) { return to_json(frame.view()); };
  Frame deep;
  for (int i = 0; i < 9; ++i)
    deep.array(1);

  EXPECT_EQ(json(Frame()), "");
  EXPECT_EQ(json(Frame().byte(0xC1)), "");
  EXPECT_EQ(json(Frame().array(2).nil()), "");
  EXPECT_EQ(json(Frame().nil().nil()), "");
  EXPECT_EQ(json(Frame().map(1).number(1).number(2)), "") << "keys of JSON are strings";
  EXPECT_EQ(json(Frame().map(1).array(1).text("k").number(2)), "");
  EXPECT_EQ(json(deep.nil()), "");
  EXPECT_EQ(json(Frame().text(std::string(limits::header_bytes_max, 'a'))), "");
}

TEST(Buffer, keeps_its_memory_and_its_content_while_it_grows) {
  Buffer buffer;
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string part(static_cast<std::size_t>(i % 37), static_cast<char>('a' + i % 26));
    buffer.write(part.data(), part.size());
    expected += part;
  }
  EXPECT_EQ(buffer.view(), expected);

  const char* place = buffer.view().data();
  buffer.clear();
  buffer.write("x", 1);

  EXPECT_EQ(buffer.view(), "x");
  EXPECT_EQ(buffer.view().data(), place);
}

TEST(Buffer, gives_back_room_that_was_not_used) {
  Buffer buffer;
  buffer.write("ab", 2);

  char* place = buffer.extend(100);
  place[0] = 'c';
  buffer.end_at(place + 1);

  EXPECT_EQ(buffer.view(), "abc");
}

}  // namespace
}  // namespace lanemq
