// SPDX-License-Identifier: Apache-2.0
// Figures of estimates: what an upstream that counts tokens by a rule of its own sees of a limit in tokens.
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/figures/stage.hpp"

namespace lanemq::figures {
namespace {

using core::Resource;
using std::chrono::minutes;

/// A request, and the tokens that the upstream counts of it.
struct Request {
  std::string body;
  std::int64_t tokens = 0;
  bool understated = false;  ///< its client says that it costs nearly nothing
};

/// Draws requests. How many tokens they have it knows from how it makes them: from words, marks and
/// characters, as a tokenizer would see them, never from their bytes or their JSON.
class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed) {}

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }

  /// Letters that mean something: a token for six, and one for each four behind.
  std::string word() {
    std::string word;
    const std::int64_t letters = between(1, 11);
    for (std::int64_t i = 0; i < letters; ++i)
      word += static_cast<char>('a' + between(0, 25));
    tokens_ += letters <= 6 ? 1 : 1 + (letters - 3) / 4;
    return word;
  }
  std::string mark(const char* text) {
    ++tokens_;
    return text;
  }
  /// Three digits are a token.
  std::string number(std::int64_t digits) {
    std::string number = std::to_string(between(1, 9));
    for (std::int64_t i = 1; i < digits; ++i)
      number += std::to_string(between(0, 9));
    tokens_ += (digits + 2) / 3;
    return number;
  }
  std::string times(std::int64_t count, const std::function<std::string()>& one) {
    std::string text;
    for (std::int64_t i = 0; i < count; ++i)
      text += one();
    return text;
  }
  std::string prose() {
    return times(between(200, 1200), [&] {
      return word() + (between(0, 9) == 0 ? mark(",") : between(0, 12) == 0 ? mark(".") : "") + " ";
    });
  }
  std::string code() {
    return times(between(60, 300), [&] {
      return mark("\\n") + "    " + word() + mark("(") + word() + mark(", ") + word() + mark(") ") +
             mark("= ") + number(2) + mark(";");
    });
  }
  /// JSON as a text.
  std::string data() {
    return times(between(60, 300), [&] {
      return mark("{\\\"") + word() + mark("\\\": ") + number(4) + mark(", \\\"") + word() +
             mark("\\\": \\\"") + word() + mark("\\\"},");
    });
  }
  std::string table() {
    return times(between(100, 400), [&] { return number(6) + mark("\\t") + number(5) + mark("\\n"); });
  }
  /// One character of three bytes is about a token; of a rare one there are two.
  std::string chinese() {
    return times(between(300, 1500), [&] {
      tokens_ += between(0, 4) == 0 ? 2 : 1;
      return std::string("\xE4") + static_cast<char>(0xB8 + between(0, 7)) +
             static_cast<char>(0x80 + between(0, 63));
    });
  }
  std::string russian() {
    return times(between(200, 800), [&] {
      const std::int64_t letters = between(2, 9);
      tokens_ += 1 + letters / 3;
      std::string text;
      for (std::int64_t i = 0; i < letters; ++i)
        text += std::string("\xD0") + static_cast<char>(0xB0 + between(0, 15));
      return text + " ";
    });
  }
  std::string emoji() {
    return times(between(100, 600), [&] {
      tokens_ += between(2, 3);
      return std::string("\xF0\x9F\x98") + static_cast<char>(0x80 + between(0, 63));
    });
  }
  std::string joined() {
    return times(between(500, 2500), [&] { return word() + mark("_"); });
  }
  /// Two characters of base64 are a token where it is text.
  std::string base64(std::int64_t bytes) {
    static constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (base64_.empty())
      for (int i = 0; i < 1 << 16; ++i)
        base64_ += kDigits[static_cast<std::size_t>(between(0, 63))];
    return base64_.substr(static_cast<std::size_t>(between(0, (1 << 16) - bytes)),
                          static_cast<std::size_t>(bytes));
  }
  std::string pasted() {
    const std::int64_t bytes = between(1000, 8000);
    tokens_ += bytes / 2;
    return base64(bytes);
  }
  std::string numbers() {
    const std::int64_t count = between(200, 3000);
    tokens_ += count;
    return "[" + times(count - 1, [&] { return std::to_string(between(0, 100'000)) + ","; }) + "17]";
  }
  std::string picture() {
    tokens_ += 85 + 170 * between(1, 8);
    return R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
           base64(between(4000, 20'000)) + "\"}}";
  }
  std::string linked_picture() {
    tokens_ += 85 + 170 * between(1, 8);
    return R"({"type":"image_url","image_url":{"url":"https://example.com/)" +
           std::to_string(between(0, 99)) + ".png\"}}";
  }
  /// A document of some pages that was sent before.
  std::string file() {
    tokens_ += 1500 * between(1, 6);
    return R"({"type":"file","file":{"file_id":"file-)" + std::to_string(between(100'000, 999'999)) + "\"}}";
  }
  std::string tool() {
    std::string properties = times(between(2, 8), [&] {
      tokens_ += 6;  // type, description and what is around them
      return "\"" + word() + R"(":{"type":"string","description":")" + word() + " " + word() + " " + word() +
             "\"},";
    });
    properties.pop_back();
    tokens_ += 12;
    return R"({"type":"function","function":{"name":")" + word() + R"(","description":")" + word() + " " +
           word() + R"(","parameters":{"type":"object","properties":{)" + properties + "}}}}";
  }
  /// What a tool was called with, as an object.
  std::string called() {
    std::string rows = times(between(40, 200), [&] {
      return mark("{\"") + word() + mark("\":") + number(4) + mark(",\"") + word() + mark("\":\"") + word() +
             mark("\"},");
    });
    rows.pop_back();
    return R"({"type":"tool_use","id":"toolu_1","name":"insert","input":{"rows":[)" + rows + "]}}";
  }

  Request chat(const std::string& content, const std::string& rest = "") {
    tokens_ += 7;
    return finished(R"({"model":"m","messages":[{"role":"user","content":)" + content + "}]" + rest +
                    R"(,"max_tokens":200})");
  }
  Request text(const std::string& content) { return chat('"' + content + '"'); }
  Request finished(std::string body) {
    return {.body = std::move(body), .tokens = std::exchange(tokens_, 0)};
  }

 private:
  std::mt19937_64 random_;
  std::string base64_;
  std::int64_t tokens_ = 0;
};

struct Kind {
  const char* name;
  std::function<Request(Writer&)> draw;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds{
      {"prose", [](Writer& w) { return w.text(w.prose()); }},
      {"short_questions",
       [](Writer& w) { return w.text(w.times(w.between(1, 12), [&] { return w.word() + " "; })); }},
      {"code", [](Writer& w) { return w.text(w.code()); }},
      {"json_as_text", [](Writer& w) { return w.text(w.data()); }},
      {"tables", [](Writer& w) { return w.text(w.table()); }},
      {"chinese", [](Writer& w) { return w.text(w.chinese()); }},
      {"russian", [](Writer& w) { return w.text(w.russian()); }},
      {"emoji", [](Writer& w) { return w.text(w.emoji()); }},
      {"without_spaces", [](Writer& w) { return w.text(w.joined()); }},
      {"pasted_base64", [](Writer& w) { return w.text(w.pasted()); }},
      {"token_numbers",
       [](Writer& w) {
         return w.finished(R"({"model":"e","input":[)" + w.numbers() + "," + w.numbers() + "]}");
       }},
      {"one_prompt_of_token_numbers",
       [](Writer& w) {
         return w.finished(R"({"model":"m","prompt":)" + w.numbers() + R"(,"max_tokens":200})");
       }},
      {"pictures",
       [](Writer& w) {
         return w.chat("[" + w.picture() + R"(,{"type":"text","text":")" + w.word() + "\"}]");
       }},
      {"linked_pictures",
       [](Writer& w) { return w.chat("[" + w.linked_picture() + "," + w.linked_picture() + "]"); }},
      {"files",
       [](Writer& w) { return w.chat("[" + w.file() + R"(,{"type":"text","text":")" + w.word() + "\"}]"); }},
      {"tools",
       [](Writer& w) {
         return w.chat("\"" + w.word() + "\"", ",\"tools\":[" + w.tool() + "," + w.tool() + "]");
       }},
      {"called_tools", [](Writer& w) { return w.chat("[" + w.called() + "]"); }},
      {"understated", [](Writer& w) {
         Request request = w.text(w.prose());
         request.understated = true;
         return request;
       }}};
  return kKinds;
}

