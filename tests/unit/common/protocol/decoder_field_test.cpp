// SPDX-License-Identifier: Apache-2.0
// The rules of single fields: types, limits, defaults, nil, and what passes through.
#include <gmock/gmock.h>

#include "tests/unit/common/protocol/frame.hpp"

namespace lanemq {
namespace {

using testing::ElementsAre;
using wire::Lease;
using Requests = Reading<wire::ClientRequest>;
using Replies = Reading<wire::ClientReply>;
using Reports = Reading<wire::WorkerReport>;
using Commands = Reading<wire::WorkerCommand>;

/// A submit with a service and `more` further fields.
Frame submit(unsigned more, unsigned elements = 3) {
  return Frame::header("submit", more + 1, elements).field("service", "echo");
}

// ---- defaults and absence -----------------------------------------------------------------------------

TEST(Fields, that_are_absent_have_their_defaults) {
  Requests requests;
  Reports reports;
  Commands commands;
  Replies replies;

  const auto& request = requests.expect<wire::Submit>(submit(0));
  EXPECT_EQ(request.service, "echo");
  EXPECT_EQ(request.id.data(), nullptr);
  EXPECT_EQ(request.lane.data(), nullptr);
  EXPECT_FALSE(request.cost.has_value());
  EXPECT_FALSE(request.timeout_ms.has_value());
  EXPECT_FALSE(request.durable.has_value());
  EXPECT_FALSE(request.stream);
  EXPECT_EQ(request.batch, 0);
  EXPECT_FALSE(request.meta.present());
  EXPECT_FALSE(request.ref.present());
  EXPECT_EQ(request.extras.count, 0u);

  EXPECT_EQ(requests.expect<wire::Fetch>(Frame::header("fetch", 1).field("id", "a")).wait_ms, 0);
  EXPECT_EQ(reports.expect<wire::Outcome>(Frame::header("result", 1).field("job", 5)).attempt, 1);
  EXPECT_TRUE(reports.expect<wire::Heartbeat>(Frame::header("heartbeat", 0)).jobs.empty());
  EXPECT_EQ(commands.expect<wire::JobOffer>(Frame::header("job", 1).field("job", 5)).attempt, 1);
  EXPECT_EQ(replies.expect<wire::JobResult>(Frame::header("result", 0)).attempts, 1);
  const auto& accepted = replies.expect<wire::Accepted>(Frame::header("accepted", 1).field("id", "a"));
  EXPECT_FALSE(accepted.durable);
  EXPECT_FALSE(accepted.duplicate);
}

TEST(Fields, keep_nothing_of_the_message_before) {
  Requests requests;
  requests.expect<wire::Submit>(
      submit(4).field("id", "a").field("timeout_ms", 5).field("x-a", 1).field("ref", 1));

  const auto& request = requests.expect<wire::Submit>(submit(0));

  EXPECT_EQ(request.id.data(), nullptr);
  EXPECT_FALSE(request.timeout_ms.has_value());
  EXPECT_FALSE(request.ref.present());
  EXPECT_EQ(request.extras.count, 0u);
}

TEST(Fields, that_are_nil_are_absent) {
  Requests requests;
  Frame frame = submit(15);
  for (const char* key : {"id", "lane", "cost", "timeout_ms", "attempts_max", "reply", "stream", "durable",
                          "batch", "meta", "trace", "ref", "x-a", "unknown", "orphan"})
    frame.text(key).nil();

  const auto& request = requests.expect<wire::Submit>(frame);

  EXPECT_EQ(request.id.data(), nullptr);
  EXPECT_FALSE(request.cost.has_value());
  EXPECT_FALSE(request.timeout_ms.has_value());
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.meta.present());
  EXPECT_FALSE(request.ref.present());
  EXPECT_EQ(request.extras.count, 0u);
}

TEST(Fields, that_are_required_are_missed_when_absent_or_nil) {
  Requests requests;
  Reports reports;
  Commands commands;
  Replies replies;

  requests.expect_bad(Frame::header("submit", 0), "field \"service\" is missing");
  requests.expect_bad(Frame::header("submit", 1).text("service").nil(), "field \"service\" is missing");
  requests.expect_bad(Frame::header("cancel", 0), "field \"id\" is missing");
  requests.expect_bad(Frame::header("fetch", 0), "field \"id\" is missing");
  requests.expect_bad(Frame::header("seen", 0), "field \"seq\" is missing");
  reports.expect_bad(Frame::header("ready", 1).field("capacity", 1), "field \"services\" is missing");
  reports.expect_bad(Frame::header("ready", 1).field("services", Frame().array(1).text("a")),
                     "\"capacity\" is missing");
  reports.expect_bad(Frame::header("result", 0), "field \"job\" is missing");
  reports.expect_bad(Frame::header("chunk", 1).field("job", 1), "field \"seq\" is missing");
  reports.expect_bad(Frame::header("error", 1).field("job", 1), "field \"class\" is missing");
  commands.expect_bad(Frame::header("job", 0), "field \"job\" is missing");
  commands.expect_bad(Frame::header("acked", 0), "field \"jobs\" is missing");
  replies.expect_bad(Frame::header("error", 0), "field \"code\" is missing");
  replies.expect_bad(Frame::header("accepted", 0), "field \"id\" is missing");
}

TEST(Fields, that_nobody_knows_are_ignored_whatever_they_hold) {
  Requests requests;
  Frame frame = submit(8)
                    .field("future", Frame().array(2).map(1).field("k", 1).ext(5, "abc"))
                    .field("size", Frame().float64(1.5))
                    .field("yes", Frame().boolean(true))
                    .field("raw", Frame().bin("\xFF\xFE"))
                    .field("when", Frame().ext(-1, "1234"))
                    .field("minus", -5)
                    .field("X-upper", 1)
                    .field("", 1);

  EXPECT_EQ(requests.expect<wire::Submit>(frame).service, "echo");
}

// ---- texts --------------------------------------------------------------------------------------------

struct TextRule {
  const char* op;
  const char* field;
  unsigned min, max;
};

TEST(Texts, keep_their_limits_and_errors_name_them) {
  const TextRule rules[] = {
      {"submit", "service", 1, 128}, {"submit", "id", 1, 128},      {"submit", "lane", 1, 128},
      {"submit", "model", 1, 128},   {"submit", "client", 1, 128},  {"submit", "reply", 1, 128},
      {"submit", "orphan", 1, 128},  {"submit", "limited", 1, 128}, {"cancel", "id", 1, 128},
      {"status", "id", 1, 128},      {"fetch", "id", 1, 128},       {"seen", "id", 1, 128}};
  for (const TextRule& rule : rules) {
    SCOPED_TRACE(std::string(rule.op) + "." + rule.field);
    Requests requests;
    const auto with = [&](std::size_t size) {
      return Frame::header(rule.op, 1).field(rule.field, std::string(size, 'a'));
    };
    const std::string name = "field \"" + std::string(rule.field) + "\"";
    const std::string most = std::to_string(rule.max);

    // Other required fields may be missing: the rule of this one must not be what is complained of.
    for (const unsigned size : {rule.min, rule.max})
      if (const DecodeError* error = requests.read(with(size))) {
        EXPECT_EQ(error->message.find(name), std::string::npos) << error->message;
      }

    requests.expect_bad(with(rule.max + 1),
                        name + " has " + std::to_string(rule.max + 1) + " bytes; it must have 1 to " + most);
    requests.expect_bad(with(0), name + " has 0 bytes; it must have 1 to " + most);
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, 5), name + " must be a string");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, Frame().bin("a")),
                        name + " must be a string");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, Frame().array(0)),
                        name + " must be a string");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, Frame().map(0)),
                        name + " must be a string");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, Frame().ext(1, "a")),
                        name + " must be a string");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, Frame().float64(1)),
                        name + " must be a string");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, Frame().boolean(true)),
                        name + " must be a string");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, -1), name + " must be a string");
  }
}

