// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/estimates.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker/core/budgets/body_estimate.hpp"

namespace lanemq::core {
namespace {

std::int64_t text_tokens(const std::string& body) {
  return estimate_body(body).text_tokens;
}

/// The tokens that begin an answer.
constexpr std::int64_t kReplyPrime = 3;

std::string chat(const std::string& content, const std::string& rest = "") {
  return R"({"model":"gpt-4.1","messages":[{"role":"user","content":)" + content + "}]" + rest + "}";
}

const std::string kProse =
    "The quick brown fox jumps over the lazy dog, and then it walks home to have a long rest in the sun. ";

TEST(BodyEstimate, english_is_weighed_at_about_four_bytes_a_token) {
  std::string prose;
  for (int i = 0; i < 50; ++i)
    prose += kProse;
  const double per_token = static_cast<double>(prose.size()) / static_cast<double>(text_tokens(prose));
  EXPECT_GT(per_token, 3.5);
  EXPECT_LT(per_token, 6);
}

TEST(BodyEstimate, a_long_text_weighs_what_its_parts_weigh) {
  const bool holds = rc::check([](const std::string& seed) {
    std::string text = "z" + seed + "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 9,\n";
    while (text.size() < 3000)
      text += text;
    std::int64_t parts = 0;
    for (const char c : text)  // 256 of them, so that a byte's weight is a whole number; % is no base64
      parts += text_tokens("%" + std::string(256, c)) - kReplyPrime;
    RC_ASSERT(text_tokens(text) - kReplyPrime == parts / 256);
  });
  EXPECT_TRUE(holds);
}

TEST(BodyEstimate, in_json_only_texts_count) {
  const std::int64_t bare = text_tokens(chat(R"("")"));
  EXPECT_LT(bare, 10) << "names, roles and structure are not text";
  const std::int64_t with_text = text_tokens(chat('"' + kProse + '"'));
  EXPECT_NEAR(static_cast<double>(with_text - bare), static_cast<double>(text_tokens(kProse)), 5);
  EXPECT_EQ(text_tokens(chat(R"([{"type":"text","text":")" + kProse + R"("}])")), with_text)
      << "in parts as in one";
  EXPECT_EQ(text_tokens(R"({ "model" : "gpt-4.1" , "messages" : [ {"role" : "user", "content" : ")" + kProse +
                        "\"} ] }"),
            with_text)
      << "with spaces as without";
}

TEST(BodyEstimate, quotes_and_backslashes_do_not_end_a_text) {
  const std::int64_t plain = text_tokens(chat(R"("say ''hello'' to me and go on for a while")"));
  const std::int64_t quoted = text_tokens(chat(R"("say \"hello\\\" to me and go on for a while")"));
  EXPECT_NEAR(static_cast<double>(plain), static_cast<double>(quoted), 4);
  EXPECT_GT(text_tokens(chat(R"("ends in a backslash \\")", R"(,"user":"nobody")")), 5);
}

TEST(BodyEstimate, media_is_counted_and_not_weighed) {
  const std::string base64(100'000, 'A');
  const BodyEstimate url = estimate_body(
      chat(R"([{"type":"image_url","image_url":{"url":"data:image/png;base64,)" + base64 + R"("}}])"));
  EXPECT_EQ(url.media, 1);
  EXPECT_LT(url.text_tokens, 20);
  const BodyEstimate source =
      estimate_body(chat(R"([{"type":"image","source":{"type":"base64","media_type":"image/png","data":")" +
                         base64 + R"("}}])"));
  EXPECT_EQ(source.media, 1);
  EXPECT_LT(source.text_tokens, 20);
}

TEST(BodyEstimate, token_numbers_are_tokens) {
  const bool holds = rc::check([](const std::vector<std::uint16_t>& numbers, bool spaces) {
    std::string list;
    for (const std::uint16_t number : numbers)
      list += (list.empty() ? "" : spaces ? ", " : ",") + std::to_string(number * 3);
    const auto count = static_cast<std::int64_t>(numbers.size());
    RC_ASSERT(text_tokens(R"({"model":"e","prompt":[)" + list + "]}") == count + kReplyPrime);
    RC_ASSERT(text_tokens(R"({"input":[[)" + list + "],[" + list + R"(]],"temperature":0.5})") ==
              2 * count + kReplyPrime);
  });
  EXPECT_TRUE(holds);
}

