// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/failures.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/text.hpp>

#include "client/cli/run/retry.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/json/members.hpp"

namespace lanemq::cli {

void Failures::note(std::uint64_t line, const ClientError& error, bool sent) {
  const bool known = kinds_.contains(error.code) || kinds_.size() < kCodesMax;
  Kind& kind = kinds_[known ? error.code : "other"];
  if (kind.count++ == 0) kind = {.count = 1, .line = line, .message = error.message};
  later_ = later_ || cli::may_succeed_later(error);
  if (!sent || differ_) return;
  std::string words = error.code + ": " + error.message;
  if (!concerns_all_lines(error) || (alike_ > 0 && words != alike_words_)) {
    differ_ = true;
    return;
  }
  ++alike_;
  alike_words_ = std::move(words);
}

std::vector<std::string> Failures::sentences() const {
  std::vector<const std::pair<const std::string, Kind>*> sorted;
  for (const auto& kind : kinds_)
    sorted.push_back(&kind);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->second.count > b->second.count; });
  std::vector<std::string> sentences;
  for (const auto* const kind : sorted) {
    const auto& [code, failures] = *kind;
    sentences.push_back(grouped(failures.count) + " failed with " + printable(code) + ", " +
                        (failures.count > 1 ? "the first of them " : "") + "line " +
                        std::to_string(failures.line) + ": " + printable(failures.message));
  }
  return sentences;
}

std::string Failures::json() const {
  std::string text = "{";
  for (const auto& [code, failures] : kinds_)
    text += (text.size() > 1 ? "," : "") + json_text(code) + ":" + std::to_string(failures.count);
  return text + "}";
}

}  // namespace lanemq::cli