TEST(Texts, for_people_may_be_long_and_empty) {
  Reports reports;
  const auto failure = [](std::string_view message) {
    return Frame::header("error", 3).field("job", 1).field("class", "retry").field("message", message);
  };

  EXPECT_EQ(reports.expect<wire::Failure>(failure(std::string(4096, 'm'))).message.size(), 4096u);
  EXPECT_EQ(reports.expect<wire::Failure>(failure("")).message, "");

  reports.expect_bad(failure(std::string(4097, 'm')),
                     "field \"message\" has 4097 bytes; it must have 0 to 4096");
}

TEST(Texts, are_taken_in_every_format_and_script) {
  Requests requests;
  const std::string name = "größe-模型-🚀";

  EXPECT_EQ(requests.expect<wire::Submit>(submit(1).field("model", name)).model, name);
  EXPECT_EQ(requests.expect<wire::Submit>(submit(1).text("model").byte(0xD9).byte(1).raw("m")).model, "m");
  EXPECT_EQ(requests.expect<wire::Submit>(submit(1).text("model").byte(0xDA).big_endian(1, 2).raw("m")).model,
            "m");
}

// ---- numbers and flags --------------------------------------------------------------------------------

struct NumberRule {
  const char* op;
  const char* field;
  std::uint64_t min, max;
};