TEST(BodyEstimate, a_long_text_without_spaces_is_text) {
  std::string text;
  while (text.size() < 32'000)
    text += "the_quick_brown_fox_jumps_";
  const auto bytes = static_cast<std::int64_t>(text.size());
  for (const std::string& body :
       {chat('"' + text + '"'), chat(R"([{"type":"text","text":")" + text + "\"}]"),
        R"({"model":"e","input":[")" + text + "\"]}", R"({"prompt":")" + text + "\"}", text}) {
    const BodyEstimate estimate = estimate_body(body);
    EXPECT_EQ(estimate.media, 0) << body.substr(0, 80);
    EXPECT_GE(estimate.text_tokens, bytes / 3) << body.substr(0, 80);
    EXPECT_LE(estimate.text_tokens, bytes / 2) << body.substr(0, 80);
  }
}

TEST(BodyEstimate, media_stand_under_the_keys_that_carry_them) {
  const std::string base64(100'000, 'A');
  const auto media = [](const std::string& content) {
    return estimate_body(R"({"messages":[{"role":"user","content":[)" + content + "]}]}").media;
  };
  for (const std::string& content :
       {R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" + base64 + "\"}}",
        R"({"type":"input_image","image_url":"data:image/png;base64,)" + base64 + "\"}",
        R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":")" + base64 + "\"}}",
        R"({"type":"input_audio","input_audio":{"data":")" + base64 + R"(","format":"wav"}})",
        R"({"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,)" + base64 +
            "\"}}",
        std::string(R"({"type":"image_url","image_url":{"url":"https://example.com/a.png"}})"),
        std::string(R"({"type":"input_image","image_url":"https://example.com/a.png"})"),
        std::string(R"({"type":"image","source":{"type":"url","url":"https://example.com/a.png"}})"),
        std::string(R"({"type":"file","file":{"file_id":"file-123"}})"),
        std::string(R"({"type":"document","source":{"type":"file","file_id":"file_123"}})"),
        std::string(R"({"type":"input_file","file_url":"https://example.com/a.pdf"})")})
    EXPECT_EQ(media(content), 1) << content.substr(0, 80);
  EXPECT_EQ(estimate_body(R"({"previous_response_id":"resp_1","input":"and then?"})").media, 1)
      << "what was said before, whatever it is";
  EXPECT_EQ(media(R"({"type":"text","text":"data: a line of an event"})"), 0);
  EXPECT_EQ(media(R"({"type":"text","text":"see https://example.com/a.png"})"), 0);
  EXPECT_EQ(media(R"({"type":"document","source":{"type":"text","data":"the words of a document"}})"), 0);
  EXPECT_EQ(media(R"({"type":"link","url":"https://example.com"})"), 0);
  std::string words;
  while (words.size() < base64.size())
    words += "as it was said ";
  EXPECT_EQ(
      media(R"({"type":"document","source":{"type":"text","data":")" + base64 + words + base64 + "\"}}"), 0)
      << "its ends alone are base64";
}

TEST(BodyEstimate, what_a_tool_was_called_with_counts_whole) {
  std::string rows;
  for (int i = 0; i < 100; ++i)
    rows += R"({"temperature":2718281,"place":"Rome"},)";
  rows.pop_back();
  const std::int64_t called = text_tokens(chat(R"([{"type":"tool_use","input":{"rows":[)" + rows + "]}}]"));
  const std::int64_t as_text = text_tokens("%" + rows);
  EXPECT_GE(called, as_text / 2) << "keys and numbers count, punctuation does not";
  EXPECT_LE(called, as_text * 5 / 4);
}

/// A body that is slow to read by the byte, or has much of something: how it begins, and what it repeats.
struct Heavy {
  std::string front, one;

  std::string body(std::size_t bytes) const {
    std::string rest = one;
    rest.reserve(2 * bytes);
    while (rest.size() < bytes)
      rest.append(rest, 0, bytes - rest.size());
    return front + rest;
  }
  std::string name() const { return front.substr(0, 40) + one.substr(0, 20); }
};

std::vector<Heavy> heavy_bodies() {
  std::string base64;
  for (std::uint32_t i = 0, x = 1; i < 4096; ++i, x = x * 1664525 + 1013904223)
    base64 += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[x >> 26];
  return {{"", kProse},
          {"", " "},
          {"", "["},
          {"", "[}"},
          {"[", R"({"a":1},)"},
          {"[", R"({"a":"b"},)"},
          {"{", R"("max_tokens":1,)"},
          {"{", R"("role"      )"},
          {R"({"a":")", "\\\\"},
          {R"({"a":")", "\\\""},
          {R"({"data":")", "\\\\"},
          {R"({"data":")", "\\\""},
          {R"({"data":")", kProse},
          {R"({"data":")", base64},
          {R"({"messages":[)", R"({"image_url":"data:,"},)"},
          {R"({"content":")", kProse},
          {R"({"content":")", base64},
          {R"({"content":")", "\xE4\xBD\xA0\xE5\xA5\xBD"},
          {R"({"input":[)", "12345,"},
          {R"({"input":[)", R"("",)"},
          {R"({"input":)", "1"},
          {R"({"tools":[)", R"({"ab":{"c":-1}},)"},
          {R"({"content":")" + std::string(2'000'000, ' ') + '"', R"(,"max_a":1)"}};
}

TEST(BodyEstimate, any_body_is_bounded_work) {
  for (const Heavy& heavy : heavy_bodies()) {
    const std::int64_t work = estimate_body(heavy.body(16'000'000)).work;
    EXPECT_LE(work, kBodyWorkMax) << heavy.name();
    EXPECT_GE(work, kBodyWorkMax / 2) << heavy.name();
  }
  EXPECT_LT(estimate_body(chat('"' + kProse + '"')).work, 1000) << "of a short one it is what it has";
}

/// Counts what is looked at by the system's count of the pages that were: the estimate's own count may err.
TEST(BodyEstimate, of_a_large_body_few_pages_are_touched) {
  for (const Heavy& heavy : heavy_bodies()) {
    const std::string body = heavy.body(16'000'000);
    const int file = memfd_create("body", 0);
    ASSERT_EQ(::write(file, body.data(), body.size()), static_cast<ssize_t>(body.size()));
    void* const mapped = mmap(nullptr, body.size(), PROT_READ, MAP_SHARED, file, 0);
    ASSERT_NE(mapped, MAP_FAILED);

    estimate_body({static_cast<const char*>(mapped), body.size()});

    std::ostringstream address;
    address << std::hex << reinterpret_cast<std::uintptr_t>(mapped) << '-';
    std::ifstream maps("/proc/self/smaps");
    std::string line;
    while (std::getline(maps, line) && !line.starts_with(address.str())) {
    }
    while (std::getline(maps, line) && !line.starts_with("Rss:")) {
    }
    const std::size_t touched = std::stoull(line.substr(4)) << 10;
    munmap(mapped, body.size());
    close(file);
    // The system maps some pages around each that is asked for.
    const std::size_t pieces = std::size_t{64} * (64 << 10);
    const bool is_skipped = heavy.front.starts_with(R"({"data")");
    EXPECT_GT(touched, 0u) << heavy.name();
    EXPECT_LE(touched, (is_skipped ? 10'000'000 : 1'250'000) + pieces) << heavy.name();
  }
}

TEST(BodyEstimate, the_rest_of_a_large_body_is_like_pieces_of_it) {
  std::string prose;
  while (prose.size() < 1'000'000)
    prose += kProse;
  const std::int64_t of_a_megabyte = text_tokens(chat('"' + prose + '"'));
  std::string large;
  while (large.size() < 9'500'000)
    large += prose;
  EXPECT_NEAR(
      static_cast<double>(text_tokens(chat('"' + large + '"'))) / static_cast<double>(10 * of_a_megabyte), 1,
      0.02);

  std::string numbers;
  constexpr int kNumbers = 2'000'000;
  for (int i = 0; i < kNumbers; ++i)
    numbers += std::to_string(10'000 + i % 90'000) + ',';
  EXPECT_NEAR(static_cast<double>(text_tokens(R"({"input":[)" + numbers + "1]}")), kNumbers, kNumbers / 50);
}

TEST(BodyEstimate, many_large_pictures_are_pictures) {
  std::string base64, content;
  for (std::uint32_t i = 0, x = 1; i < 1'000'000; ++i, x = x * 1664525 + 1013904223)
    base64 += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[x >> 26];
  for (int i = 0; i < 30; ++i)
    content += R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" + base64 + "\"}},";
  const BodyEstimate estimate = estimate_body(chat("[" + content + "{}]"));
  EXPECT_GE(estimate.media, 28);
  EXPECT_LE(estimate.media, 34);
  EXPECT_LT(estimate.text_tokens, 40'000);
}

TEST(BodyEstimate, pictures_behind_named_ones_and_a_large_text_are_pictures) {
  std::string base64, content;
  for (std::uint32_t i = 0, x = 1; i < 300'000; ++i, x = x * 1664525 + 1013904223)
    base64 += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[x >> 26];
  for (int i = 0; i < 20; ++i)
    content += R"({"type":"image_url","image_url":{"url":"https://example.com/a.png"}},)";
  content += R"({"type":"text","text":")" + std::string(2'000'000, ' ') + "\"},";
  for (int i = 0; i < 20; ++i)
    content += R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" + base64 + "\"}},";
  const std::int64_t media = estimate_body(chat("[" + content + "{}]")).media;
  EXPECT_GE(media, 35);
  EXPECT_LE(media, 80);
}

TEST(BodyEstimate, a_text_behind_large_media_is_not_overlooked) {
  std::string prose, base64(20'000'000, 'A');
  while (prose.size() < 20'000'000)
    prose += kProse;
  const std::int64_t alone = text_tokens(chat('"' + prose + '"'));
  EXPECT_GE(text_tokens(R"({"data":")" + base64 + R"(","content":")" + prose + "\"}"), alone * 9 / 10);
}

TEST(BodyEstimate, the_bound_of_the_answer_is_found_behind_a_large_text) {
  const std::string text = '"' + std::string(4'000'000, ' ') + '"';
  EXPECT_EQ(estimate_body(chat(text, R"(,"temperature":0.5,"max_tokens": 100)")).max_output, 100);
  EXPECT_EQ(estimate_body(chat(text, R"(,"n":3 , "max_completion_tokens" : 100)")).max_output, 300);
  EXPECT_EQ(estimate_body(chat(R"(")" + std::string(4'000'000, ' ') + R"(\"max_tokens\":5")")).max_output,
            std::nullopt)
      << "a text";
}

TEST(BodyEstimate, no_text_is_overlooked) {
  const std::vector<std::string> keys{"content",   "text",      "input", "data", "url",
                                      "prompt",    "system",    "q",     "file", "source",
                                      "image_url", "arguments", "images"};
  const bool holds = rc::check([&](const std::vector<std::size_t>& way, bool joined) {
    std::string text;
    while (text.size() < 4000)
      text += joined ? "the_quick_brown_fox_" : "the quick brown fox ";
    std::string body = '"' + text + '"';
    for (const std::size_t step : way)
      body = step % 3 == 0 ? "[1," + body + "]"
                           : R"({"a":"b",")" + keys[step % keys.size()] + "\":" + body + "}";
    const BodyEstimate estimate = estimate_body("[" + body + "]");
    RC_ASSERT(estimate.media > 0 || estimate.text_tokens > 600);
  });
  EXPECT_TRUE(holds);
}

TEST(BodyEstimate, the_bound_of_the_answer_is_read_where_it_belongs) {
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":100)")).max_output, 100);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_completion_tokens": 200, "max_tokens":100)")).max_output,
            200);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_output_tokens":7,"n":3)")).max_output, 21);
  EXPECT_EQ(estimate_body(chat(R"("max_tokens: 5")", R"(,"metadata":{"max_tokens":9})")).max_output,
            std::nullopt);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":-4)")).max_output, std::nullopt);
  EXPECT_GT(estimate_body(chat(R"("x")", R"(,"max_tokens":99999999999)")).max_output, 0);
}

