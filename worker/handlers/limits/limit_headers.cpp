// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/limits/limit_headers.hpp"

#include <algorithm>
#include <cmath>

#include <lanemq/words.hpp>

#include "worker/handlers/limits/providers.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;
using Number = std::optional<std::int64_t>;
using Limits = wire::UpstreamLimits;

constexpr std::int64_t kMinuteMs = 60'000, kHourMs = 3'600'000, kDayMs = 24 * kHourMs;

Number ms_of(std::optional<milliseconds> wait) {
  return wait ? Number(wait->count()) : std::nullopt;
}

bool take_front(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Takes what stands in front of `end`, and `end`.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return trimmed(taken, kSpacesAndLineEnds);
}

std::string_view without_quotes(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// The period that a header's name ends with, which is removed: `-day`, `-per-day`.
Number take_period(std::string_view& name) {
  static constexpr struct {
    std::string_view ending;
    std::int64_t ms;
  } kPeriods[] = {{"-second", 1000},
                  {"-minute", kMinuteMs},
                  {"-hour", kHourMs},
                  {"-day", kDayMs},
                  {"-month", 30 * kDayMs}};
  for (const auto& [ending, ms] : kPeriods) {
    if (!name.ends_with(ending)) continue;
    name.remove_suffix(ending.size());
    if (name.ends_with("-per")) name.remove_suffix(4);
    return ms;
  }
  return std::nullopt;
}

/// The window in ms that a parameter states in seconds.
Number window_of(std::string_view seconds) {
  const auto window = parse_duration(seconds);
  return window && window->count() > 0 ? Number(window->count()) : std::nullopt;
}

}  // namespace

struct LimitHeaders::Slot {
  Number Limits::*limit, Limits::*remaining, Limits::*reset;
};

const LimitHeaders::Slot& LimitHeaders::slot(Kind kind) {
  static constexpr Slot kSlots[] = {
      {&Limits::limit_requests, &Limits::remaining_requests, &Limits::reset_requests_ms},
      {&Limits::limit_tokens, &Limits::remaining_tokens, &Limits::reset_tokens_ms},
      {&Limits::limit_input_tokens, &Limits::remaining_input_tokens, &Limits::reset_input_tokens_ms},
      {&Limits::limit_output_tokens, &Limits::remaining_output_tokens, &Limits::reset_output_tokens_ms}};
  return kSlots[static_cast<std::size_t>(kind)];
}

/// How each dialect is read. A function gets what stands behind its prefix in the name.
struct LimitDialects {
  using Headers = LimitHeaders;
  using Kind = LimitHeaders::Kind;
  using Figure = LimitHeaders::Figure;

  static std::optional<Kind> kind_of(std::string_view resource) {
    static constexpr struct {
      std::string_view resource;
      Kind kind;
    } kResources[] = {{"requests", Kind::requests},
                      {"tokens", Kind::tokens},
                      {"input-tokens", Kind::input_tokens},
                      {"output-tokens", Kind::output_tokens},
                      {"req", Kind::requests},                     // Mistral
                      {"tokens-prompt", Kind::input_tokens},       // Fireworks
                      {"tokens-generated", Kind::output_tokens}};  // Fireworks
    for (const auto& known : kResources)
      if (resource == known.resource) return known.kind;
    return std::nullopt;
  }

  /// `what`: limit, remaining or reset.
  static void put(Headers& self, std::string_view what, std::string_view value, WallTime now, Number& limit,
                  Number& remaining, Number& reset) {
    if (what == "reset")
      self.set(reset, ms_of(parse_reset(value, now)));
    else if (what == "limit")
      self.set(limit, count_at_front(value));
    else if (what == "remaining")
      self.set(remaining, count_at_front(value));
  }
  static void put(Headers& self, std::string_view what, std::string_view value, WallTime now, Kind kind) {
    const auto& slot = Headers::slot(kind);
    put(self, what, value, now, self.limits_.*slot.limit, self.limits_.*slot.remaining,
        self.limits_.*slot.reset);
  }
  static void put(Headers& self, std::string_view what, std::string_view value, WallTime now,
                  Figure* figure) {
    if (figure != nullptr) put(self, what, value, now, figure->limit, figure->remaining, figure->reset_ms);
  }

  /// `remaining-tokens`, `remaining-tokens-day`, or `remaining` alone, which counts requests.
  static void named(Headers& self, std::string_view name, std::string_view value, WallTime now) {
    const std::size_t dash = name.find('-');
    if (dash == std::string_view::npos) return unnamed(self, name, value, now);
    const std::string_view what = name.substr(0, dash);
    std::string_view resource = name.substr(dash + 1);
    if (what == "renewalperiod") return renewal(self, resource, value);
    if (const auto kind = kind_of(resource)) return put(self, what, value, now, *kind);
    const std::string_view label = resource;
    const Number period = take_period(resource);
    const auto kind = kind_of(resource);
    if (!period || !kind) return;
    if (*period == kMinuteMs) return put(self, what, value, now, *kind);
    Figure* const figure = self.figure(*kind, label);
    if (figure != nullptr) figure->period_ms = period;
    put(self, what, value, now, figure);
  }