TEST(Numbers, keep_their_limits_and_errors_name_them) {
  constexpr std::uint64_t kYear = 365ull * 24 * 3600 * 1000;
  constexpr std::uint64_t kAny = std::numeric_limits<std::int64_t>::max();
  const NumberRule rules[] = {{"submit", "timeout_ms", 1, kYear},  {"submit", "delay_ms", 0, kYear},
                              {"submit", "attempts_max", 1, 1000}, {"submit", "retain_ms", 0, kYear},
                              {"submit", "batch", 0, kAny},        {"fetch", "wait_ms", 0, 60000},
                              {"fetch", "from_seq", 0, kAny},      {"seen", "seq", 0, kAny}};
  for (const NumberRule& rule : rules) {
    SCOPED_TRACE(std::string(rule.op) + "." + rule.field);
    Requests requests;
    const auto with = [&](std::uint64_t value) {
      return Frame::header(rule.op, 1).text(rule.field).number(value);
    };
    const std::string name = "field \"" + std::string(rule.field) + "\"";

    for (const std::uint64_t value : {rule.min, rule.max})
      if (const DecodeError* error = requests.read(with(value))) {
        EXPECT_EQ(error->message.find(name), std::string::npos) << error->message;
      }

    if (rule.max < kAny) requests.expect_bad(with(rule.max + 1), "at most " + std::to_string(rule.max));
    requests.expect_bad(with(1ull << 63), name + " is 9223372036854775808; it must be at least ");
    if (rule.min > 0) requests.expect_bad(with(0), name + " is 0; it must be at least 1");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, -1),
                        name + " is -1; it must be at least ");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, "5"),
                        name + " must be an integer, not negative");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, Frame().float64(5)),
                        name + " must be an integer");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, Frame().boolean(true)),
                        name + " must be an int");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, Frame().array(1).number(5)),
                        name + " must be");
    requests.expect_bad(Frame::header(rule.op, 1).field(rule.field, Frame().map(0)),
                        name + " must be an integer");
  }
}

TEST(Numbers, are_taken_in_every_format) {
  Requests requests;
  const Frame sevens[] = {Frame().byte(7),
                          Frame().byte(0xCC).byte(7),
                          Frame().byte(0xCD).big_endian(7, 2),
                          Frame().byte(0xCE).big_endian(7, 4),
                          Frame().byte(0xCF).big_endian(7, 8),
                          Frame().byte(0xD0).byte(7),
                          Frame().byte(0xD1).big_endian(7, 2),
                          Frame().byte(0xD2).big_endian(7, 4),
                          Frame().byte(0xD3).big_endian(7, 8)};
  for (const Frame& seven : sevens) {
    EXPECT_EQ(requests.expect<wire::Submit>(submit(1).field("timeout_ms", seven)).timeout_ms, 7);
    EXPECT_EQ(
        requests.expect<wire::Submit>(submit(1).field("cost", Frame().map(1).field("input_tokens", seven)))
            .cost.value_or(wire::Cost{})
            .input_tokens,
        7);
    EXPECT_EQ(ref_number(requests.expect<wire::Submit>(submit(1).field("ref", seven)).ref), 7u);
  }
}

