// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/script.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/upstream/events.hpp"

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

Completion hello() {
  return {
      .id = "1", .request = {.model = "m"}, .answer = {.parts = {{.content = "hello there"}}, .tokens = 3}};
}

std::vector<Script::Piece> play(Script& script) {
  std::vector<Script::Piece> pieces;
  while (auto piece = script.next(0ms))
    pieces.push_back(std::move(*piece));
  return pieces;
}

std::string bytes_of(Script& script) {
  std::string bytes;
  for (const Script::Piece& piece : play(script))
    bytes += piece.bytes;
  return bytes;
}

std::string whole_stream() {
  Script script(chat_api(), hello(), {});
  return bytes_of(script);
}

TEST(Script, sends_a_body_as_it_is) {
  Script script("body", {.delay = 5ms});

  EXPECT_EQ(script.content_length(), 4u);
  EXPECT_EQ(script.due(), 5ms);
  EXPECT_EQ(bytes_of(script), "body");
  EXPECT_EQ(script.due(), std::nullopt);
  EXPECT_EQ(script.finish(), Finish::done);
}

TEST(Script, pauses_behind_a_delta_and_goes_on) {
  Script script(chat_api(), hello(), {.pause_deltas = 1});
  std::string bytes;
  int pauses = 0;
  while (auto piece = script.next(0ms)) {
    bytes += piece->bytes;
    if (!script.paused()) continue;
    ++pauses;
    EXPECT_EQ(script.deltas(), 1u);
  }

  EXPECT_EQ(pauses, 1);
  EXPECT_EQ(bytes, whole_stream());
}

TEST(Script, keeps_the_time_between_deltas) {
  Script script(chat_api(), hello(), {.delay = 50ms, .gap = 20ms});

  std::vector<Duration> times;
  while (const auto due = script.due()) {
    const auto piece = script.next(*due);
    ASSERT_TRUE(piece.has_value());
    EXPECT_EQ(piece->at, *due);
    times.push_back(*due);
  }

  EXPECT_EQ(times, (std::vector<Duration>{50ms, 50ms, 70ms, 90ms, 110ms}));
  EXPECT_EQ(script.deltas(), 3u);
  EXPECT_EQ(script.content_length(), std::nullopt);
}

TEST(Script, breaks_off_between_any_two_bytes) {
  const std::string whole = whole_stream();
  for (std::size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    Script script(chat_api(), hello(), {.bytes_max = bytes, .broken_off = Finish::reset});
    ASSERT_EQ(bytes_of(script), whole.substr(0, bytes));
    ASSERT_EQ(script.finish(), Finish::reset);
  }
  Script script("body", {.bytes_max = 2, .broken_off = Finish::closed});
  EXPECT_EQ(script.content_length(), 4u);
  EXPECT_EQ(bytes_of(script), "bo");
  EXPECT_EQ(script.finish(), Finish::closed);
}

TEST(Script, breaks_off_behind_a_delta_with_and_without_an_error) {
  Script silent(chat_api(), hello(), {.deltas_max = 2, .broken_off = Finish::silent});
  Script loud(chat_api(), hello(),
              {.deltas_max = 2, .broken_off = Finish::done, .error = ApiError{.message = "no", .code = "x"}});

  const std::vector<Event> heard = parse_events(bytes_of(silent));
  const std::vector<Event> told = parse_events(bytes_of(loud));

  EXPECT_EQ(heard.size(), 3u);
  EXPECT_EQ(silent.finish(), Finish::silent);
  EXPECT_EQ(silent.deltas(), 2u);
  ASSERT_EQ(told.size(), 4u);
  EXPECT_EQ(told.back().data["error"]["message"], "no");
  EXPECT_EQ(loud.finish(), Finish::done);
}

TEST(Script, drips) {
  Script script(chat_api(), hello(), {.drip = 1});

  const auto pieces = play(script);

  EXPECT_EQ(pieces.size(), whole_stream().size());
  for (const Script::Piece& piece : pieces)
    ASSERT_EQ(piece.bytes.size(), 1u);
}

TEST(Script, ends_lines_as_it_is_told) {
  std::string expected;
  for (const char byte : whole_stream())
    expected += byte == '\n' ? "\r\n" : std::string(1, byte);

  Script script(chat_api(), hello(), {.line_end = "\r\n"});

  EXPECT_EQ(bytes_of(script), expected);
}

TEST(Script, says_comments_and_pings_before_each_delta) {
  Script script(messages_api(), hello(), {.pings = true, .comments = true});

  const std::string bytes = bytes_of(script);

  std::size_t comments = 0;
  for (std::size_t at = 0; (at = bytes.find(": comment\n\nevent: ping\n", at)) != bytes.npos; ++at)
    ++comments;
  EXPECT_EQ(comments, 3u);
}

TEST(Script, stamps_deltas_with_the_time_they_are_made) {
  Script script(chat_api(), hello(), {.gap = 20ms, .stamps = true, .unix_of_arrival = 1700s});
  script.next(0ms);
  script.next(0ms);

  const auto piece = script.next(21ms);

  EXPECT_EQ(parse_events(piece->bytes).at(0).data["choices"][0]["delta"]["content"], "1700021000 ");
}

}  // namespace
}  // namespace lanemq::upstream
