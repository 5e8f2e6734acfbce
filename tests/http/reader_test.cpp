// SPDX-License-Identifier: Apache-2.0
// The table of requests against the reader: whole, byte by byte, cut in two at every place, cut at random.
#include <algorithm>
#include <random>
#include <sstream>

#include <gtest/gtest.h>

#include "common/http/request_reader.hpp"
#include "tests/http/checks.hpp"
#include "tests/http/shapes.hpp"

namespace lanemq::http::test {
namespace {

constexpr std::size_t kWhole = SIZE_MAX;

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kAll = read_shapes(LANEMQ_HTTP_SHAPES);
  return kAll;
}

bool allows(const std::string& wants, const std::string& does) {
  if (wants == "any") return true;
  std::istringstream rest(wants);
  for (std::string one; std::getline(rest, one, '|');)
    if (one == does) return true;
  return false;
}

TEST(RequestShapes, are_many_and_every_difference_is_argued) {
  EXPECT_GE(shapes().size(), 120u);
  for (const Shape& shape : shapes()) {
    EXPECT_FALSE(shape.bytes.empty() || shape.wants.empty() || shape.does.empty()) << shape.name;
    EXPECT_TRUE(allows(shape.wants, shape.does) || !shape.why.empty()) << shape.name;
    EXPECT_EQ(std::count_if(shapes().begin(), shapes().end(),
                            [&](const Shape& other) { return other.name == shape.name; }),
              1)
        << shape.name;
  }
}

TEST(RequestShapes, are_read_as_the_table_says) {
  for (const Shape& shape : shapes())
    EXPECT_EQ(reading_of(shape.bytes, [] { return kWhole; }).does, shape.does) << shape.name;
}

TEST(RequestShapes, are_read_alike_byte_by_byte) {
  for (const Shape& shape : shapes())
    EXPECT_EQ(reading_of(shape.bytes, [] { return std::size_t{1}; }).all,
              reading_of(shape.bytes, [] { return kWhole; }).all)
        << shape.name;
}

TEST(RequestShapes, are_read_alike_cut_in_two_at_every_place) {
  for (const Shape& shape : shapes()) {
    if (shape.bytes.size() > 2'000) continue;  // the ends are what matters: the next test cuts them
    const std::string whole = reading_of(shape.bytes, [] { return kWhole; }).all;
    for_every_cut(shape.bytes, [&](std::size_t place, const Reading& reading) {
      ASSERT_EQ(reading.all, whole) << shape.name << ", cut behind " << place << " bytes";
    });
  }
}

TEST(RequestShapes, are_read_alike_cut_at_random) {
  std::mt19937 random(7);
  for (const Shape& shape : shapes()) {
    const std::string whole = reading_of(shape.bytes, [] { return kWhole; }).all;
    for (int i = 0; i < 20; ++i) {
      std::uniform_int_distribution<std::size_t> size(1, std::size_t{1} << (i % 12));
      ASSERT_EQ(reading_of(shape.bytes, [&] { return size(random); }).all, whole) << shape.name;
    }
  }
}

TEST(RequestShapes, are_read_alike_one_behind_the_other) {
  for (const Shape& first : shapes()) {
    if (first.does.find_first_of("0123456789w") != std::string::npos ||
        first.does.find("close") != std::string::npos)
      continue;
    for (const Shape& second : shapes()) {
      if (second.bytes.size() > 2'000) continue;
      // What is behind a request is read as if nothing were before it, but that empty lines may be.
      EXPECT_EQ(reading_of(first.bytes + second.bytes, [] { return kWhole; }).does,
                first.does + " " + second.does)
          << first.name << ", then " << second.name;
    }
  }
}

TEST(RequestShapes, are_read_alike_when_bytes_of_them_are_others) {
  std::mt19937 random(11);
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = shapes()[below(shapes().size())].bytes.substr(0, 250);
    for (std::size_t changes = below(4); changes > 0 && !bytes.empty(); --changes) {
      const std::size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes.erase(at, 1 + below(8));
          break;
        case 2:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(30)));
          break;
        default:
          bytes[at] = "\r\n :;,0fF/%\t"[below(12)];
      }
    }
    ASSERT_NO_THROW(check_cuts(bytes)) << bytes;
  }
}

TEST(RequestReader, hands_the_head_out_before_any_body) {
  RequestReader reader{ReaderLimits{}};
  const std::string bytes = "POST /a?b HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\nX-A:  b \r\n\r\nhello";

  const auto head = reader.take(bytes);

  EXPECT_EQ(head.event, RequestReader::Event::head);
  EXPECT_EQ(bytes.substr(head.bytes), "hello");
  EXPECT_EQ(reader.head().method, "POST");
  EXPECT_EQ(reader.head().path, "/a");
  EXPECT_EQ(reader.head().query, "b");
  EXPECT_EQ(reader.head().authority, "g");
  EXPECT_EQ(reader.head().content_length, 5u);
  ASSERT_EQ(reader.head().fields.size(), 3u);
  EXPECT_EQ(reader.head().fields[2], std::pair(std::string("x-a"), std::string("b")));
}

TEST(RequestReader, refuses_an_announced_body_before_a_byte_of_it) {
  RequestReader reader{ReaderLimits{}};
  const std::string bytes = "POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 11\r\n\r\n";
  ASSERT_EQ(reader.take(bytes).event, RequestReader::Event::head);

  reader.limit_body(10);

  EXPECT_EQ(reader.take({}).event, RequestReader::Event::refusal);
  EXPECT_EQ(reader.refusal().status, 413);
}

TEST(RequestReader, takes_the_authority_from_the_target_where_both_name_one) {
  RequestReader reader{ReaderLimits{}};

  reader.take("GET HTTP://g:80/ HTTP/1.1\r\nHost: other\r\n\r\n");

  EXPECT_EQ(reader.head().authority, "g:80");
}

TEST(RequestReader, keeps_to_its_limits_to_the_byte) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: g\r\n\r\n";
  for (const std::size_t limit : {bytes.size() - 1, bytes.size()}) {
    RequestReader reader{ReaderLimits{.head_bytes_max = limit}};
    EXPECT_EQ(reader.take(bytes).event,
              limit < bytes.size() ? RequestReader::Event::refusal : RequestReader::Event::head);
  }
}

}  // namespace
}  // namespace lanemq::http::test
