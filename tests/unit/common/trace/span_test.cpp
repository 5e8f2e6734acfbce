// SPDX-License-Identifier: Apache-2.0
#include "common/trace/span.hpp"

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/trace/exporter.hpp"

namespace lanemq::trace {
namespace {

using json = nlohmann::json;

TEST(Span, is_written_as_otlp_says) {
  Span span{
      .name = "call", .kind = SpanKind::client, .at = {.trace = {1, 2}, .span = 3, .flags = 1}, .parent = 4};
  span.begin_ns = 1'700'000'000'000'000'000;
  span.end_ns = 1'700'000'000'500'000'000;
  span.error = "upstream_503";
  span.add("text", "a \"quoted\"\nline");
  span.add("number", std::int64_t{9'007'199'254'740'993});
  span.add("empty", "");
  const json request = json::parse(otlp_json("lanemq-worker", "1.2", {span, Span{.name = "root"}}));

  const json& of_program = request["resourceSpans"][0];
  EXPECT_EQ(of_program["resource"]["attributes"][0],
            json::parse(R"({"key": "service.name", "value": {"stringValue": "lanemq-worker"}})"));
  const json& written = of_program["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(written["traceId"], "00000000000000010000000000000002");
  EXPECT_EQ(written["spanId"], "0000000000000003");
  EXPECT_EQ(written["parentSpanId"], "0000000000000004");
  EXPECT_EQ(written["kind"], 3);
  EXPECT_EQ(written["startTimeUnixNano"], "1700000000000000000");
  EXPECT_EQ(written["endTimeUnixNano"], "1700000000500000000");
  EXPECT_EQ(written["status"], json::parse(R"({"code": 2, "message": "upstream_503"})"));
  EXPECT_EQ(written["attributes"].size(), 2u);
  EXPECT_EQ(written["attributes"][1]["value"]["intValue"], "9007199254740993");
  const json& root = of_program["scopeSpans"][0]["spans"][1];
  EXPECT_FALSE(root.contains("parentSpanId"));
  EXPECT_FALSE(root.contains("status"));
}

TEST(Span, holds_no_more_of_a_text_than_its_bound) {
  Span span;
  span.add("long", std::string(10'000, 'x'));
  span.add("bytes", "\xff\x01");
  EXPECT_LE(std::get<std::string>(span.facts[0].second).size(), Span::kTextBytesMax + 3);
  EXPECT_EQ(std::get<std::string>(span.facts[1].second), R"(\xff\x01)");
}

TEST(Span, times_of_one_moment_fit_together) {
  const Steady begin = std::chrono::steady_clock::now(), middle = begin + std::chrono::milliseconds(5);
  Span first, second;
  first.set_times(begin, middle);
  second.set_times(middle, middle + std::chrono::milliseconds(7));
  EXPECT_EQ(first.end_ns, second.begin_ns);
  EXPECT_EQ(first.end_ns - first.begin_ns, 5'000'000);
  const auto wall = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(static_cast<double>(first.begin_ns), static_cast<double>(wall), 60e9);
}

TEST(SpanIds, differ_and_begin_traces_of_their_own) {
  std::set<SpanId> ids;
  for (int i = 0; i < 10'000; ++i)
    ids.insert(new_span_id());
  EXPECT_EQ(ids.size(), 10'000u);
  const Context root = child_of(nullptr), child = child_of(&root);
  EXPECT_TRUE(root.sampled());
  EXPECT_EQ(child.trace, root.trace);
  EXPECT_NE(child.span, root.span);
  EXPECT_NE(child_of(nullptr).trace, root.trace);
}

TEST(Exporter, refuses_what_is_no_collector) {
  for (const char* bad : {"", "127.0.0.1:4318", "ftp://127.0.0.1", "http://", "http://user:word@127.0.0.1"})
    EXPECT_THROW(require_collector({.endpoint = bad}), std::invalid_argument) << bad;
  require_collector({.endpoint = "http://127.0.0.1:4318"});
  require_collector({.endpoint = "https://collector.example/otlp/v1/traces"});
  EXPECT_THROW(require_collector({.endpoint = "http://collector.example:4318"}), std::invalid_argument);
  require_collector({.endpoint = "http://collector.example:4318", .in_clear = true});
}

}  // namespace
}  // namespace lanemq::trace
