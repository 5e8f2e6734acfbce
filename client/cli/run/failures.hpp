// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lanemq/client.hpp>

namespace lanemq::cli {

/// The lines of a run that failed, by code. Not thread-safe.
class Failures {
 public:
  /// Codes come from workers, too: those beyond are counted together.
  static constexpr std::size_t kCodesMax = 16;
  /// After so many lines that failed alike, and none that succeeded, all others are taken to fail as well.
  static constexpr std::size_t kAlikeMax = 10;

  /// The line of that number failed. `sent`: its job was.
  void note(std::uint64_t line, const ClientError& error, bool sent);
  /// A line was answered well.
  void note_success() { differ_ = true; }

  /// Whether each line that was sent has failed with the same words, kAlikeMax of them, and for what concerns
  /// all lines.
  bool looks_hopeless() const { return !differ_ && alike_ >= kAlikeMax; }
  /// Whether one of the lines may succeed when it is sent again as it is.
  bool may_succeed_later() const { return later_; }

  /// A sentence for each code, the most frequent first: how many lines, and what was said of the first.
  std::vector<std::string> sentences() const;
  /// {CODE: COUNT, ...}
  std::string json() const;

 private:
  struct Kind {
    std::size_t count = 0;
    std::uint64_t line = 0;  ///< the first
    std::string message;     ///< of it
  };
  std::map<std::string, Kind> kinds_;
  std::string alike_words_;
  std::size_t alike_ = 0;
  bool differ_ = false;  ///< not all lines that were sent ended alike
  bool later_ = false;
};

}  // namespace lanemq::cli
