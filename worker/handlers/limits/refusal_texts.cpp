// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/limits/refusal_texts.hpp"

#include <algorithm>
#include <string>

#include <lanemq/words.hpp>

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

// Each row with a page that shows it.
constexpr struct {
  std::string_view name;
  LimitedBy kind;
} kCodes[] = {
    // Alibaba: https://www.alibabacloud.com/help/en/model-studio/error-code
    {"limit_burst_rate", LimitedBy::slope},
    {"limit_requests", LimitedBy::rate},
    // Volcano Ark: https://www.volcengine.com/docs/82379/1299023
    {"RequestBurstTooFast", LimitedBy::slope},
    {"ModelAccountRpmRateLimitExceeded", LimitedBy::rate},
    {"ModelAccountTpmRateLimitExceeded", LimitedBy::rate},
    {"concurrency_limit_exceeded", LimitedBy::concurrency},
};

// In lower case; the first row that is found counts, so what is told more exactly stands first.
constexpr struct {
  std::string_view phrase;
  LimitedBy kind;
} kPhrases[] = {
    // DeepSeek: https://github.com/tarigelamin1997/jobfetcher/pull/42
    {"concurrency is ", LimitedBy::concurrency},
    {"concurrency limit", LimitedBy::concurrency},
    // Moonshot: https://github.com/LLM-Red-Team/kimi-cc/issues/16
    {"organization concurrency", LimitedBy::concurrency},
    // Ollama, and many others
    {"concurrent request", LimitedBy::concurrency},
    // GitHub Models: https://docs.github.com/github-models/use-github-models/prototyping-with-ai-models
    {"userconcurrentrequests", LimitedBy::concurrency},
    // servers such as llama.cpp: https://github.com/ggml-org/llama.cpp
    {"waiting for a slot", LimitedBy::concurrency},
    // Alibaba: https://github.com/QwenLM/Qwen/issues/2069
    {"rate increased too quickly", LimitedBy::slope},
    // Anthropic: https://docs.anthropic.com/en/api/rate-limits (acceleration limits)
    {"usage increase rate", LimitedBy::slope},
    {"acceleration limit", LimitedBy::slope},
    // OpenAI: https://platform.openai.com/docs/guides/rate-limits
    {"per day", LimitedBy::day},
    {"(rpd)", LimitedBy::day},
    {"(tpd)", LimitedBy::day},
    // Moonshot: https://github.com/MoonshotAI/kimi-cli/issues/1599
    {" tpd ", LimitedBy::day},
    {" rpd ", LimitedBy::day},
    // OpenRouter: https://github.com/Gitlawb/openclaude/issues/936
    {"per-day", LimitedBy::day},
    // GitHub Models
    {"bymodelbyday", LimitedBy::day},
    // Cloudflare: https://developers.cloudflare.com/workers-ai/platform/errors/
    {"daily", LimitedBy::day},
    // plans: https://github.com/continuedev/continue/issues/11158
    {"weekly", LimitedBy::day},
    {"monthly", LimitedBy::day},
    {"per month", LimitedBy::day},
    {"session usage limit", LimitedBy::day},
    {"per hour", LimitedBy::rate},
    {"hourly", LimitedBy::rate},
    {"per min", LimitedBy::rate},
    {"per-min", LimitedBy::rate},
    {"per second", LimitedBy::rate},
    {"(rpm)", LimitedBy::rate},
    {"(tpm)", LimitedBy::rate},
    {" rpm", LimitedBy::rate},
    {" tpm", LimitedBy::rate},
    {"bymodelbyminute", LimitedBy::rate},
};

/// Behind these stands how many calls at once are allowed.
constexpr std::string_view kConcurrencyLimits[] = {"exceeds your concurrency limit of ",
                                                   "exceeds your limit of ", "organization concurrency: "};

constexpr std::string_view kWaits[] = {"try again in ", "try again after ", "retry in ",
                                       "retry after ",  "reset after ",     "resets after ",
                                       "reset in ",     "resets in ",       "please wait "};
constexpr std::string_view kDates[] = {"reset at ", "resets at ", "reset on ", "try again at ", "retry at "};

std::string lowered(std::string_view text) {
  std::string copy(text.substr(0, kTextScanMax));
  std::transform(copy.begin(), copy.end(), copy.begin(), lower);
  return copy;
}

/// Asks `read` for what stands behind the phrase, at each of its places until it finds something.
template <class Read>
auto behind(std::string_view text, std::string_view phrase, Read read) {
  decltype(read(text)) found{};
  for (std::size_t at = text.find(phrase); !found && at != std::string_view::npos;
       at = text.find(phrase, at + 1))
    found = read(text.substr(at + phrase.size()));
  return found;
}

}  // namespace

RefusalWords words_of_code(std::string_view name) {
  for (const auto& known : kCodes)
    if (name == known.name) return {.limited_by = known.kind};
  return {};
}

RefusalWords words_of_text(std::string_view text) {
  const std::string searched = lowered(text);
  for (const auto& known : kPhrases) {
    if (searched.find(known.phrase) == std::string::npos) continue;
    RefusalWords words{.limited_by = known.kind};
    if (known.kind != LimitedBy::concurrency) return words;
    for (const std::string_view phrase : kConcurrencyLimits)
      if (!words.limit_concurrency) words.limit_concurrency = behind(searched, phrase, leading_number);
    return words;
  }
  return {};
}

std::optional<milliseconds> find_wait_in_text(std::string_view text, WallTime now) {
  const std::string searched = lowered(text);
  for (const std::string_view phrase : kWaits)
    if (const auto wait = behind(searched, phrase, wait_at_front)) return wait;
  for (const std::string_view phrase : kDates)
    if (const auto date = behind(searched, phrase, date_at_front)) return until(*date, now);
  return std::nullopt;
}

}  // namespace lanemq::worker