/// What an upstream counted, call by call.
class Ledger {
 public:
  void count(TimePoint at, std::int64_t tokens) { calls_.push_back({at, tokens}); }
  /// The most in a window of that length which begins at `from` or later.
  std::int64_t peak(Duration window, TimePoint from) const {
    std::int64_t most = 0, within = 0;
    std::size_t first = 0;
    for (const Call& call : calls_) {
      if (call.at < from) {
        ++first;
        continue;
      }
      within += call.tokens;
      while (calls_[first].at <= call.at - window)
        within -= calls_[first++].tokens;
      most = std::max(most, within);
    }
    return most;
  }

 private:
  struct Call {
    TimePoint at;
    std::int64_t tokens;
  };
  std::vector<Call> calls_;  // in order
};

constexpr std::int64_t kLimit = 2'000'000;

/// There is always more to do than the upstream allows, in tokens a minute; it counts a call when it comes,
/// and says what it counted when it answers, up to 20 s later.
Ledger play(const std::vector<Kind>& played, Duration length) {
  core::Options options = core::default_options();
  core::BudgetOptions& budget = options.budgets.emplace_back();
  budget.name = "api";
  budget.rates.push_back(per_minute(Resource::tokens, kLimit));
  Writer writer(played.size() + static_cast<unsigned char>(*played.front().name));
  Ledger ledger;
  Stage stage(options, [&](const Work& work, TimePoint now) {
    ledger.count(now, work.used->input_tokens + work.used->output_tokens);
    const double unit = static_cast<double>(writer.between(0, 1'000'000)) / 1e6;
    return Answer{.takes = Duration(static_cast<std::int64_t>(1e6 * std::exp(5 * unit - 2)))};
  });
  const auto submit = [&] {
    const Kind& kind =
        played[static_cast<std::size_t>(writer.between(0, static_cast<std::int64_t>(played.size()) - 1))];
    const Request request = kind.draw(writer);
    stage.submit({.lane = "normal",
                  .client = "client",
                  .model = "model",
                  .stated = {.input_tokens = 1, .output_tokens = 1},
                  .used = Amounts{.input_tokens = request.tokens,
                                  .output_tokens = request.body.find("max_tokens") == std::string::npos
                                                       ? 0
                                                       : writer.between(20, 200)},
                  .states = request.understated},
                 request.body);
  };
  stage.on_hand_over = [&](std::size_t) { stage.at(stage.now(), submit); };
  for (int i = 0; i < 6; ++i)
    stage.add_worker(1000);
  for (int i = 0; i < 1000; ++i)
    submit();

  stage.run_until(stage.now() + length);
  return ledger;
}