  /// Azure's period of a figure in seconds.
  static void renewal(Headers& self, std::string_view resource, std::string_view value) {
    const Number period = window_of(value);
    if (!period || *period == kMinuteMs) return;
    if (resource == "requests") self.limits_.period_requests_ms = period;
    if (resource == "tokens") self.limits_.period_tokens_ms = period;
  }

  /// `tokens-remaining`.
  static void named_last(Headers& self, std::string_view name, std::string_view value, WallTime now) {
    const std::size_t dash = name.rfind('-');
    if (dash == std::string_view::npos) return;
    if (const auto kind = kind_of(name.substr(0, dash))) put(self, name.substr(dash + 1), value, now, *kind);
  }

  static void of_tokens(Headers& self, std::string_view name, std::string_view value, WallTime now) {
    put(self, name, value, now, Kind::tokens);
  }

  /// Of no named resource: requests. `100, 100;w=60` states the window behind the limit.
  static void unnamed(Headers& self, std::string_view name, std::string_view value, WallTime now) {
    if (name != "limit" && name != "remaining" && name != "reset") return;
    Figure* const figure = self.figure(Kind::requests, "/");
    put(self, name, value, now, figure);
    if (figure == nullptr || name != "limit") return;
    while (!value.empty()) {
      std::string_view item = take_until(value, ',');
      const Number quota = count_at_front(take_until(item, ';'));
      while (!item.empty()) {
        std::string_view parameter = take_until(item, ';');
        if (take_front(parameter, "w=") && quota == figure->limit) figure->period_ms = window_of(parameter);
      }
    }
  }

  /// The parameters of one policy, in either form of the IETF's drafts.
  static void put_parameter(Headers& self, Figure& figure, std::string_view key, std::string_view value) {
    if (key == "q" || key == "limit")
      self.set(figure.limit, count_at_front(value));
    else if (key == "r" || key == "remaining")
      self.set(figure.remaining, count_at_front(value));
    else if (key == "t" || key == "reset")
      self.set(figure.reset_ms, ms_of(parse_duration(value)));
    else if (key == "w")
      figure.period_ms = window_of(value);
  }

  /// `"default";q=100;w=60, "burst";q=5;w=1`, and likewise `r` and `t`. A policy of calls at once has
  /// qu="concurrent-requests"; policies of other units, such as bytes, do not count.
  static void policies(Headers& self, std::string_view, std::string_view value, WallTime) {
    if (value.starts_with("limit=") || value.starts_with("remaining=") || value.starts_with("reset="))
      return listed(self, value);
    while (!value.empty()) {
      std::string_view item = take_until(value, ',');
      const std::string_view parameters = item;
      const std::string_view name = without_quotes(take_until(item, ';'));
      std::string_view unit;
      Number quota;
      for (std::string_view rest = item; !rest.empty();) {
        std::string_view parameter = take_until(rest, ';');
        if (take_front(parameter, "qu=")) unit = without_quotes(parameter);
        if (take_front(parameter, "q=")) quota = count_at_front(parameter);
      }
      if (unit == "concurrent-requests") self.set(self.limits_.limit_concurrency, quota);
      if (!unit.empty() && unit != "requests") {
        // The other header, which says what remains of it, states no unit.
        if (Figure* const other = self.figure(Kind::requests, name)) other->counts = false;
        continue;
      }
      // Draft 07 states policies as `100;w=60`, without names.
      const bool unnamed_policy = count_at_front(name).has_value();
      Figure* const figure = self.figure(Kind::requests, unnamed_policy ? "/" : name);
      if (figure == nullptr) return;
      if (unnamed_policy && !figure->limit) self.set(figure->limit, count_at_front(name));
      if (unnamed_policy && figure->limit != count_at_front(parameters)) continue;
      while (!item.empty()) {
        std::string_view parameter = take_until(item, ';');
        const std::string_view key = take_until(parameter, '=');
        put_parameter(self, *figure, key, parameter);
      }
    }
  }

  /// `limit=100, remaining=50, reset=5`.
  static void listed(Headers& self, std::string_view value) {
    Figure* const figure = self.figure(Kind::requests, "/");
    while (figure != nullptr && !value.empty()) {
      std::string_view item = take_until(value, ',');
      const std::string_view key = take_until(item, '=');
      put_parameter(self, *figure, key, item);
    }
  }

