// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/messages.hpp>

#include "worker/handlers/limits/limit_words.hpp"

namespace lanemq::worker {

struct Provider;

/// What an upstream says with headers of its limits and of when to come again, in all the dialects of the
/// table in limit_headers.cpp. A value that cannot be read counts as absent.
///
/// An upstream may say several figures of one kind: requests in a minute and in a day, or several policies.
/// limits() has one of them: one that is used up, of these the one of the longest period; else the one of the
/// shortest, which bounds the pace.
class LimitHeaders {
 public:
  /// More figures of one answer than these are ignored.
  static constexpr std::size_t kFiguresMax = 16;

  /// Takes a header. Requires: the name is in lower case.
  void add(std::string_view name, std::string_view value, WallTime now);

  /// The wait that the upstream asks for: the first of `retry-after-ms`, `x-ms-retry-after-ms`,
  /// `retry-after`.
  std::optional<std::chrono::milliseconds> retry_after() const;
  bool has_limits() const { return has_limits_; }
  /// None: no header stated a limit. `provider`: whose headers they are; null: not known.
  std::optional<wire::UpstreamLimits> limits(const Provider* provider) const;
  /// Of a person's plan that is used up: when it is back; 0: it did not say.
  std::optional<std::chrono::milliseconds> plan_is_back() const;

 private:
  friend struct LimitDialects;

  enum class Kind : unsigned char { requests, tokens, input_tokens, output_tokens };
  using Number = std::optional<std::int64_t>;
  struct Slot;
  struct Figure {
    Kind kind = Kind::requests;
    std::string label;  ///< of a policy, or of the period in the header's name
    Number period_ms{}, limit{}, remaining{}, reset_ms{};
    bool counts = true;  ///< false: of another unit
  };
  struct Best;

  static const Slot& slot(Kind kind);
  /// The figure with this label, made where there is room; null: there is none.
  Figure* figure(Kind kind, std::string_view label);
  void set(Number& place, Number value);
  static Number unsaid_period(Number limit, Number remaining, Number reset);
  Number period_of_requests(const Provider* provider) const;
  void choose(wire::UpstreamLimits& limits, bool of_tokens) const;

  std::optional<std::chrono::milliseconds> retry_after_ms_, ms_retry_after_ms_, retry_after_;
  wire::UpstreamLimits limits_;  ///< of the figures that stand alone: nearly always all that there is
  std::vector<Figure> figures_;  ///< the others
  bool has_limits_ = false;
  bool plan_refuses_ = false;
  Number plan_reset_ms_{};
};

}  // namespace lanemq::worker
