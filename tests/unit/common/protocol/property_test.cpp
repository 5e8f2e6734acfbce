// SPDX-License-Identifier: Apache-2.0
// What holds for every message and for every sequence of bytes, tried with random ones.
#include <deque>
#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <lanemq/text.hpp>

#include "common/protocol/src/field_table.hpp"
#include "tests/fuzz/frames.hpp"
#include "tests/unit/common/protocol/allocation_meter.hpp"
#include "tests/unit/common/protocol/frame.hpp"

namespace lanemq {
namespace {

using wire::FieldSpec;
using wire::FieldType;

std::int64_t any_number(std::int64_t min, std::int64_t max) {
  const std::int64_t near = max - min > 1000 ? min + 1000 : max;
  return *rc::gen::oneOf(rc::gen::element(min, max, min + (max - min) / 2), rc::gen::inRange(min, near),
                         rc::gen::inRange(min, max));
}

/// Makes random messages by the table of fields, and keeps the texts that they point to.
class Maker {
 public:
  template <class Message>
  Message make() {
    Message message;
    for (const FieldSpec& spec : wire::Spec<Message>::op.fields)
      fill(spec, spec.at(&message));
    if constexpr (requires { message.extras; }) message.extras = extras();
    if constexpr (requires { message.document; }) message.document = raw(map_bytes(2));
    return message;
  }
  std::string_view text(std::size_t min, std::size_t max) {
    static const std::vector<std::string_view> kPieces = {"a", "Z", "-", " ", "\"", "\n", "é", "模", "🚀"};
    const auto size = static_cast<std::size_t>(any_number(
        static_cast<std::int64_t>(min), static_cast<std::int64_t>(std::min<std::size_t>(max, 600))));
    std::string bytes;
    while (bytes.size() < size) {
      const std::string_view piece = *rc::gen::elementOf(kPieces);
      bytes += bytes.size() + piece.size() <= size ? piece : "x";
    }
    return texts_.emplace_back(std::move(bytes));
  }

 private:
  static bool chance() { return *rc::gen::arbitrary<bool>(); }

  wire::Raw raw(Frame frame) { return {texts_.emplace_back(frame.view())}; }

  Frame value_bytes(int depth) {
    switch (*rc::gen::inRange(0, depth > 0 ? 10 : 8)) {
      case 0:
        return Frame().boolean(chance());
      case 1:
        return Frame().number(*rc::gen::arbitrary<std::uint64_t>());
      case 2:
        return Frame().negative(*rc::gen::arbitrary<std::int64_t>());
      case 3:
        return Frame().float64(*rc::gen::arbitrary<double>());
      case 4:
        return Frame().text(text(0, 40));
      case 5:
        return Frame().bin(text(0, 20));
      case 6:
      case 7:
        return Frame().number(7);
      case 8: {
        const unsigned count = *rc::gen::inRange(0u, 4u);
        Frame list = Frame().array(count);
        for (unsigned i = 0; i < count; ++i)
          list.raw(value_bytes(depth - 1).view());
        return list;
      }
      default:
        return map_bytes(depth - 1);
    }
  }
  Frame map_bytes(int depth) {
    const unsigned count = *rc::gen::inRange(0u, 4u);
    Frame map = Frame().map(count);
    for (unsigned i = 0; i < count; ++i)
      map.field("k" + std::to_string(i), value_bytes(depth));
    return map;
  }
  wire::Extras extras() {
    Frame pairs;
    const unsigned count = *rc::gen::inRange(0u, 4u);
    for (unsigned i = 0; i < count; ++i)
      pairs.field("x-" + std::to_string(i), value_bytes(2));
    return {count, raw(pairs).bytes};
  }

  template <class T>
  static T& at(void* place) {
    return *static_cast<T*>(place);
  }
  template <class Nested>
  void fill_nested(std::span<const FieldSpec> fields, void* place) {
    if (!chance()) return;
    Nested& nested = at<std::optional<Nested>>(place).emplace();
    for (const FieldSpec& spec : fields)
      fill(spec, spec.at(&nested));
  }

  void fill(const FieldSpec& spec, void* place) {
    const bool given = spec.required || chance();
    switch (spec.type) {
      case FieldType::text:
        if (given)
          at<std::string_view>(place) =
              text(static_cast<std::size_t>(spec.min), static_cast<std::size_t>(spec.max));
        return;
      case FieldType::integer:
        if (given) at<std::int64_t>(place) = any_number(spec.min, spec.max);
        return;
      case FieldType::unsigned_integer:
        at<std::uint64_t>(place) = static_cast<std::uint64_t>(any_number(spec.min, spec.max));
        return;
      case FieldType::optional_integer:
        if (given) at<std::optional<std::int64_t>>(place) = any_number(spec.min, spec.max);
        return;
      case FieldType::boolean:
        at<bool>(place) = chance();
        return;
      case FieldType::optional_boolean:
        if (given) at<std::optional<bool>>(place) = chance();
        return;
      case FieldType::raw:
        if (given) at<wire::Raw>(place) = raw(value_bytes(3));
        return;
      case FieldType::reference:
        if (given) at<wire::Raw>(place) = raw(chance() ? Frame().text(text(0, 64)) : Frame().negative(-5));
        return;
      case FieldType::text_list:
        if (given)
          for (std::int64_t i = any_number(spec.min, 6); i > 0; --i)
            at<std::vector<std::string_view>>(place).push_back(text(1, 40));
        return;
      case FieldType::lease_list:
        if (given)
          for (std::int64_t i = any_number(0, 40); i > 0; --i)
            at<std::vector<wire::Lease>>(place).push_back(
                {static_cast<std::uint64_t>(any_number(0, std::numeric_limits<std::int64_t>::max())),
                 any_number(1, 0xFFFFFFFF)});
        return;
      case FieldType::cost:
        return fill_nested<wire::Cost>(wire::kCostFields, place);
      case FieldType::usage:
        return fill_nested<wire::Usage>(wire::kUsageFields, place);
      case FieldType::limits:
        return fill_nested<wire::UpstreamLimits>(wire::kLimitsFields, place);
    }
  }