  /// Of a person's plan: `status`, `reset`.
  static void plan(Headers& self, std::string_view name, std::string_view value, WallTime now) {
    if (name == "status") self.plan_refuses_ = value == "rejected";
    if (name == "reset") self.plan_reset_ms_ = ms_of(parse_reset(value, now));
  }

  static void retry_after_ms(Headers& self, std::string_view name, std::string_view value, WallTime) {
    if (name.empty()) self.retry_after_ms_ = parse_milliseconds(value);
  }
  static void ms_retry_after_ms(Headers& self, std::string_view name, std::string_view value, WallTime) {
    if (name.empty()) self.ms_retry_after_ms_ = parse_milliseconds(value);
  }
  static void retry_after(Headers& self, std::string_view name, std::string_view value, WallTime now) {
    if (!name.empty()) return;
    self.retry_after_ = parse_duration(value);
    if (self.retry_after_) return;
    if (const auto date = parse_http_date(value)) self.retry_after_ = until(*date, now);
  }
};

// ---- the table of dialects -------------------------------------------------------------------------------

void LimitHeaders::add(std::string_view name, std::string_view value, WallTime now) {
  using D = LimitDialects;
  static constexpr struct {
    std::string_view prefix;
    void (*read)(LimitHeaders&, std::string_view, std::string_view, WallTime);
  } kDialects[] = {
      // OpenAI: https://platform.openai.com/docs/guides/rate-limits, and all that follow it, among them Groq
      // (https://console.groq.com/docs/rate-limits), xAI, DeepInfra. With a period in the name: Cerebras
      // (https://inference-docs.cerebras.ai/support/rate-limits), Mistral
      // (https://github.com/mistralai/client-ts/issues/169), DigitalOcean
      // (https://docs.digitalocean.com/products/inference/reference/quota-specific-response-headers/).
      // Without a resource: OpenRouter (https://openrouter.ai/docs/api/reference/limits), GitHub.
      // `renewalperiod`: Azure (https://learn.microsoft.com/azure/ai-services/openai/how-to/quota).
      {"x-ratelimit-", &D::named},
      // RFC 9110, 10.2.3: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3; fractions: OpenAI's SDKs.
      {"retry-after-ms", &D::retry_after_ms},
      {"retry-after", &D::retry_after},
      // Azure: https://learn.microsoft.com/azure/architecture/best-practices/retry-service-specific
      {"x-ms-retry-after-ms", &D::ms_retry_after_ms},
      // Claude's plans: headers of a person's account, as https://github.com/anthropics/claude-code shows
      // them.
      {"anthropic-ratelimit-unified-", &D::plan},
      // Anthropic: https://docs.anthropic.com/en/api/rate-limits#response-headers
      {"anthropic-ratelimit-", &D::named_last},
      // Together: https://docs.together.ai/docs/rate-limits
      {"x-tokenlimit-", &D::of_tokens},
      // IETF, draft 07 and later, and the structured fields since 08:
      // https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
      {"ratelimit-policy", &D::policies},
      // IETF, up to draft 06: https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-06
      {"ratelimit-", &D::unnamed},
      {"ratelimit", &D::policies}};
  // Most headers are of none of them.
  if (name.empty() || (name[0] != 'x' && name[0] != 'r' && name[0] != 'a')) return;
  for (const auto& dialect : kDialects) {
    if (!name.starts_with(dialect.prefix)) continue;
    return dialect.read(*this, name.substr(dialect.prefix.size()), value, now);
  }
}

void LimitHeaders::set(Number& place, Number value) {
  if (!value) return;
  place = value;
  has_limits_ = true;
}

LimitHeaders::Figure* LimitHeaders::figure(Kind kind, std::string_view label) {
  constexpr std::size_t kLabelBytesMax = 64;
  label = label.substr(0, kLabelBytesMax);
  for (Figure& figure : figures_)
    if (figure.kind == kind && figure.label == label) return &figure;
  if (figures_.size() >= kFiguresMax) return nullptr;
  return &figures_.emplace_back(Figure{.kind = kind, .label = std::string(label)});
}

std::optional<milliseconds> LimitHeaders::retry_after() const {
  if (retry_after_ms_) return retry_after_ms_;
  if (ms_retry_after_ms_) return ms_retry_after_ms_;
  return retry_after_;
}

std::optional<milliseconds> LimitHeaders::plan_is_back() const {
  if (!plan_refuses_) return std::nullopt;
  return milliseconds(plan_reset_ms_.value_or(0));
}

// ---- which figure counts ---------------------------------------------------------------------------------

/// The figure that binds, of those that were shown.
struct LimitHeaders::Best {
  const Figure* figure = nullptr;
  bool used_up = false;
  std::int64_t period_ms = 0;