TEST(BodyEstimate, the_bound_of_the_answer_is_read_however_it_is_written) {
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_\u0074okens":5000)")).max_output, 5000);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"\u006dax_token\u0073" : 70)")).max_output, 70);
  EXPECT_EQ(
      estimate_body(chat(R"("x")", R"(,"max_\u00e9okens":5,"max_\u007":6,"max_tokens\\":7)")).max_output,
      std::nullopt);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":1e3)")).max_output, 1000);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":0.25E+4)")).max_output, 2500);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":100.0)")).max_output, 100);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":1e400)")).max_output, 100'000'000);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":-1e4)")).max_output, std::nullopt);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":10,"n":3)")).max_output, 30);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":10,"n":1,"best_of":5)")).max_output, 50);
}

TEST(BodyEstimate, each_of_several_prompts_is_answered) {
  const auto bound = [](const std::string& prompt) {
    return estimate_body(R"({"max_tokens":100,"prompt":)" + prompt + R"(,"stop":["a","b"]})").max_output;
  };
  EXPECT_EQ(bound(R"("one")"), 100);
  EXPECT_EQ(bound(R"(["one"])"), 100);
  EXPECT_EQ(bound(R"(["one","two","three"])"), 300);
  EXPECT_EQ(bound("[1,2,3]"), 100);
  EXPECT_EQ(bound("[[1,2,3],[4]]"), 200);
}