  std::deque<std::string> texts_;
};

template <class T>
bool equal_at(void* left, void* right) {
  return *static_cast<T*>(left) == *static_cast<T*>(right);
}

bool equal(const FieldSpec& spec, void* left, void* right);

template <class Nested>
bool equal_nested(std::span<const FieldSpec> fields, void* left, void* right) {
  auto& a = *static_cast<std::optional<Nested>*>(left);
  auto& b = *static_cast<std::optional<Nested>*>(right);
  if (!a || !b) return a.has_value() == b.has_value();
  for (const FieldSpec& spec : fields)
    if (!equal(spec, spec.at(&*a), spec.at(&*b))) return false;
  return true;
}

bool equal(const FieldSpec& spec, void* left, void* right) {
  switch (spec.type) {
    case FieldType::text:
      return equal_at<std::string_view>(left, right);
    case FieldType::integer:
      return equal_at<std::int64_t>(left, right);
    case FieldType::unsigned_integer:
      return equal_at<std::uint64_t>(left, right);
    case FieldType::optional_integer:
      return equal_at<std::optional<std::int64_t>>(left, right);
    case FieldType::boolean:
      return equal_at<bool>(left, right);
    case FieldType::optional_boolean:
      return equal_at<std::optional<bool>>(left, right);
    case FieldType::raw:
    case FieldType::reference:
      return static_cast<wire::Raw*>(left)->bytes == static_cast<wire::Raw*>(right)->bytes;
    case FieldType::text_list:
      return equal_at<std::vector<std::string_view>>(left, right);
    case FieldType::lease_list:
      return equal_at<std::vector<wire::Lease>>(left, right);
    case FieldType::cost:
      return equal_nested<wire::Cost>(wire::kCostFields, left, right);
    case FieldType::usage:
      return equal_nested<wire::Usage>(wire::kUsageFields, left, right);
    case FieldType::limits:
      return equal_nested<wire::UpstreamLimits>(wire::kLimitsFields, left, right);
  }
  return false;
}

/// Writes a random message of one operation, reads it, and compares.
template <class Direction, class Message>
void round_trip() {
  Maker maker;
  auto message = maker.make<Message>();
  const bool inline_body = *rc::gen::arbitrary<bool>();
  const std::string_view body = inline_body ? maker.text(0, 500) : std::string_view();
  Buffer buffer;
  if (inline_body)
    encode(message, body, buffer);
  else
    encode(message, buffer);
  RC_PRE(buffer.size() - body.size() <= limits::header_bytes_max);
  Decoder decoder;
  Direction read;

  const DecodeError* error = decoder.decode(buffer.view(), read);

  if (error != nullptr) RC_FAIL(error->message);
  RC_ASSERT(std::holds_alternative<Message>(read));
  for (const FieldSpec& spec : wire::Spec<Message>::op.fields)
    if (!equal(spec, spec.at(&message), spec.at(&std::get<Message>(read))))
      RC_FAIL("field " + std::string(spec.name));
  if constexpr (requires { message.extras; }) {
    RC_ASSERT(std::get<Message>(read).extras.count == message.extras.count);
    RC_ASSERT(std::get<Message>(read).extras.bytes == message.extras.bytes);
  }
  RC_ASSERT(decoder.body() == body);
  RC_ASSERT(has_inline_body(buffer.view()) == inline_body);
}

template <class Message>
struct RoundTrip;
template <class... Messages>
struct RoundTrip<std::variant<Messages...>> {
  static void check() { (check_one<Messages>(), ...); }