TEST(Numbers, of_jobs_are_what_every_language_can_hold) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  Reports reports;
  const auto result = [](std::uint64_t job) { return Frame::header("result", 1).text("job").number(job); };
  const auto heartbeat = [](std::uint64_t job, std::uint64_t attempt) {
    return Frame::header("heartbeat", 1).field("jobs", Frame().array(1).array(2).number(job).number(attempt));
  };

  EXPECT_EQ(reports.expect<wire::Outcome>(result(kMax)).job, kMax);
  EXPECT_THAT(reports.expect<wire::Heartbeat>(heartbeat(kMax, 0xFFFFFFFF)).jobs,
              ElementsAre(Lease{kMax, 0xFFFFFFFF}));

  reports.expect_bad(result(kMax + 1), "field \"job\" is 9223372036854775808");
  reports.expect_bad(heartbeat(kMax + 1, 1), "field \"jobs\" lists a job over 9223372036854775807");
  for (const std::uint64_t attempt : {std::uint64_t{0}, std::uint64_t{1} << 32})
    reports.expect_bad(heartbeat(1, attempt), "field \"jobs\" lists an attempt that is not 1 to 4294967295");
  reports.expect_bad(Frame::header("result", 1).field("job", -1), "field \"job\" is -1");
  reports.expect_bad(Frame::header("result", 1).field("job", "5"), "field \"job\" must be an integer");
}

TEST(Numbers, of_attempts_start_at_1) {
  Reports reports;
  const auto result = [](std::uint64_t attempt) {
    return Frame::header("result", 2).field("job", 1).text("attempt").number(attempt);
  };

  EXPECT_EQ(reports.expect<wire::Outcome>(result(0xFFFFFFFF)).attempt, 0xFFFFFFFF);

  reports.expect_bad(result(0), "field \"attempt\" is 0; it must be at least 1");
  reports.expect_bad(result(1ull << 32), "at most 4294967295");
}

TEST(Numbers, of_places_may_be_0_and_must_be_said) {
  Reports reports;

  const auto ready = [](int fields) {
    return Frame::header("ready", fields).field("services", Frame().array(1).text("a"));
  };
  EXPECT_EQ(reports.expect<wire::Ready>(ready(2).field("capacity", 0)).capacity, 0);
  reports.expect_bad(ready(1), "\"capacity\" is missing");
}

TEST(Flags, are_booleans_only) {
  Requests requests;

  EXPECT_TRUE(requests.expect<wire::Submit>(submit(1).field("stream", Frame().boolean(true))).stream);
  EXPECT_EQ(requests.expect<wire::Submit>(submit(1).field("durable", Frame().boolean(false))).durable, false);

  for (const char* key : {"stream", "durable"})
    for (const Frame& value : {Frame().number(1), Frame().text("true"), Frame().float64(1),
                               Frame().negative(-1), Frame().array(0), Frame().map(0), Frame().bin("1")})
      requests.expect_bad(submit(1).field(key, value),
                          "field \"" + std::string(key) + "\" must be true or false");
}

// ---- ref ----------------------------------------------------------------------------------------------

TEST(Ref, is_kept_byte_for_byte) {
  Requests requests;
  const Frame refs[] = {Frame().number(0),
                        Frame().number(~0ull),
                        Frame().negative(-1),
                        Frame().byte(0xE0),
                        Frame().byte(0xD1).big_endian(5, 2),
                        Frame().text(""),
                        Frame().byte(0xD9).byte(0),
                        Frame().text("r"),
                        Frame().byte(0xDA).big_endian(1, 2).raw("r"),
                        Frame().text(std::string(64, 'r'))};
  for (const Frame& ref : refs) {
    EXPECT_EQ(requests.expect<wire::Submit>(submit(2).field("ref", ref).field("id", "a")).ref.bytes,
              ref.view());
    EXPECT_EQ(requests.expect<wire::Ping>(Frame::header("ping", 1).field("ref", ref)).ref.bytes, ref.view());
  }
}