TEST(BodyEstimate, tools_count_with_their_keys) {
  const std::string tool =
      R"({"type":"function","function":{"name":"weather","description":"tells the weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}})";
  const std::int64_t without = text_tokens(chat(R"("x")"));
  const std::int64_t one = text_tokens(chat(R"("x")", ",\"tools\":[" + tool + "]"));
  const std::int64_t two = text_tokens(chat(R"("x")", ",\"tools\":[" + tool + "," + tool + "]"));
  EXPECT_GT(one, without + 20);
  EXPECT_NEAR(static_cast<double>(two - one), static_cast<double>(one - without), 2);
}

TEST(BodyEstimate, any_bytes_are_read_to_their_end) {
  const bool holds = rc::check([](const std::string& noise, std::size_t cut) {
    std::string body = chat('"' + noise + '"', R"(,"max_tokens":5,"tools":[{"a":[1,{"b":null}]}])");
    body.resize(body.size() - cut % body.size());
    const BodyEstimate estimate = estimate_body(body);
    RC_ASSERT(estimate.text_tokens >= 0);
    RC_ASSERT(estimate.text_tokens < static_cast<std::int64_t>(body.size()) * 2 + 100);
    RC_ASSERT(estimate_body("[" + noise).text_tokens >= 0);
  });
  EXPECT_TRUE(holds);
}