 private:
  template <class Message>
  static void check_one() {
    const std::string name(wire::Spec<Message>::op.name);
    EXPECT_TRUE(rc::check(name, [] { round_trip<std::variant<Messages...>, Message>(); })) << name;
  }
};

TEST(RoundTrip, of_every_request_of_a_client) {
  RoundTrip<wire::ClientRequest>::check();
}
TEST(RoundTrip, of_every_reply_to_a_client) {
  RoundTrip<wire::ClientReply>::check();
}
TEST(RoundTrip, of_every_report_of_a_worker) {
  RoundTrip<wire::WorkerReport>::check();
}
TEST(RoundTrip, of_every_command_to_a_worker) {
  RoundTrip<wire::WorkerCommand>::check();
}

/// A message with nothing but what it must have, and its fields at their defaults otherwise.
template <class Direction, class Message>
void defaults_come_back() {
  SCOPED_TRACE(wire::Spec<Message>::op.name);
  Message message;
  for (const FieldSpec& spec : wire::Spec<Message>::op.fields) {
    void* place = spec.at(&message);
    if (!spec.required) continue;
    if (spec.type == FieldType::text) *static_cast<std::string_view*>(place) = "a";
    if (spec.type == FieldType::integer) *static_cast<std::int64_t*>(place) = spec.min;
    if (spec.type == FieldType::text_list) *static_cast<std::vector<std::string_view>*>(place) = {"a"};
    if (spec.type == FieldType::reference) static_cast<wire::Raw*>(place)->bytes = "\x01";
  }
  if constexpr (requires { message.document; }) message.document.bytes = "\x80";
  Buffer buffer;
  encode(message, buffer);
  Decoder decoder;
  Direction read;

  const DecodeError* error = decoder.decode(buffer.view(), read);

  ASSERT_EQ(error, nullptr) << error->message;
  ASSERT_TRUE(std::holds_alternative<Message>(read));
  for (const FieldSpec& spec : wire::Spec<Message>::op.fields)
    EXPECT_TRUE(equal(spec, spec.at(&message), spec.at(&std::get<Message>(read)))) << spec.name;
}

template <class... Messages>
void every_default_comes_back(std::variant<Messages...>*) {
  (defaults_come_back<std::variant<Messages...>, Messages>(), ...);
}

TEST(Defaults, are_left_out_and_come_back_in_every_operation) {
  every_default_comes_back(static_cast<wire::ClientRequest*>(nullptr));
  every_default_comes_back(static_cast<wire::ClientReply*>(nullptr));
  every_default_comes_back(static_cast<wire::WorkerReport*>(nullptr));
  every_default_comes_back(static_cast<wire::WorkerCommand*>(nullptr));
}

TEST(FieldTable, has_names_that_fit_the_encoder_and_the_index) {
  const auto check = [](const wire::OpSpec& spec) {
    EXPECT_LE(spec.name.size(), 31u);
    EXPECT_LE(spec.fields.size(), 32u) << spec.name;
    for (std::size_t i = 0; i < spec.fields.size(); ++i) {
      EXPECT_LE(spec.fields[i].name.size(), 31u) << spec.fields[i].name;
      EXPECT_EQ(spec.index.find(spec.fields, spec.fields[i].name), i) << spec.fields[i].name;
    }
    EXPECT_EQ(spec.index.find(spec.fields, "no such field"), wire::FieldIndex::kNone);
    EXPECT_EQ(spec.index.find(spec.fields, ""), wire::FieldIndex::kNone);
  };
  const auto check_all = [&]<class... Messages>(std::variant<Messages...>*) {
    (check(wire::Spec<Messages>::op), ...);
  };
  check_all(static_cast<wire::ClientRequest*>(nullptr));
  check_all(static_cast<wire::ClientReply*>(nullptr));
  check_all(static_cast<wire::WorkerReport*>(nullptr));
  check_all(static_cast<wire::WorkerCommand*>(nullptr));
}

// ---- any bytes at all ---------------------------------------------------------------------------------

/// No frame makes the decoder ask for more than a few times the bytes that a header may have.
template <class Message>
void expect_few_allocations(std::string_view frame) {
  Decoder decoder;
  Message message;
  const AllocationMeter meter;
  decoder.decode(frame, message);
  RC_ASSERT(meter.bytes() <= 4096 + 24 * std::min(frame.size(), limits::header_bytes_max + 64));
}

RC_GTEST_PROP(AnyBytes, are_read_or_refused_without_a_crash_and_nearly_without_memory, ()) {
  const auto tail = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
  const std::string start = *rc::gen::element<std::string>("", "\x93\xA4LMQ1", "\x94\xA4LMQ1\xA6submit",
                                                           "\x93\xA4LMQ1\xA9heartbeat\x81\xA4jobs",
                                                           "\x93\xA4LMQ1\xA6submit\x82\xA7service\xA1"
                                                           "a\xA4meta");

  for (const fuzz::Direction direction : fuzz::kDirections)
    fuzz::check_frame(direction, start + tail);
  expect_few_allocations<wire::ClientRequest>(start + tail);
  expect_few_allocations<wire::WorkerReport>(start + tail);
}

RC_GTEST_PROP(MutatedFrames, ask_for_little_memory, ()) {
  fuzz::Mutator mutator(*rc::gen::arbitrary<std::uint64_t>());
  for (const fuzz::Direction direction : fuzz::kDirections) {
    const std::string frame = mutator.next(fuzz::seed_frames(direction));
    expect_few_allocations<wire::ClientRequest>(frame);
    expect_few_allocations<wire::ClientReply>(frame);
    expect_few_allocations<wire::WorkerReport>(frame);
    expect_few_allocations<wire::WorkerCommand>(frame);
  }
}

}  // namespace
}  // namespace lanemq