TEST(Ref, is_an_integer_or_a_short_string) {
  Requests requests;
  const std::string_view text = "field \"ref\" must be an integer or a string";

  requests.expect_bad(submit(1).field("ref", std::string(65, 'r')),
                      "field \"ref\" has 65 bytes; it must have 0 to 64");
  for (const Frame& ref : {Frame().boolean(true), Frame().float64(1), Frame().bin("r"), Frame().array(0),
                           Frame().map(0), Frame().ext(1, "r")})
    requests.expect_bad(submit(1).field("ref", ref), text);
}

TEST(Ref, as_a_number_comes_back_as_that_number) {
  Buffer storage;

  for (const std::uint64_t number : {0ull, 1ull, 127ull, 128ull, 65536ull, ~0ull})
    EXPECT_EQ(ref_number(number_ref(number, storage)), number);

  EXPECT_EQ(ref_number(wire::Raw{}), std::nullopt);
  EXPECT_EQ(ref_number(wire::Raw{Frame().text("7").view()}), std::nullopt);
  EXPECT_EQ(ref_number(wire::Raw{Frame().negative(-7).view()}), std::nullopt);
}

// ---- lists --------------------------------------------------------------------------------------------

TEST(Lists, of_names_keep_their_limits) {
  Requests requests;
  const auto ids = [](unsigned count, std::string_view name) {
    Frame list = Frame().array(count);
    for (unsigned i = 0; i < count; ++i)
      list.text(name);
    return Frame::header("status", 1).field("ids", list);
  };

  EXPECT_EQ(requests.expect<wire::StatusQuery>(ids(256, "a")).ids.size(), 256u);
  EXPECT_TRUE(requests.expect<wire::StatusQuery>(ids(0, "a")).ids.empty());

  requests.expect_bad(ids(257, "a"), "field \"ids\" has 257 entries; it must have 0 to 256");
  requests.expect_bad(ids(1, ""), "field \"ids\" lists a name of 0 bytes; a name has 1 to 128");
  requests.expect_bad(ids(1, std::string(129, 'a')), "field \"ids\" lists a name of 129 bytes");
  for (const Frame& value :
       {Frame().text("a"), Frame().number(1), Frame().map(0), Frame().array(1).number(1),
        Frame().array(1).nil(), Frame().array(1).array(0), Frame().array(1).map(0), Frame().array(1).bin("a"),
        Frame().array(1).boolean(true), Frame().array(1).float64(1)})
    requests.expect_bad(Frame::header("status", 1).field("ids", value),
                        "field \"ids\" must be a list of strings");
}

TEST(Lists, of_services_name_one_at_least) {
  Reports reports;
  const auto ready = [](const Frame& services) {
    return Frame::header("ready", 2).field("services", services).field("capacity", 1);
  };

  EXPECT_THAT(reports.expect<wire::Ready>(ready(Frame().array(2).text("a").text("b"))).services,
              ElementsAre("a", "b"));

  reports.expect_bad(ready(Frame().array(0)), "field \"services\" has 0 entries; it must have 1 to 256");
}

TEST(Lists, of_leases_are_pairs) {
  Reports reports;
  const auto heartbeat = [](const Frame& jobs) { return Frame::header("heartbeat", 1).field("jobs", jobs); };
  const Frame two = Frame().array(2).array(2).number(1).number(1).array(2).number(1ull << 62).number(3);

  EXPECT_THAT(reports.expect<wire::Heartbeat>(heartbeat(two)).jobs,
              ElementsAre(Lease{1, 1}, Lease{1ull << 62, 3}));
  EXPECT_TRUE(reports.expect<wire::Heartbeat>(heartbeat(Frame().array(0))).jobs.empty());

  for (const Frame& jobs :
       {Frame().array(1).number(1), Frame().array(1).array(0), Frame().array(1).array(1).number(1),
        Frame().array(1).array(3).number(1).number(1).number(1), Frame().array(1).array(2).number(1).nil(),
        Frame().array(1).array(2).text("1").number(1), Frame().array(1).array(2).number(1).negative(-1),
        Frame().array(1).array(2).number(1).array(0), Frame().array(1).array(2).number(1).float64(1),
        Frame().array(1).map(0), Frame().map(0), Frame().number(1), Frame().text("1"),
        Frame().array(1).nil()})
    reports.expect_bad(heartbeat(jobs), "field \"jobs\" must ");
}

