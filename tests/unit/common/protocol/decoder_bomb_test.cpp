// SPDX-License-Identifier: Apache-2.0
// Frames made to cost much more than they weigh. They are refused soon and nearly nothing is allocated for
// them.
#include <ctime>

#include "tests/unit/common/protocol/allocation_meter.hpp"
#include "tests/unit/common/protocol/frame.hpp"

namespace lanemq {
namespace {

/// The processor's time that this thread has used, in milliseconds: what other programs do does not count.
double thread_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMillisecondsMax = 20;  // sanitized code is many times slower
#else
constexpr double kMillisecondsMax = 1;
#endif
constexpr std::size_t kAllocatedBytesMax = 64 * 1024;

template <class Message>
void expect_cheap_refusal(const Frame& bomb) {
  Decoder decoder;
  Message message;
  double milliseconds = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const AllocationMeter meter;
    const double start = thread_milliseconds();

    const DecodeError* error = decoder.decode(bomb.view(), message);

    milliseconds = std::min(milliseconds, thread_milliseconds() - start);
    EXPECT_NE(error, nullptr);
    EXPECT_LE(meter.bytes(), kAllocatedBytesMax);
  }
  EXPECT_LE(milliseconds, kMillisecondsMax);
}

void expect_refused_everywhere(const Frame& value) {
  const auto in_field = [&](const char* op, const char* key) {
    return Frame::header(op, 1).field(key, value);
  };
  expect_cheap_refusal<wire::ClientRequest>(Frame().array(3).text("LMQ1").text("submit").raw(value.view()));
  for (const char* key : {"service", "cost", "timeout_ms", "stream", "meta", "ref", "x-a", "unknown"}) {
    SCOPED_TRACE(key);
    expect_cheap_refusal<wire::ClientRequest>(in_field("submit", key));
  }
  expect_cheap_refusal<wire::ClientRequest>(in_field("status", "ids"));
  for (const char* key : {"jobs", "unknown"}) {
    SCOPED_TRACE(key);
    expect_cheap_refusal<wire::WorkerReport>(in_field("heartbeat", key));
    expect_cheap_refusal<wire::WorkerCommand>(in_field("acked", key));
  }
  expect_cheap_refusal<wire::WorkerReport>(in_field("ready", "services"));
  expect_cheap_refusal<wire::ClientReply>(in_field("stats", "lanes"));
  expect_cheap_refusal<wire::ClientReply>(in_field("status", "jobs"));
}

Frame repeated(const Frame& part, int times) {
  Frame frame;
  for (int i = 0; i < times; ++i)
    frame.raw(part.view());
  return frame;
}

TEST(Bomb, of_five_bytes_that_claim_a_list_of_4_billion) {
  expect_refused_everywhere(Frame().byte(0xDD).big_endian(0x0FFFFFFF, 4));
  expect_refused_everywhere(Frame().byte(0xDD).big_endian(0xFFFFFFFF, 4));
}

TEST(Bomb, of_five_bytes_that_claim_a_map_of_4_billion) {
  expect_refused_everywhere(Frame().byte(0xDF).big_endian(0xFFFFFFFF, 4));
}

TEST(Bomb, of_five_bytes_that_claim_a_string_of_4_gigabytes) {
  for (const unsigned lead : {0xDBu, 0xC6u, 0xC9u}) {
    SCOPED_TRACE(lead);
    expect_refused_everywhere(Frame().byte(lead).big_endian(0xFFFFFFFF, 4));
    expect_refused_everywhere(Frame().byte(lead).big_endian(0x7FFFFFFF, 4));
  }
}

TEST(Bomb, of_24000_lists_of_65535_inside_each_other) {
  expect_refused_everywhere(repeated(Frame().byte(0xDC).big_endian(0xFFFF, 2), 24000));
}

TEST(Bomb, of_a_million_lists_inside_each_other) {
  expect_refused_everywhere(repeated(Frame().byte(0x91), 1000000));
}

TEST(Bomb, of_a_million_maps_inside_each_other) {
  expect_refused_everywhere(repeated(Frame().map(1).text("k"), 1000000));
}

TEST(Bomb, of_a_million_small_values) {
  expect_refused_everywhere(
      Frame().byte(0xDD).big_endian(1000000, 4).raw(repeated(Frame().nil(), 1000000).view()));
  expect_refused_everywhere(
      Frame().byte(0xDD).big_endian(1000000, 4).raw(repeated(Frame().array(0), 1000000).view()));
  expect_refused_everywhere(
      Frame().byte(0xDD).big_endian(1000000, 4).raw(repeated(Frame().text(""), 1000000).view()));
}

TEST(Bomb, of_a_body_that_claims_4_gigabytes) {
  expect_cheap_refusal<wire::ClientRequest>(Frame::header("ping", 0, 4).byte(0xC6).big_endian(0xFFFFFFFF, 4));
}

TEST(Bomb, of_maps_full_of_keys_that_have_to_be_compared) {
  // The most comparisons that a header has room for.
  Frame map = Frame().map(64);
  for (unsigned i = 0; i < 64; ++i)
    map.text(std::string(1, static_cast<char>('0' + i))).nil();
  Frame frame = Frame::header("ping", 1).text("maps").array(80);
  for (int i = 0; i < 80; ++i)
    frame.raw(map.view());
  frame.byte(0);  // a byte too many: the frame is refused after it was read to its end

  expect_cheap_refusal<wire::ClientRequest>(frame);
}

TEST(Allocations, of_a_header_that_is_taken_stay_below_a_few_times_its_size) {
  Frame leases = Frame::header("heartbeat", 1).text("jobs").array(5400);
  for (int i = 0; i < 5400; ++i)
    leases.array(2).number(1).number(1);
  ASSERT_LE(leases.size(), limits::header_bytes_max);
  Decoder decoder;
  wire::WorkerReport report;
  const AllocationMeter meter;

  ASSERT_EQ(decoder.decode(leases.view(), report), nullptr);

  EXPECT_LE(meter.bytes(), 20 * limits::header_bytes_max);
}

TEST(Allocations, are_one_for_what_the_hot_path_carries) {
  Buffer buffer;
  wire::Submit submit;
  submit.service = "echo";
  submit.lane = "high";
  submit.id = "01J000000000000000000000AB";
  encode(submit, std::string(128, 'b'), buffer);
  Decoder decoder;
  wire::ClientRequest request;
  ASSERT_EQ(decoder.decode(buffer.view(), request), nullptr);
  const AllocationMeter meter;

  ASSERT_EQ(decoder.decode(buffer.view(), request), nullptr);

  EXPECT_LE(meter.bytes(), 256u) << "the parser's own stack";
}

TEST(Allocations, of_an_encoder_that_has_its_room_are_none) {
  Buffer buffer;
  wire::JobOffer offer;
  offer.job = 5;
  offer.lane = "high";
  encode(offer, "body", buffer);
  buffer.clear();
  const AllocationMeter meter;

  encode(offer, "body", buffer);

  EXPECT_EQ(meter.bytes(), 0u);
}

}  // namespace
}  // namespace lanemq