  void show(const Figure& other, bool other_used_up, std::int64_t other_period_ms) {
    const bool binds = other_used_up != used_up ? other_used_up
                       : other_used_up          ? other_period_ms > period_ms
                                                : other_period_ms < period_ms;
    if (figure == nullptr || binds) *this = {&other, other_used_up, other_period_ms};
  }
};

/// The period of a figure that does not say it; none: a minute. What is full again in more than a minute
/// counts a day, the commonest of longer limits. Resets that are dates may be wrong by as much as clocks
/// differ; there a bucket shows it, which says how long it fills: the period, times the share that is used.
Number LimitHeaders::unsaid_period(Number limit, Number remaining, Number reset) {
  if (!reset || *reset <= kMinuteMs + 1000) return std::nullopt;
  if (*reset > 2 * kMinuteMs) return kDayMs;
  if (!limit || !remaining || *remaining >= *limit) return std::nullopt;
  const double used = static_cast<double>(*limit) - static_cast<double>(*remaining);
  const double period = static_cast<double>(*reset) * static_cast<double>(*limit) / used;
  const double day = static_cast<double>(kDayMs);
  return std::abs(period - day) < day * 0.01 ? Number(kDayMs) : std::nullopt;
}

Number LimitHeaders::period_of_requests(const Provider* provider) const {
  if (limits_.period_requests_ms) return limits_.period_requests_ms;
  if (provider != nullptr && provider->requests_period_ms > 0) return provider->requests_period_ms;
  return unsaid_period(limits_.limit_requests, limits_.remaining_requests, limits_.reset_requests_ms);
}

/// Replaces the figures of requests, or of tokens, by those that bind.
void LimitHeaders::choose(Limits& limits, bool of_tokens) const {
  static constexpr Kind kOfTokens[] = {Kind::tokens, Kind::input_tokens, Kind::output_tokens};
  const auto belongs = [&](Kind kind) { return (kind != Kind::requests) == of_tokens; };
  const auto each_slot = [&](auto act) {
    if (!of_tokens) return act(slot(Kind::requests));
    for (const Kind kind : kOfTokens)
      act(slot(kind));
  };
  Number& period = of_tokens ? limits.period_tokens_ms : limits.period_requests_ms;

  const Figure alone{};
  bool any = false, used_up = false;
  each_slot([&](const Slot& each) {
    any = any || limits.*each.limit || limits.*each.remaining || limits.*each.reset;
    used_up = used_up || limits.*each.remaining == 0;
  });
  Best best;
  if (any) best.show(alone, used_up, period.value_or(kMinuteMs));
  for (const Figure& figure : figures_) {
    const bool says = figure.limit || figure.remaining || figure.reset_ms;
    if (!belongs(figure.kind) || !says || !figure.counts) continue;
    Number period_ms = figure.period_ms;
    if (!period_ms && !of_tokens) period_ms = unsaid_period(figure.limit, figure.remaining, figure.reset_ms);
    best.show(figure, figure.remaining == 0, period_ms.value_or(kMinuteMs));
  }
  if (best.figure == nullptr || best.figure == &alone) return;

  each_slot([&](const Slot& each) {
    limits.*each.limit = limits.*each.remaining = limits.*each.reset = std::nullopt;
  });
  period = best.period_ms == kMinuteMs ? std::nullopt : Number(best.period_ms);
  for (const Figure& figure : figures_) {
    // Of requests one policy; of tokens all kinds of the same period.
    const bool same = of_tokens ? figure.period_ms == best.figure->period_ms : &figure == best.figure;
    if (!belongs(figure.kind) || !same) continue;
    const Slot& place = slot(figure.kind);
    limits.*place.limit = figure.limit;
    limits.*place.remaining = figure.remaining;
    limits.*place.reset = figure.reset_ms;
  }
}

std::optional<Limits> LimitHeaders::limits(const Provider* provider) const {
  if (!has_limits_) return std::nullopt;
  std::optional<Limits> limits(limits_);
  if (limits_.limit_requests || limits_.remaining_requests)
    limits->period_requests_ms = period_of_requests(provider);
  const bool of_tokens = limits_.limit_tokens || limits_.limit_input_tokens || limits_.limit_output_tokens;
  if (provider != nullptr && provider->tokens_period_ms > 0 && of_tokens && !limits->period_tokens_ms)
    limits->period_tokens_ms = provider->tokens_period_ms;
  if (figures_.empty()) return limits;
  choose(*limits, false);
  choose(*limits, true);
  if (provider != nullptr && provider->requests_period_ms > 0 && !limits->period_requests_ms &&
      (limits->limit_requests || limits->remaining_requests))
    limits->period_requests_ms = provider->requests_period_ms;
  return limits;
}

}  // namespace lanemq::worker