TEST(Lists, of_leases_hold_an_inventory_of_the_most_places) {
  Reports reports;
  Frame jobs = Frame().array(limits::capacity_max);
  for (std::size_t i = 0; i < limits::capacity_max; ++i)
    jobs.array(2).byte(0xCF).big_endian(limits::header_bytes_max + i, 8).byte(0xCC).byte(200);

  EXPECT_EQ(reports.expect<wire::Heartbeat>(Frame::header("heartbeat", 1).field("jobs", jobs)).jobs.size(),
            limits::capacity_max);
}

// ---- maps of numbers ----------------------------------------------------------------------------------

TEST(Usage, is_read_and_what_is_unknown_in_it_is_ignored) {
  Reports reports;
  const Frame usage = Frame()
                          .map(8)
                          .field("input_tokens", 10)
                          .field("details", Frame().map(1).field("audio", 5))
                          .field("list", Frame().array(1).number(1))
                          .field("kind", "text")
                          .field("exact", Frame().boolean(true))
                          .field("share", Frame().float64(0.5))
                          .text("cached_tokens")
                          .nil()
                          .field("output_tokens", 300);

  const auto& outcome =
      reports.expect<wire::Outcome>(Frame::header("result", 2).field("job", 1).field("usage", usage));

  ASSERT_TRUE(outcome.usage.has_value());
  EXPECT_EQ(outcome.usage->input_tokens, 10);
  EXPECT_EQ(outcome.usage->output_tokens, 300);
  EXPECT_EQ(outcome.usage->cached_tokens, std::nullopt);
  EXPECT_EQ(outcome.usage->requests, std::nullopt);
}

TEST(Usage, has_integers_only_and_the_error_names_the_field) {
  Reports reports;
  for (const Frame& value : {Frame().text("5"), Frame().float64(5), Frame().boolean(true), Frame().array(0),
                             Frame().map(0), Frame().bin("5")})
    reports.expect_bad(Frame::header("result", 2)
                           .field("job", 1)
                           .field("usage", Frame().map(1).field("input_tokens", value)),
                       "field \"input_tokens\" must be an integer, not negative");
  reports.expect_bad(
      Frame::header("result", 2).field("job", 1).field("usage", Frame().map(1).field("requests", -1)),
      "field \"requests\" is -1");
}

TEST(Usage, and_cost_and_limits_are_maps) {
  Reports reports;
  Requests requests;
  for (const Frame& value : {Frame().text("5"), Frame().number(5), Frame().boolean(true), Frame().array(0)}) {
    reports.expect_bad(Frame::header("result", 2).field("job", 1).field("usage", value),
                       "field \"usage\" must be a map of numbers");
    reports.expect_bad(Frame::header("result", 2).field("job", 1).field("limits", value),
                       "field \"limits\" must be a map of numbers");
    requests.expect_bad(submit(1).field("cost", value), "field \"cost\" must be a map of numbers");
  }
}

TEST(UpstreamLimits, are_read) {
  Reports reports;
  const Frame limits =
      Frame().map(3).field("remaining_tokens", 1).field("reset_output_tokens_ms", 2).field("other", 3);

  const auto& outcome =
      reports.expect<wire::Outcome>(Frame::header("result", 2).field("limits", limits).field("job", 1));

  ASSERT_TRUE(outcome.limits.has_value());
  EXPECT_EQ(outcome.limits->remaining_tokens, 1);
  EXPECT_EQ(outcome.limits->reset_output_tokens_ms, 2);
  EXPECT_EQ(outcome.limits->limit_requests, std::nullopt);
  EXPECT_EQ(outcome.limits->period_requests_ms, std::nullopt);
}

