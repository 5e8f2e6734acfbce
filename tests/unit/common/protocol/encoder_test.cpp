// SPDX-License-Identifier: Apache-2.0
// What is written: lean, in msgpack's shortest forms, with the names of the wire.
#include "tests/unit/common/protocol/frame.hpp"

namespace lanemq {
namespace {

template <class Message>
std::string written(const Message& message) {
  Buffer buffer;
  encode(message, buffer);
  return std::string(buffer.view());
}

template <class Message>
std::string json_of(const Message& message) {
  return to_json(written(message));
}

TEST(Encoder, leaves_out_what_has_its_default) {
  wire::Submit submit;
  submit.service = "echo";
  EXPECT_EQ(json_of(submit), R"(["LMQ1","submit",{"service":"echo"}])");
  EXPECT_EQ(json_of(wire::Fetch{"a", 0, {}, {}}), R"(["LMQ1","fetch",{"id":"a"}])");
  EXPECT_EQ(json_of(wire::StatusQuery{"a", {}, {}}), R"(["LMQ1","status",{"id":"a"}])");
  EXPECT_EQ(json_of(wire::Ping{}), R"(["LMQ1","ping",{}])");
  EXPECT_EQ(json_of(wire::StatsQuery{}), R"(["LMQ1","stats",{}])");

  EXPECT_EQ(json_of(wire::JobResult{"a", "high", 1, 0, 0, {}, 0, {}}),
            R"(["LMQ1","result",{"id":"a","lane":"high"}])");
  EXPECT_EQ(json_of(wire::ErrorReply{{}, "deadline", {}, {}, 1, 0, {}, 0, {}, {}}),
            R"(["LMQ1","error",{"code":"deadline"}])");
  EXPECT_EQ(json_of(wire::Accepted{"a", "low", false, false, 0, {}, {}}),
            R"(["LMQ1","accepted",{"id":"a","lane":"low","position":0}])");

  EXPECT_EQ(json_of(wire::Ready{{"echo"}, 4, {}, {}, {}, 0, {}}),
            R"(["LMQ1","ready",{"services":["echo"],"capacity":4}])");
  EXPECT_EQ(json_of(wire::Outcome{7, 1, {}, {}}), R"(["LMQ1","result",{"job":7}])");
  EXPECT_EQ(json_of(wire::Outcome{7, 2, {}, {}}), R"(["LMQ1","result",{"job":7,"attempt":2}])");
  EXPECT_EQ(json_of(wire::Heartbeat{}), R"(["LMQ1","heartbeat",{}])");
  EXPECT_EQ(json_of(wire::Bye{}), R"(["LMQ1","bye",{}])");
  EXPECT_EQ(json_of(wire::Drain{}), R"(["LMQ1","drain",{}])");
}

TEST(Encoder, always_tells_a_worker_the_attempt) {
  EXPECT_EQ(json_of(wire::JobOffer{}), R"(["LMQ1","job",{"job":0,"attempt":1}])");
  EXPECT_EQ(json_of(wire::CancelJob{7, 1, {}}), R"(["LMQ1","cancel",{"job":7,"attempt":1}])");
}

TEST(Encoder, says_required_numbers_and_lists_also_when_they_are_empty) {
  EXPECT_EQ(json_of(wire::Seen{"a", 0, {}}), R"(["LMQ1","seen",{"id":"a","seq":0}])");
  EXPECT_EQ(json_of(wire::Chunk{1, 1, 0}), R"(["LMQ1","chunk",{"job":1,"seq":0}])");
  EXPECT_EQ(json_of(wire::ChunkReply{"a", 0, {}, 1, 0, {}}), R"(["LMQ1","chunk",{"id":"a","seq":0}])");
  EXPECT_EQ(json_of(wire::Acked{}), R"(["LMQ1","acked",{"jobs":[]}])");
  EXPECT_EQ(json_of(wire::Welcome{}), R"(["LMQ1","welcome",{"heartbeat_ms":1000,"body_bytes_max":0}])");
}

TEST(Encoder, says_every_field_of_a_full_message) {
  wire::Usage usage;
  usage.input_tokens = 0;
  usage.output_tokens = 5;
  Buffer ref;
  wire::JobResult result{"a", "low", 2, 5, 6, usage, 3, number_ref(300, ref)};

  EXPECT_EQ(json_of(result),
            R"(["LMQ1","result",{"id":"a","lane":"low","attempts":2,"queued_ms":5,"ran_ms":6,)"
            R"("usage":{"input_tokens":0,"output_tokens":5},"chunks":3,"ref":300}])");
  EXPECT_EQ(json_of(wire::Acked{{{1, 1}, {300, 2}}}), R"(["LMQ1","acked",{"jobs":[[1,1],[300,2]]}])");
}

TEST(Encoder, starts_headers_with_the_six_bytes) {
  Buffer buffer;
  encode(wire::Ping{}, buffer);
  EXPECT_EQ(buffer.view().substr(0, 6), "\x93\xA4LMQ1");

  buffer.clear();
  encode(wire::Ping{}, "body", buffer);
  EXPECT_EQ(buffer.view(),
            "\x94\xA4LMQ1\xA4ping\x80\xC4\x04"
            "body");
}

TEST(Encoder, writes_behind_what_is_in_the_buffer) {
  Buffer buffer;
  buffer.write("before", 6);

  encode(wire::Bye{}, buffer);

  EXPECT_EQ(buffer.view(), "before" + written(wire::Bye{}));
}

TEST(Encoder, writes_bodies_of_every_size) {
  for (const std::size_t size : {0, 1, 255, 256, 4096, 4097, 65535, 65536, 1 << 20}) {
    Reading<wire::ClientRequest> requests;
    Buffer buffer;
    const std::string body(size, 'b');
    encode(wire::Ping{}, body, buffer);

    ASSERT_EQ(requests.read(buffer.view()), nullptr) << size;
    EXPECT_EQ(requests.body(), body);
  }
}

TEST(Encoder, writes_more_than_fifteen_fields) {
  Reading<wire::ClientRequest> requests;
  Frame extras;
  for (int i = 0; i < 40; ++i)
    extras.field("x-" + std::to_string(i), i);
  wire::Submit submit;
  submit.service = "echo";
  submit.extras = {40, extras.view()};

  const auto& read = requests.expect<wire::Submit>(Frame().raw(written(submit)));

  EXPECT_EQ(read.extras.count, 40u);
  EXPECT_EQ(read.extras.bytes, extras.view());
}

TEST(Encoder, cuts_texts_for_people_to_their_limit) {
  const std::string longest(limits::text_bytes_max, 'm');
  const std::string with_a_character_across = std::string(limits::text_bytes_max - 1, 'm') + "\xC3\xA9";
  const auto read_again = [](const std::string& message) {
    Reading<wire::ClientReply> replies;
    wire::ErrorReply error;
    error.code = "internal";
    error.message = message;
    return std::string(replies.expect<wire::ErrorReply>(Frame().raw(written(error))).message);
  };

  EXPECT_EQ(read_again(longest), longest);
  EXPECT_EQ(read_again(longest + "more"), longest);
  EXPECT_EQ(read_again(with_a_character_across), longest.substr(1));
}

TEST(Encoder, puts_the_ref_into_a_stats_document) {
  const auto document = [](unsigned entries) {
    Frame map = entries < 16 ? Frame().map(entries) : Frame().byte(0xDE).big_endian(entries, 2);
    for (unsigned i = 0; i < entries; ++i)
      map.field("k" + std::to_string(i), 1);
    return map;
  };
  Buffer storage;
  for (const unsigned entries : {0u, 1u, 14u, 15u, 16u, 40u}) {
    const Frame map = document(entries);
    Reading<wire::ClientReply> replies;
    const std::string frame = written(wire::StatsReply{{map.view()}, number_ref(7, storage)});

    const auto& stats = replies.expect<wire::StatsReply>(Frame().raw(frame));

    EXPECT_EQ(ref_number(stats.ref), 7u) << entries;
    EXPECT_EQ(written(wire::StatsReply{{map.view()}, {}}),
              Frame().raw("\x93\xA4LMQ1\xA5stats").raw(map.view()).view());
  }
}

}  // namespace
}  // namespace lanemq
