// SPDX-License-Identifier: Apache-2.0
// The rules of a header as a whole: its form, its sizes, its depth, its keys.
#include "tests/unit/common/protocol/frame.hpp"

namespace lanemq {
namespace {

using Requests = Reading<wire::ClientRequest>;
using Replies = Reading<wire::ClientReply>;
using Reports = Reading<wire::WorkerReport>;
using Commands = Reading<wire::WorkerCommand>;

Frame ping(unsigned fields = 0, unsigned elements = 3) {
  return Frame::header("ping", fields, elements);
}

// ---- the form -----------------------------------------------------------------------------------------

TEST(Header, is_told_by_its_first_six_bytes) {
  EXPECT_TRUE(is_header("\x93\xA4LMQ1"));
  EXPECT_TRUE(is_header("\x94\xA4LMQ1 and more"));

  EXPECT_FALSE(is_header(""));
  EXPECT_FALSE(is_header("\x93\xA4LMQ"));
  EXPECT_FALSE(is_header("\x92\xA4LMQ1"));
  EXPECT_FALSE(is_header("\x95\xA4LMQ1"));
  EXPECT_FALSE(is_header("\x93\xA4LMQ2"));
  EXPECT_FALSE(is_header(Frame().byte(0xDC).big_endian(3, 2).text("LMQ1").view()))
      << "only the shortest forms";
}

TEST(Header, with_four_elements_holds_its_body) {
  EXPECT_TRUE(has_inline_body(ping(0, 4).view()));
  EXPECT_FALSE(has_inline_body(ping().view()));
  EXPECT_FALSE(has_inline_body(""));
}

TEST(Decoder, leaves_frames_of_an_envelope_to_others) {
  Requests requests;

  requests.expect_bad(Frame(), "not an LMQ1 header");
  requests.expect_bad(Frame().raw("\0\0\0\x01"), "not an LMQ1 header");
}

TEST(Decoder, refuses_bytes_behind_the_header) {
  Requests requests;

  requests.expect_bad(ping().nil(), "bytes behind its end");
  requests.expect_bad(ping().raw(ping().view()), "bytes behind its end");
}

TEST(Decoder, refuses_every_truncated_header) {
  Requests requests;
  Frame whole = Frame::header("submit", 3, 4).field("service", "echo").field("id", "a").field("x-n", 1000);
  whole.bin("body");
  ASSERT_EQ(requests.read(whole), nullptr);

  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(requests.read(whole.view().substr(0, size)), nullptr) << size << " bytes were enough";
}

TEST(Decoder, refuses_what_is_no_msgpack) {
  Requests requests;

  requests.expect_bad(ping(1).text("ref").byte(0xC1), "not msgpack");
}

TEST(Decoder, refuses_elements_of_another_type) {
  Requests requests;

  requests.expect_bad(Frame().array(3).text("LMQ1").number(1).map(0), "a header is");
  requests.expect_bad(Frame().array(3).text("LMQ1").nil().map(0), "a header is");
  requests.expect_bad(Frame().array(3).text("LMQ1").bin("ping").map(0), "a header is");
  requests.expect_bad(Frame().array(3).text("LMQ1").text("ping").nil(), "a header is");
  requests.expect_bad(Frame().array(3).text("LMQ1").text("ping").text("x"), "a header is");
  requests.expect_bad(Frame().array(3).text("LMQ1").map(0).map(0), "a header is");
  requests.expect_bad(Frame().array(3).text("LMQ1").array(0).map(0), "a header is");
}

TEST(Decoder, takes_a_body_only_as_bin) {
  Requests requests;
  EXPECT_EQ(requests.read(ping(0, 4).bin("")), nullptr);
  EXPECT_EQ(requests.body(), "");
  EXPECT_EQ(requests.read(ping(0, 4).bin("hello")), nullptr);
  EXPECT_EQ(requests.body(), "hello");

  requests.expect_bad(ping(0, 4).text("hello"), "the body bin");
  requests.expect_bad(ping(0, 4).nil(), "the body bin");
  requests.expect_bad(ping(0, 4).number(1), "the body bin");
  requests.expect_bad(ping(0, 4).array(1).bin("x"), "the body bin");
  requests.expect_bad(ping(0, 4).ext(1, "x"), "the body bin");
}

TEST(Decoder, forgets_the_body_of_the_header_before) {
  Requests requests;
  ASSERT_EQ(requests.read(ping(0, 4).bin("hello")), nullptr);

  ASSERT_EQ(requests.read(ping()), nullptr);

  EXPECT_EQ(requests.body(), "");
}

TEST(Decoder, refuses_a_batch_and_says_so) {
  Requests requests;
  const std::string_view text = "an array of fields is a batch, and none was agreed on this connection";

  requests.expect_bad(Frame().array(3).text("LMQ1").text("submit").array(1).map(1).field("service", "echo"),
                      text);
  requests.expect_bad(Frame().array(3).text("LMQ1").text("submit").array(0), text);
}

TEST(Decoder, names_an_unknown_op_and_escapes_it) {
  Requests requests;

  requests.expect_bad(Frame::header("sumbit", 0), "unknown op \"sumbit\"");
  requests.expect_bad(Frame::header("", 0), "unknown op \"\"");
  requests.expect_bad(Frame::header("a\nb\x1b", 0), "unknown op \"a\\x0ab\\x1b\"");
  requests.expect_bad(Frame::header(std::string(300, 'o'), 0), "unknown op \"ooo");
}

TEST(Decoder, knows_only_the_ops_of_its_direction) {
  Requests requests;
  Replies replies;
  Reports reports;
  Commands commands;

  requests.expect_bad(Frame::header("accepted", 1).field("id", "a"), "unknown op");
  replies.expect_bad(Frame::header("submit", 1).field("service", "a"), "unknown op");
  reports.expect_bad(Frame::header("job", 1).field("job", 1), "unknown op");
  commands.expect_bad(Frame::header("ready", 0), "unknown op");
}

TEST(Decoder, names_the_endpoint_that_an_op_is_for) {
  Requests requests;
  Reports reports;

  requests.expect_bad(Frame::header("ready", 1).field("ref", 7), "connect to the broker's for workers");
  reports.expect_bad(Frame::header("submit", 1).field("ref", 7), "connect to the broker's for clients");
}

// ---- sizes --------------------------------------------------------------------------------------------

/// A ping whose frame has exactly `size` bytes, most of them in fields that nobody knows.
Frame ping_of(std::size_t size) {
  Frame frame = ping(1).text("pad");
  return frame.text(std::string(size - frame.size() - 5, 'p'));
}

TEST(Decoder, takes_a_header_of_the_limit_and_not_a_byte_more) {
  Requests requests;
  ASSERT_EQ(ping_of(limits::header_bytes_max).size(), limits::header_bytes_max);

  EXPECT_EQ(requests.read(ping_of(limits::header_bytes_max)), nullptr);

  requests.expect_too_large(ping_of(limits::header_bytes_max + 1), "16384");
  requests.expect_too_large(ping_of(limits::header_bytes_max + 1), "header_bytes_max");
  requests.expect_too_large(ping_of(1 << 20), "16384");
}

TEST(Decoder, does_not_count_the_body_as_header) {
  Requests requests;
  Frame frame = Frame::header("ping", 1, 4).text("pad");
  const std::size_t head_and_body_head = frame.size() + 5 + 5;

  frame.text(std::string(limits::header_bytes_max - head_and_body_head, 'p')).bin(std::string(100'000, 'b'));

  EXPECT_EQ(requests.read(frame), nullptr);
  EXPECT_EQ(requests.body().size(), 100'000u);
}

TEST(Decoder, counts_headers_in_wide_formats_by_their_real_size) {
  Requests requests;
  Frame frame = ping(1).text("list").array(2000);
  for (int i = 0; i < 2000; ++i)
    frame.byte(0xD3).big_endian(0, 8);

  requests.expect_too_large(frame, "16384");
}

TEST(Decoder, takes_a_body_of_the_limit_and_not_a_byte_more) {
  Requests requests(1000);

  EXPECT_EQ(requests.read(ping(0, 4).bin(std::string(1000, 'b'))), nullptr);

  requests.expect_too_large(ping(0, 4).bin(std::string(1001, 'b')),
                            "1001 bytes, more than 1000 (body_bytes_max)");
}

TEST(Decoder, tells_id_and_ref_of_a_message_with_too_large_a_body) {
  Requests requests(10);
  Frame frame = Frame::header("submit", 3, 4).field("service", "echo").field("id", "mine").field("ref", 7);

  const DecodeError& error = requests.expect_too_large(frame.bin("12345678901"), "body_bytes_max");

  EXPECT_EQ(error.id, "mine");
  EXPECT_EQ(error.ref, "\x07");
}

TEST(Decoder, takes_maps_of_64_entries_and_not_of_65) {
  Requests requests;
  const auto with_entries = [](unsigned count) {
    Frame frame = ping(count);
    for (unsigned i = 0; i < count; ++i)
      frame.field("k" + std::to_string(i), 1);
    return frame;
  };
  const auto nested = [](unsigned count) {
    Frame frame = Frame::header("submit", 2).field("service", "echo").text("meta").map(count);
    for (unsigned i = 0; i < count; ++i)
      frame.field("k" + std::to_string(i), 1);
    return frame;
  };

  EXPECT_EQ(requests.read(with_entries(64)), nullptr);
  EXPECT_EQ(requests.read(nested(64)), nullptr);

  requests.expect_bad(with_entries(65), "a map has 65 entries, more than 64 (map_entries_max)");
  requests.expect_bad(nested(65), "a map has 65 entries, more than 64 (map_entries_max)");
}

TEST(Decoder, takes_containers_at_depth_8_and_not_at_9) {
  Requests requests;
  // The header is depth 1, the fields 2, the value of a field 3.
  const auto nested = [](const char* key, int containers) {
    Frame frame = Frame::header("submit", 2).field("service", "echo").text(key);
    for (int i = 0; i < containers; ++i)
      i % 2 == 0 ? frame.array(1) : frame.map(1).text("k");
    return frame.number(1);
  };
  for (const char* key : {"meta", "x-deep", "unknown"}) {
    EXPECT_EQ(requests.read(nested(key, 6)), nullptr) << key;

    requests.expect_bad(nested(key, 7), "nests deeper than 8 (header_depth_max)");
  }
}

TEST(Decoder, refuses_more_entries_than_there_are_bytes) {
  Requests requests;

  requests.expect_bad(ping(1).text("a").byte(0xDD).big_endian(0xFFFFFFFF, 4),
                      "more entries than there are bytes");
  requests.expect_bad(ping(1).text("a").byte(0xDD).big_endian(1000, 4).number(1),
                      "more entries than there are");
  requests.expect_bad(ping(1).text("a").byte(0xDF).big_endian(0xFFFFFFFF, 4), "a map has 4294967295 entries");
  requests.expect_bad(Frame().array(3).text("LMQ1").text("ping").byte(0x8F).nil(),
                      "more entries than there are");
}

// ---- keys ---------------------------------------------------------------------------------------------

TEST(Decoder, refuses_duplicate_keys_at_every_depth) {
  Requests requests;
  const Frame twice = Frame().map(2).field("k", 1).field("k", 2);

  requests.expect_bad(ping(2).field("ref", 1).field("ref", 1), "duplicate key \"ref\"");
  requests.expect_bad(ping(3).field("u", 1).field("v", 1).field("u", 2), "duplicate key \"u\"");
  requests.expect_bad(Frame::header("submit", 3).field("service", "e").field("x-a", 1).field("x-a", 2),
                      "\"x-a\"");
  for (const char* key : {"meta", "trace", "x-m", "unknown"}) {
    requests.expect_bad(Frame::header("submit", 2).field("service", "e").field(key, twice),
                        "duplicate key \"k\"");
    const Frame deeper = Frame().array(1).map(1).field("m", twice);
    requests.expect_bad(Frame::header("submit", 2).field("service", "e").field(key, deeper),
                        "duplicate key \"k\"");
  }
  const Frame cost = Frame().map(2).field("input_tokens", 1).field("input_tokens", 2);
  requests.expect_bad(Frame::header("submit", 2).field("service", "e").field("cost", cost),
                      "\"input_tokens\"");
}

TEST(Decoder, refuses_a_duplicate_key_whose_value_is_nil) {
  Requests requests;

  requests.expect_bad(ping(2).text("ref").nil().field("ref", 1), "duplicate key \"ref\"");
}

TEST(Decoder, takes_equal_keys_in_different_maps) {
  Requests requests;
  const Frame one = Frame().map(2).field("k", 1).field("m", Frame().map(1).field("k", 1));

  EXPECT_EQ(requests.read(Frame::header("submit", 4)
                              .field("service", "e")
                              .field("k", 1)
                              .field("meta", Frame().array(2).raw(one.view()).raw(one.view()))
                              .field("trace", one)),
            nullptr);
}

TEST(Decoder, refuses_keys_that_are_no_strings_at_every_depth) {
  Requests requests;
  const std::string_view text = "a key of a map is not a string";
  const Frame keys[] = {Frame().number(1),         Frame().negative(-1), Frame().nil(),
                        Frame().boolean(true),     Frame().bin("k"),     Frame().float64(1.5),
                        Frame().ext(1, "k"),       Frame().array(0),     Frame().map(0),
                        Frame().array(1).text("k")};
  for (const Frame& key : keys) {
    requests.expect_bad(ping(1).raw(key.view()).number(1), text);
    for (const char* field : {"meta", "unknown", "cost"})
      requests.expect_bad(Frame::header("submit", 1).field(field, Frame().map(1).raw(key.view()).number(1)),
                          text);
  }
}

TEST(Decoder, refuses_strings_that_are_not_utf8_wherever_they_stand) {
  Requests requests;
  const std::string bad = "a\xFFz";
  const auto submit = [] { return Frame::header("submit", 2).field("service", "echo"); };

  requests.expect_bad(Frame::header("submit", 1).field("service", bad), "field \"service\" is not UTF-8");
  requests.expect_bad(ping(1).field("ref", bad), "field \"ref\" is not UTF-8");
  for (const char* key : {"meta", "trace", "x-s", "unknown"}) {
    requests.expect_bad(submit().field(key, bad), "not UTF-8");
    requests.expect_bad(submit().field(key, Frame().map(1).field("k", bad)), "not UTF-8");
    requests.expect_bad(submit().field(key, Frame().map(1).field(bad, 1)), "not UTF-8");
  }
  requests.expect_bad(submit().field(bad, 1), "not UTF-8");
  requests.expect_bad(Frame::header("status", 1).field("ids", Frame().array(1).text(bad)), "not UTF-8");
}

// ---- reading on after an error ------------------------------------------------------------------------

TEST(Decoder, tells_id_and_ref_that_stand_behind_the_error) {
  Requests requests;
  Frame frame = Frame::header("submit", 4).field("service", 5).field("lane", 6);

  const DecodeError& error =
      requests.expect_bad(frame.field("id", "mine").field("ref", "r"), "field \"service\"");

  EXPECT_EQ(error.id, "mine");
  EXPECT_EQ(error.ref, "\xA1r");
}

TEST(Decoder, tells_id_and_ref_of_an_unknown_op) {
  Requests requests;

  const DecodeError& error =
      requests.expect_bad(Frame::header("sumbit", 2).field("id", "mine").field("ref", 300), "unknown op");

  EXPECT_EQ(error.id, "mine");
  EXPECT_EQ(error.ref, Frame().number(300).view());
}

TEST(Decoder, tells_id_and_ref_of_a_header_with_a_duplicate_key) {
  Requests requests;
  Frame frame = Frame::header("submit", 5).field("lane", "a").field("lane", "b");

  const DecodeError& error = requests.expect_bad(
      frame.field("service", "e").field("id", "mine").field("ref", 9), "duplicate key \"lane\"");

  EXPECT_EQ(error.id, "mine");
  EXPECT_EQ(error.ref, "\x09");
}

TEST(Decoder, tells_id_and_ref_read_before_a_header_breaks_off) {
  Requests requests;
  Frame frame = Frame::header("submit", 3).field("id", "mine").field("ref", 9).text("service");

  const DecodeError& error = requests.expect_bad(frame, "ends too early");

  EXPECT_EQ(error.id, "mine");
  EXPECT_EQ(error.ref, "\x09");
}

TEST(Decoder, tells_no_id_and_no_ref_that_break_their_rules) {
  Requests requests;
  Frame frame = Frame::header("submit", 3).field("service", "e").field("id", std::string(129, 'i'));

  const DecodeError& error = requests.expect_bad(frame.field("ref", std::string(65, 'r')), "field \"id\"");

  EXPECT_EQ(error.id, "");
  EXPECT_EQ(error.ref, "");
}

TEST(Decoder, forgets_the_error_before) {
  Requests requests;
  requests.expect_bad(Frame::header("submit", 2).field("id", "mine").field("ref", 1),
                      "\"service\" is missing");

  const DecodeError& error = requests.expect_bad(Frame::header("submit", 0), "\"service\" is missing");

  EXPECT_EQ(error.id, "");
  EXPECT_EQ(error.ref, "");
}

TEST(Decoder, reports_the_first_of_several_errors) {
  Requests requests;

  requests.expect_bad(Frame::header("submit", 2).field("lane", 1).field("model", 2), "field \"lane\"");
}

}  // namespace
}  // namespace lanemq