wire::Usage usage(std::int64_t input, std::int64_t output) {
  wire::Usage usage;
  usage.input_tokens = input;
  usage.output_tokens = output;
  return usage;
}

constexpr std::int64_t kBoth = wire::Cost::kInput | wire::Cost::kOutput;

TEST(Estimates, what_a_client_knows_counts_as_it_stands) {
  Estimates estimates(1600, 512);
  const std::string body = chat('"' + kProse + '"', R"(,"max_tokens":1000)");
  const Estimate both =
      estimates.estimate("m", "", body, wire::Cost{.input_tokens = 7, .output_tokens = 9, .certain = kBoth});
  EXPECT_EQ(both.amounts.input_tokens, 7);
  EXPECT_EQ(both.amounts.output_tokens, 9);
  EXPECT_EQ(both.raw_input, 0u) << "there is nothing to learn from it";
  EXPECT_FALSE(both.output_bound);
  const Estimate input = estimates.estimate(
      "m", "", body, wire::Cost{.input_tokens = 7, .output_tokens = 9, .certain = wire::Cost::kInput});
  EXPECT_EQ(input.amounts.input_tokens, 7);
  EXPECT_EQ(input.amounts.output_tokens, 1000);
}

TEST(Estimates, of_what_is_no_json_what_is_stated_counts) {
  Estimates estimates(1600, 512);
  const auto estimate_of = [&](const wire::Cost& stated) {
    return estimates.estimate("m", "", kProse, word_of(stated, kProse)).amounts;
  };
  const Amounts both = estimate_of({.input_tokens = 7, .output_tokens = 9});
  EXPECT_EQ(both.input_tokens, 7);
  EXPECT_EQ(both.output_tokens, 9);
  const Amounts input = estimate_of({.input_tokens = 7, .output_tokens = {}});
  EXPECT_EQ(input.input_tokens, 7);
  EXPECT_EQ(input.output_tokens, 512);
  for (const char* const body : {"{}", " \n[1]", "\xEF\xBB\xBF{\"a\":1}"})
    EXPECT_FALSE(word_of(wire::Cost{.input_tokens = 1, .output_tokens = 1}, body)->knows_input()) << body;
}

