// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <absl/container/node_hash_map.h>

#include <lanemq/messages.hpp>

#include "broker/core/base/amounts.hpp"
#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/string_hash.hpp"

namespace lanemq::core {

/// A job's expected cost before it runs.
struct Estimate {
  Amounts amounts;
  std::optional<std::int64_t> output_bound{};  ///< the request's own
  std::uint32_t raw_input = 0;  ///< before correction; 0: stated by the client, nothing is learned from it
  bool rough = false;           ///< too few calls of the model have ended yet, or the body was not read
};

/// Tokens of a body that nobody reads, about.
inline std::uint32_t tokens_of_bytes(std::size_t bytes) {
  constexpr std::size_t kBytesPerToken = 4;
  return static_cast<std::uint32_t>(std::min<std::size_t>(bytes / kBytesPerToken + 1, 1'000'000'000));
}

/// A client's statement of cost for that body, where it is certain: the broker cannot read a body that is not
/// JSON, so there the statement counts.
std::optional<wire::Cost> word_of(std::optional<wire::Cost> stated, std::string_view body);
/// Raises the estimate to the client's statement, which may be wrong, where the statement is higher.
void raise_to(const std::optional<wire::Cost>& stated, Amounts& amounts);

/// Guesses what jobs cost in tokens, and learns from what their upstreams say: for each model, and for each
/// client of it, how far the guess of the input is off (the larger of a moving ratio, and of the ratio of
/// moving sums), and how long answers are (a decaying histogram, of which the 90th percentile is taken).
class Estimates {
 public:
  /// Bound of models, and clients of models, that are kept. Beyond it the client goes about which nothing was
  /// learned for longest; a model goes only if no client is kept.
  static constexpr std::size_t kSeriesMax = 4096;
  /// One in kNewcomersTried of the new clients without room gets room.
  static constexpr unsigned kNewcomersTried = 8;

  /// `media_tokens`: for each image, sound or file in a body. `output_default`: for a model without samples.
  Estimates(std::int64_t media_tokens, std::int64_t output_default)
      : media_tokens_(media_tokens), output_default_(output_default) {}

  /// Takes the numbers of which the client is certain as they are; others are for raise_to(). `stated`: as
  /// word_of() has it.
  Estimate estimate(std::string_view model, std::string_view client, std::string_view body,
                    const std::optional<wire::Cost>& stated) const;
  /// For a body that cannot be read now and counts as `tokens`: nothing is learnt from it.
  Estimate estimate(std::string_view model, std::string_view client, std::int64_t tokens,
                    const std::optional<wire::Cost>& stated) const;
  /// Learns what an attempt with such an estimate really used. A call that used no tokens at all was not
  /// answered by a model: it says nothing about answers.
  void learn(std::string_view model, std::string_view client, std::uint32_t raw_input,
             const wire::Usage& usage);
  std::size_t size() const { return series_.size(); }

 private:
  /// Output lengths by size class, four to each doubling.
  static constexpr std::size_t kClasses = 96;

  struct Series {
    bool of_client = false;
    ListHook<Series> hook;  ///< in models_ or clients_
    const std::string* name = nullptr;

    double ratio = 1;
    double actual = 0, raw = 0;  ///< moving means
    std::uint32_t samples = 0;
    std::uint32_t outputs = 0;  ///< the sum of the classes
    std::array<std::uint16_t, kClasses> classes{};

    void learn_input(double used, double guessed);
    double correction() const;
    void learn_output(std::int64_t tokens);
    std::int64_t output_p90() const;
  };

  const std::string& key(std::string_view model, std::string_view client) const;
  const Series* find(std::string_view model, std::string_view client) const;
  Series* series(std::string_view model, std::string_view client);
  using List = IntrusiveList<Series, &Series::hook>;
  List& list_of(const Series& series) { return series.of_client ? clients_ : models_; }
  bool make_way(bool for_client);
  struct Guess {
    std::int64_t input_tokens = 0;
    std::optional<std::int64_t> max_output;
    bool learned_from = true;
  };
  Estimate estimate(std::string_view model, std::string_view client, const Guess& guess) const;
  static void put_known(const std::optional<wire::Cost>& stated, Estimate& estimate);

  std::int64_t media_tokens_, output_default_;
  absl::node_hash_map<std::string, Series, StringHash, StringEqual> series_;
  unsigned newcomers_ = 0;   // clients for whom there was no room
  List models_, clients_;    // the least recently learned first
  mutable std::string key_;  // the key of the last look-up; kept for its memory
};

}  // namespace lanemq::core