TEST(UpstreamLimits, have_calls_at_once_and_periods) {
  Reports reports;
  const Frame limits = Frame()
                           .map(3)
                           .field("limit_concurrency", 8)
                           .field("period_requests_ms", 86'400'000)
                           .field("period_tokens_ms", 3'600'000);

  const auto& failure = reports.expect<wire::Failure>(Frame::header("error", 4)
                                                          .field("class", "limited")
                                                          .field("limited_by", "day")
                                                          .field("limits", limits)
                                                          .field("job", 1));

  ASSERT_TRUE(failure.limits.has_value());
  EXPECT_EQ(failure.limits->limit_concurrency, 8);
  EXPECT_EQ(failure.limits->period_requests_ms, 86'400'000);
  EXPECT_EQ(failure.limits->period_tokens_ms, 3'600'000);
  EXPECT_EQ(failure.limited_by, "day");
}

// ---- a report that cannot be read -----------------------------------------------------------------------

// Its worker lists the job until it has an answer to the outcome, so the answer has to say which one it is.
TEST(Reports, that_cannot_be_read_are_known_by_their_job) {
  Reports reports;
  for (const char* op : {"result", "error"}) {
    const auto report = [op](unsigned fields) { return Frame::header(op, fields); };
    const DecodeError& of_usage = reports.expect_bad(report(4)
                                                         .field("usage", Frame().float64(1.5))
                                                         .field("job", 7)
                                                         .field("attempt", 3)
                                                         .field("class", "permanent"),
                                                     "field \"usage\"");
    EXPECT_EQ(of_usage.job, 7u);
    EXPECT_EQ(of_usage.attempt, 3);
    const DecodeError& first =
        reports.expect_bad(report(2).field("job", 8).field("usage", 1), "field \"usage\"");
    EXPECT_EQ(first.job, 8u);
    EXPECT_EQ(first.attempt, 1);
    EXPECT_FALSE(reports.expect_bad(report(1).field("usage", 1), "field \"usage\"").job);
    EXPECT_FALSE(reports.expect_bad(report(1).field("job", "x"), "field \"job\"").job);
    EXPECT_FALSE(reports.expect_bad(report(1).text("job").nil(), "field \"job\"").job);
  }
  EXPECT_FALSE(reports.expect_bad(Frame::header("chunk", 2).field("job", 7).field("seq", "x"), "seq").job);
}

TEST(Commands, a_job_that_cannot_be_read_is_known) {
  Commands commands;

  const DecodeError& error = commands.expect_bad(
      Frame::header("job", 3).field("job", 7).field("meta", "\xFF").field("attempt", 2), "not UTF-8");

  EXPECT_EQ(error.job, 7u);
  EXPECT_EQ(error.attempt, 2);
}

// ---- what passes through ------------------------------------------------------------------------------

TEST(PassedThrough, values_are_kept_byte_for_byte) {
  Requests requests;
  const Frame values[] = {Frame().number(7),
                          Frame().byte(0xCF).big_endian(7, 8),
                          Frame().negative(5),
                          Frame().negative(-5),
                          Frame().float64(1.0),
                          Frame().float64(18446744073709551616.0),
                          Frame().byte(0xCA).big_endian(0x3F800000, 4),
                          Frame().text("t"),
                          Frame().text(""),
                          Frame().bin("\xFF\x00"),
                          Frame().boolean(false),
                          Frame().array(0),
                          Frame().map(0),
                          Frame().array(2).nil().map(1).field("k", Frame().array(1).float64(2)),
                          Frame().map(2).field("a", 1).field("b", Frame().map(1).field("a", 1))};
  for (const Frame& value : values) {
    Frame frame =
        submit(4, 4).field("meta", value).field("trace", value).field("x-v", value).field("id", "a");
    frame.bin("body");
    const auto& request = requests.expect<wire::Submit>(frame);

    EXPECT_EQ(request.meta.bytes, value.view());
    EXPECT_EQ(request.trace.bytes, value.view());
    EXPECT_EQ(request.extras.count, 1u);
    EXPECT_EQ(request.extras.bytes, Frame().text("x-v").raw(value.view()).view());
    EXPECT_EQ(request.id, "a");
    EXPECT_EQ(requests.body(), "body");
  }
}