TEST(Estimates, what_a_client_may_be_wrong_about_counts_where_it_is_more) {
  Estimates estimates(1600, 512);
  const std::string body = chat('"' + kProse + kProse + '"', R"(,"max_tokens":100)");
  const Estimate own = estimates.estimate("m", "", body, std::nullopt);
  const auto raised = [&](std::int64_t input, std::int64_t output) {
    const wire::Cost stated{.input_tokens = input, .output_tokens = output};
    Amounts amounts = estimates.estimate("m", "", body, stated).amounts;
    raise_to(stated, amounts);
    return amounts;
  };
  EXPECT_EQ(raised(1, 1), own.amounts);
  EXPECT_EQ(raised(5000, 1).input_tokens, 5000);
  EXPECT_EQ(raised(1, 300).output_tokens, 300);
}

TEST(Estimates, what_is_named_by_its_id_is_learned) {
  Estimates estimates(1600, 512);
  const std::string body = chat(R"([{"type":"file","file":{"file_id":"file-1"}}])");
  for (int i = 0; i < 30; ++i) {
    const Estimate estimate = estimates.estimate("m", "", body, std::nullopt);
    estimates.learn("m", "", estimate.raw_input, usage(40'000, 10));
  }
  EXPECT_NEAR(static_cast<double>(estimates.estimate("m", "", body, std::nullopt).amounts.input_tokens),
              40'000, 2000);
}

TEST(Estimates, the_sum_is_right_where_kinds_are_off_in_different_ways) {
  Estimates estimates(1600, 512);
  const std::string large = chat('"' + std::string(20'000, '%') + '"'), small = chat('"' + kProse + '"');
  const std::int64_t raw_large = estimate_body(large).text_tokens,
                     raw_small = estimate_body(small).text_tokens;
  double expected = 0, used = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool is_large = i % 3 == 0;
    const std::int64_t raw = is_large ? raw_large : raw_small, actual = is_large ? raw * 2 : raw / 2;
    const Estimate estimate = estimates.estimate("m", "", is_large ? large : small, std::nullopt);
    estimates.learn("m", "", estimate.raw_input, usage(actual, 10));
    if (i < 50) continue;
    expected += static_cast<double>(estimate.amounts.input_tokens);
    used += static_cast<double>(actual);
  }
  EXPECT_GE(expected / used, 0.98);
  EXPECT_LE(expected / used, 1.25);
}

TEST(Estimates, what_the_upstream_adds_to_short_requests_does_not_multiply_long_ones) {
  Estimates estimates(1600, 512);
  const std::string large = chat('"' + std::string(20'000, '%') + '"');
  const std::int64_t raw = estimate_body(large).text_tokens;
  for (int i = 0; i < 1000; ++i)
    estimates.learn("m", "", i % 2 == 0 ? 10 : static_cast<std::uint32_t>(raw),
                    usage(i % 2 == 0 ? 400 : raw, 10));
  EXPECT_LE(estimates.estimate("m", "", large, std::nullopt).amounts.input_tokens, raw * 3);
}

TEST(Estimates, the_input_of_a_model_is_learned_within_twenty_answers) {
  Estimates estimates(1600, 512);
  const std::string body = chat('"' + kProse + kProse + kProse + '"');
  const std::int64_t actual = estimate_body(body).text_tokens * 17 / 10;
  for (int i = 0; i < 20; ++i) {
    const Estimate estimate = estimates.estimate("m", "", body, std::nullopt);
    estimates.learn("m", "", estimate.raw_input, usage(actual, 50));
  }
  const auto learned =
      static_cast<double>(estimates.estimate("m", "", body, std::nullopt).amounts.input_tokens);
  EXPECT_NEAR(learned / static_cast<double>(actual), 1, 0.05);
  EXPECT_EQ(estimates.estimate("other", "", body, std::nullopt).raw_input, estimate_body(body).text_tokens);
}

TEST(Estimates, a_client_that_writes_otherwise_has_a_series_of_its_own) {
  Estimates estimates(1600, 512);
  const std::string body = chat('"' + kProse + kProse + '"');
  const std::int64_t raw = estimate_body(body).text_tokens;
  for (int i = 0; i < 30; ++i) {
    estimates.learn("m", "plain", static_cast<std::uint32_t>(raw), usage(raw, 10));
    estimates.learn("m", "dense", static_cast<std::uint32_t>(raw), usage(raw * 2, 1000));
  }
  const Amounts plain = estimates.estimate("m", "plain", body, std::nullopt).amounts;
  const Amounts dense = estimates.estimate("m", "dense", body, std::nullopt).amounts;
  EXPECT_NEAR(static_cast<double>(dense.input_tokens) / static_cast<double>(plain.input_tokens), 2, 0.1);
  EXPECT_LT(plain.output_tokens, 20);
  EXPECT_GT(dense.output_tokens, 900);
}

TEST(Estimates, the_output_is_the_90th_percentile_and_at_most_the_bound) {
  Estimates estimates(1600, 512);
  EXPECT_EQ(estimates.estimate("m", "", chat(R"("x")"), std::nullopt).amounts.output_tokens, 512);
  EXPECT_EQ(estimates.estimate("m", "", chat(R"("x")", R"(,"max_tokens":4000)"), std::nullopt)
                .amounts.output_tokens,
            4000)
      << "nothing is known of the model: the upstream may count the bound";
  for (int i = 1; i <= 1000; ++i)
    estimates.learn("m", "", 10, usage(10, i));
  const auto p90 =
      static_cast<double>(estimates.estimate("m", "", chat(R"("x")"), std::nullopt).amounts.output_tokens);
  EXPECT_GE(p90, 900);
  EXPECT_LE(p90, 900 * 1.2) << "a class is a fifth wide";
  EXPECT_EQ(
      estimates.estimate("m", "", chat(R"("x")", R"(,"max_tokens":100)"), std::nullopt).amounts.output_tokens,
      100);
}

TEST(Estimates, strangers_cannot_fill_the_memory) {
  Estimates estimates(1600, 512);
  for (std::size_t i = 0; i < Estimates::kSeriesMax + 100; ++i)
    estimates.learn("model-" + std::to_string(i), "", 10, usage(20, 5));
  EXPECT_EQ(estimates.size(), Estimates::kSeriesMax);
}

TEST(Estimates, who_was_last_heard_of_makes_way_and_models_stay) {
  Estimates estimates(1600, 512);
  const auto expected = [&](const std::string& model, const std::string& client) {
    return estimates.estimate(model, client, chat(R"("x")"), std::nullopt).amounts.output_tokens;
  };
  const auto learn = [&](const std::string& model, const std::string& client, std::int64_t output) {
    for (int i = 0; i < 10; ++i)
      estimates.learn(model, client, 10, usage(20, output));
  };
  learn("old", "first", 3000);
  learn("old", "second", 3000);
  for (int i = 0; i < 100'000; ++i)
    estimates.learn("old", "", 10, usage(20, 5));
  for (std::size_t i = 0; i < Estimates::kSeriesMax; ++i) {
    if (i % 1000 == 0) learn("old", "second", 3000);
    learn("old", "user-" + std::to_string(i), 5);
  }
  learn("new", "", 3000);

  EXPECT_EQ(estimates.size(), Estimates::kSeriesMax);
  EXPECT_GE(expected("new", ""), 3000);
  EXPECT_GE(expected("old", "second"), 3000) << "it was there all the time";
  EXPECT_LT(expected("old", "first"), 100) << "that of its model";
  EXPECT_LT(expected("old", "user-" + std::to_string(Estimates::kSeriesMax - 1)), 100);
}

TEST(Estimates, clients_that_call_once_do_not_drive_out_those_that_call_often) {
  Estimates estimates(1600, 512);
  std::size_t strangers = 0;
  const auto stranger = [&] {
    estimates.learn("m", "once-" + std::to_string(strangers++), 10, usage(20, 5));
  };
  while (estimates.size() < Estimates::kSeriesMax)
    stranger();
  // Each calls again when twice as many strangers have called as there is room for.
  for (int round = 0; round < 20; ++round) {
    estimates.learn("m", "often", 10, usage(20, 3000));
    for (std::size_t i = 0; i < 2 * Estimates::kSeriesMax; ++i)
      stranger();
  }
  EXPECT_GE(estimates.estimate("m", "often", chat(R"("x")"), std::nullopt).amounts.output_tokens, 3000);
}

TEST(Estimates, a_call_that_took_no_tokens_says_nothing_of_answers) {
  Estimates estimates(1600, 512);
  for (int i = 0; i < 100; ++i)
    estimates.learn("m", "", 10, usage(0, 0));
  EXPECT_EQ(estimates.estimate("m", "", chat(R"("x")"), std::nullopt).amounts.output_tokens, 512);
  for (int i = 0; i < 100; ++i)
    estimates.learn("embedding", "", 10, usage(8, 0));
  EXPECT_LE(estimates.estimate("embedding", "", chat(R"("x")"), std::nullopt).amounts.output_tokens, 1);
}

}  // namespace
}  // namespace lanemq::core
