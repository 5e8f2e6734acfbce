// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/worker.hpp>

namespace lanemq::worker {

/// Finds what a program says of its progress among the lines of its stderr: `lanemq-progress 40 reads its
/// input`, a percentage or `-` and perhaps a note. Stderr, since it comes through whatever starts a program
/// for another one: a shell, sudo, ssh, a container.
class ProgressLines {
 public:
  static constexpr std::string_view kBegin = "lanemq-progress ";
  /// Longer lines are no progress.
  static constexpr std::size_t kLineBytesMax = 1024;

  /// The words in the next bytes of stderr, in order.
  std::vector<JobProgress> read(std::string_view bytes);

 private:
  std::string line_;       // as far as it came; at most kLineBytesMax
  bool too_long_ = false;  // what comes up to the next line counts no more
};

/// A percentage as a program may say it; none: it is no number.
std::optional<int> whole_percent(double pct);

/// The text without such lines; the first line may be cut.
std::string without_progress(std::string_view text);

}  // namespace lanemq::worker