// Ends are written with many libraries of msgpack. A timestamp of a wrong length, for one, is an error to
// some.
TEST(PassedThrough, values_have_no_ext_at_any_depth) {
  Requests requests;
  requests.refuse_ext();
  for (const Frame& ext : {Frame().ext(-1, "1234"), Frame().ext(-1, "123"), Frame().ext(5, ""),
                           Frame().byte(0xD4).byte(1).byte(2)}) {
    for (const char* field : {"meta", "trace", "x-v"}) {
      const std::string text = "field \"" + std::string(field) + "\" holds an ext";
      requests.expect_bad(submit(1).field(field, ext), text);
      requests.expect_bad(submit(1).field(field, Frame().array(2).number(1).raw(ext.view())), text);
      requests.expect_bad(submit(1).field(field, Frame().map(1).field("k", Frame().array(1).raw(ext.view()))),
                          text);
    }
  }
}

TEST(PassedThrough, a_refused_ext_leaves_what_stands_behind_it) {
  Requests requests;
  requests.refuse_ext();

  const DecodeError* error = requests.read(
      submit(3).field("meta", Frame().array(2).ext(1, "a").text("z")).field("id", "a").field("ref", 7));

  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->id, "a");
  EXPECT_EQ(error->ref, Frame().number(7).view());
}

// An older broker passes it on, or has stored it, and what stands beside it is needed.
TEST(PassedThrough, an_ext_is_read_where_it_is_not_refused) {
  Commands commands;

  const auto& job = commands.expect<wire::JobOffer>(
      Frame::header("job", 3).field("job", 5).field("id", "a").field("meta", Frame().ext(-1, "123")));

  EXPECT_EQ(job.meta.bytes, Frame().ext(-1, "123").view());
}

TEST(PassedThrough, fields_come_together_in_their_order) {
  Requests requests;

  const auto& request = requests.expect<wire::Submit>(submit(4)
                                                          .field("x-b", 1)
                                                          .field("lane", "high")
                                                          .field("x-a", Frame().array(1).number(2))
                                                          .field("x-", "e"));

  EXPECT_EQ(request.extras.count, 3u);
  EXPECT_EQ(request.extras.bytes,
            Frame().field("x-b", 1).field("x-a", Frame().array(1).number(2)).field("x-", "e").view());
}

TEST(PassedThrough, fields_reach_the_worker) {
  Requests requests;
  Commands commands;
  const auto& request =
      requests.expect<wire::Submit>(submit(2).field("x-b", 1).field("meta", Frame().float64(1)));
  wire::JobOffer offer;
  offer.job = 5;
  offer.extras = request.extras;
  offer.meta = request.meta;
  Buffer buffer;
  encode(offer, buffer);

  const auto& job = commands.expect<wire::JobOffer>(Frame().raw(buffer.view()));

  EXPECT_EQ(job.extras.bytes, Frame().field("x-b", 1).view());
  EXPECT_EQ(job.meta.bytes, Frame().float64(1).view());
}

TEST(PassedThrough, are_no_fields_of_operations_without_them) {
  Requests requests;

  EXPECT_EQ(requests.expect<wire::Ping>(Frame::header("ping", 2).field("x-a", 1).field("ref", 5)).ref.bytes,
            "\x05");
}

TEST(Stats, keep_the_whole_document_and_tell_the_ref) {
  Replies replies;
  const Frame lanes = Frame().map(1).field("high", Frame().map(1).field("queued", 5));
  Frame frame = Frame::header("stats", 3).field("lanes", lanes).field("ref", 7).field("version", "1");

  const auto& stats = replies.expect<wire::StatsReply>(frame);

  EXPECT_EQ(to_json(stats.document.bytes), R"({"lanes":{"high":{"queued":5}},"ref":7,"version":"1"})");
  EXPECT_EQ(ref_number(stats.ref), 7u);
}

TEST(Stats, keep_the_rules_of_headers) {
  Replies replies;

  replies.expect_bad(Frame::header("stats", 2).field("a", 1).field("a", 1), "duplicate key \"a\"");
  replies.expect_bad(Frame::header("stats", 1).field("ref", Frame().boolean(true)), "field \"ref\"");
}

}  // namespace
}  // namespace lanemq