double percent(std::int64_t tokens, std::int64_t limit) {
  return 100 * static_cast<double>(tokens) / static_cast<double>(limit);
}

constexpr TimePoint kBegins{std::chrono::seconds(100)};  // of a Stage

class TokensOfAKind : public testing::TestWithParam<Kind> {};

TEST_P(TokensOfAKind, peak_at_102_percent_at_most_after_a_minute) {
  const Ledger ledger = play({GetParam()}, minutes(8));

  const double first = percent(ledger.peak(minutes(1), kBegins), kLimit);
  const double later = percent(ledger.peak(minutes(1), kBegins + minutes(1)), kLimit);
  say("%s: %.1f %% of the limit in the first minute or later, %.1f %% in any minute after it",
      GetParam().name, first, later);
  EXPECT_LE(later, 102);
  EXPECT_GE(later, 90);
}

INSTANTIATE_TEST_SUITE_P(Figures, TokensOfAKind, testing::ValuesIn(kinds()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(TokensOfAllKinds, peak_at_110_percent_and_at_102_over_ten_minutes) {
  const Ledger ledger = play(kinds(), minutes(16));

  const double minute = percent(ledger.peak(minutes(1), kBegins + minutes(1)), kLimit);
  const double ten = percent(ledger.peak(minutes(10), kBegins + minutes(1)), 10 * kLimit);
  say("%zu kinds mixed: %.1f %% of the limit in any minute after the first, %.1f %% over ten minutes",
      kinds().size(), minute, ten);
  EXPECT_LE(minute, 110);
  EXPECT_LE(ten, 102);
  EXPECT_GE(ten, 90);
}

}  // namespace
}  // namespace lanemq::figures
