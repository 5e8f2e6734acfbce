// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/sse/sse_parser.hpp"

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace lanemq::worker {
namespace {

/// An event with data, as somebody who reads the stream sees it.
struct Seen {
  std::string name, data;
  friend bool operator==(const Seen&, const Seen&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Seen& event) {
    return out << '[' << event.name << '|' << event.data << ']';
  }
};

/// What came of a stream.
struct Parsed {
  std::vector<Seen> events;
  std::vector<std::string> raw;  ///< of all events, those without data too
  std::string all, rest;         ///< the raw bytes in one; what is in no event
  bool too_long = false;

  void take_in(SseParser& parser, std::string_view bytes) {
    SseEvent event;
    parser.feed(bytes);
    for (;;) {
      switch (parser.next(event)) {
        case SseParser::Found::too_long:
          too_long = true;
          return;
        case SseParser::Found::nothing:
          return;
        case SseParser::Found::event:
          raw.emplace_back(event.raw);
          all += event.raw;
          if (event.has_data) events.push_back({std::string(event.name), std::string(event.data)});
      }
    }
  }
};

Parsed parse_pieces(const std::vector<std::string>& pieces) {
  SseParser parser;
  Parsed parsed;
  for (const std::string& piece : pieces)
    parsed.take_in(parser, std::string(piece));  // of its own: nothing may be kept of it
  parsed.rest = parser.rest();
  return parsed;
}

Parsed parse_whole(const std::string& text) {
  return parse_pieces({text});
}

/// The events of a whole stream, straight from the standard.
std::vector<Seen> reference(std::string text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  std::string lines;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    lines += text[i] == '\r' ? '\n' : text[i];
  }
  std::vector<Seen> events;
  Seen event;
  bool has_data = false;
  for (std::size_t end = lines.find('\n'); end != std::string::npos; end = lines.find('\n')) {
    const std::string line = lines.substr(0, end);
    lines.erase(0, end + 1);
    if (line.empty()) {
      if (has_data) events.push_back(event);
      event = {};
      has_data = false;
      continue;
    }
    const std::size_t colon = line.find(':');
    std::string value = colon == std::string::npos ? "" : line.substr(colon + 1);
    if (value.starts_with(" ")) value.erase(0, 1);
    if (line.substr(0, colon) == "event") event.name = value;
    if (line.substr(0, colon) != "data") continue;
    event.data += has_data ? "\n" + value : value;
    has_data = true;
  }
  return events;
}

TEST(SseParser, reads_names_and_data) {
  const Parsed parsed = parse_whole("event: a\ndata: one\n\ndata:two\ndata:  three\nid: 4\n\n");

  EXPECT_EQ(parsed.events, (std::vector<Seen>{{"a", "one"}, {"", "two\n three"}}));
  EXPECT_EQ(parsed.raw,
            (std::vector<std::string>{"event: a\ndata: one\n\n", "data:two\ndata:  three\nid: 4\n\n"}));
}

TEST(SseParser, joins_lines_of_data_that_are_empty) {
  EXPECT_EQ(parse_whole("data\ndata:\ndata: \ndata:x\n\n").events, (std::vector<Seen>{{"", "\n\n\nx"}}));
}

TEST(SseParser, takes_all_three_line_ends_also_mixed) {
  const std::vector<Seen> expected{{"a", "1"}, {"", "2\n3"}};
  EXPECT_EQ(parse_whole("event:a\rdata:1\r\rdata:2\rdata:3\r\r").events, expected);
  EXPECT_EQ(parse_whole("event:a\r\ndata:1\r\n\r\ndata:2\r\ndata:3\r\n\r\n").events, expected);
  EXPECT_EQ(parse_whole("event:a\rdata:1\r\n\rdata:2\ndata:3\r\n\n").events, expected);
}

TEST(SseParser, a_comment_in_front_of_an_event_stands_apart) {
  const Parsed parsed = parse_whole(": ka\ndata: 1\n: inside\n\n: ping\n\n");

  EXPECT_EQ(parsed.raw, (std::vector<std::string>{": ka\n", "data: 1\n: inside\n\n", ": ping\n", "\n"}));
  EXPECT_EQ(parsed.events, (std::vector<Seen>{{"", "1"}}));
}

TEST(SseParser, a_byte_order_mark_is_part_of_no_line) {
  EXPECT_EQ(parse_whole("\xEF\xBB\xBF"
                        "data: 1\n\n")
                .events,
            (std::vector<Seen>{{"", "1"}}));
  EXPECT_EQ(parse_whole("data: 1\n\n\xEF\xBB\xBF"
                        "data: 2\n\n")
                .events,
            (std::vector<Seen>{{"", "1"}}));
}

TEST(SseParser, an_event_after_a_return_is_not_kept_waiting_for_a_line_feed) {
  SseParser parser;
  Parsed parsed;

  parsed.take_in(parser, "data: 1\r\n\r");
  EXPECT_EQ(parsed.events.size(), 1u);
  parsed.take_in(parser, "\ndata: 2\r\n\r\n");

  EXPECT_EQ(parsed.raw, (std::vector<std::string>{"data: 1\r\n\r", "\ndata: 2\r\n\r\n"}));
  EXPECT_EQ(parsed.events, (std::vector<Seen>{{"", "1"}, {"", "2"}}));
}

TEST(SseParser, what_breaks_off_is_left_and_can_be_read) {
  SseParser parser;
  Parsed parsed;
  parsed.take_in(parser, "data: 1\n\ndata: [DO");
  parsed.take_in(parser, "NE]");

  EXPECT_EQ(parser.rest(), "data: [DONE]");
  EXPECT_EQ(parser.last_event().data, "[DONE]");
}

TEST(SseParser, cuts_a_stream_the_same_wherever_its_bytes_are_cut) {
  const std::string text =
      "\xEF\xBB\xBF: hi\r\n\r\nevent: a\ndata: \xC3\xA9\xF0\x9F\x98\x80\ndata\n\n\rdata: x\r\rdata: y\r\n\r\n"
      "event: only\n\ndata: tail\n";
  const Parsed whole = parse_whole(text);
  ASSERT_EQ(whole.events, reference(text));
  ASSERT_EQ(whole.all + whole.rest, text);

  for (std::size_t first = 0; first <= text.size(); ++first)
    for (std::size_t second = first; second <= text.size(); ++second) {
      const Parsed cut =
          parse_pieces({text.substr(0, first), text.substr(first, second - first), text.substr(second)});
      ASSERT_EQ(cut.events, whole.events) << first << ' ' << second;
      ASSERT_EQ(cut.all + cut.rest, text) << first << ' ' << second;
    }
}

TEST(SseParser, bounds_an_event) {
  const std::size_t fits = SseParser::kEventBytesMax - std::string_view("data: \n\n").size();
  EXPECT_EQ(parse_whole("data: " + std::string(fits, 'x') + "\n\n").events.size(), 1u);

  EXPECT_TRUE(parse_whole("data: 1\n\ndata: " + std::string(fits + 1, 'x') + "\n\n").too_long);
  EXPECT_TRUE(parse_whole(std::string(SseParser::kEventBytesMax + 1, 'x')).too_long);
  std::string lines;
  while (lines.size() <= SseParser::kEventBytesMax)
    lines += "data: and one more\n";
  const Parsed parsed = parse_pieces({"data: 1\n\n", lines, "data: 2\n\n"});
  EXPECT_TRUE(parsed.too_long);
  EXPECT_EQ(parsed.events.size(), 1u) << "what came before it counts";
}

RC_GTEST_PROP(SseParser, agrees_with_the_standard_however_it_is_cut, ()) {
  const std::vector<std::string> words{"\n",      "\r",       "\r\n", "\n\n",        "data: a", "data:b",
                                       "data",    "event: x", ": c",  "\xC3\xA9",    "id:1",    " ",
                                       "event:y", "data: {}", ":",    "\xEF\xBB\xBF"};
  const auto chosen = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(words));
  std::string text;
  for (const std::string& word : chosen)
    text += word;
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const auto size = *rc::gen::inRange<std::size_t>(1, 9);
    pieces.push_back(text.substr(at, size));
    at += size;
  }

  const Parsed parsed = parse_pieces(pieces);

  RC_ASSERT(parsed.events == reference(text));
  RC_ASSERT(parsed.all + parsed.rest == text);
}

}  // namespace
}  // namespace lanemq::worker
