// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/messages.hpp>

#include "worker/handlers/limits/limit_headers.hpp"
#include "worker/handlers/limits/limit_words.hpp"

namespace lanemq::worker {

/// What an upstream's response headers say: of its limits and when to retry (limit_headers.hpp), and of the
/// body that follows.
class UpstreamHeaders {
 public:
  /// Takes one header line, `Name: value`, with or without its line end. A status line forgets all before:
  /// headers of an interim response (100) do not count.
  void add_line(std::string_view line, WallTime now);
  void clear() { *this = UpstreamHeaders(); }
  /// Whose headers they are; null: not known.
  void came_from(const Provider* provider) { provider_ = provider; }

  /// The wait that the upstream asks for.
  std::optional<std::chrono::milliseconds> retry_after() const { return limits_.retry_after(); }
  bool has_limits() const { return limits_.has_limits(); }
  /// None: no header stated a limit.
  std::optional<wire::UpstreamLimits> limits() const { return limits_.limits(provider_); }
  std::optional<std::chrono::milliseconds> plan_is_back() const { return limits_.plan_is_back(); }
  /// Without parameters, in lower case: `application/json`.
  const std::string& content_type() const { return content_type_; }
  bool is_json() const;
  std::optional<std::size_t> content_length() const { return content_length_; }
  /// Whether a cut body can be told from a whole one: it has a length, or chunks, or HTTP/2 carries it.
  bool is_framed() const { return framed_ || content_length_; }
  /// When the last line was read.
  WallTime read_at() const { return read_at_; }

 private:
  void add(std::string_view name, std::string_view value, WallTime now);

  LimitHeaders limits_;
  const Provider* provider_ = nullptr;
  std::string content_type_;
  std::optional<std::size_t> content_length_;
  bool framed_ = false;
  WallTime read_at_{};
};

}  // namespace lanemq::worker
