// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::worker {

/// Secrets that must not come back in what an upstream, or a program, says. Immutable; may be shared between
/// threads. Must not be logged.
class Redaction {
 public:
  /// Shorter secrets are not searched for: ordinary text may contain them.
  static constexpr std::size_t kBytesMin = 8;

  explicit Redaction(std::vector<std::string> secrets = {});

  /// Whether a text contains a secret unescaped; fast enough for each answer.
  bool betrayed_by(std::string_view text) const;
  /// The text with `[secret]` for each secret, also for a JSON-escaped one.
  std::string redacted(std::string text) const;

 private:
  std::vector<std::string> secrets_;  ///< the longest first: one may contain another
};

}  // namespace lanemq::worker
