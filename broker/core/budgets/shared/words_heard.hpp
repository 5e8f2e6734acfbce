// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/shared/slice.hpp"

namespace lanemq::core {

/// Upstream words that a shard has heard about a shared budget, and not told the bank yet, in order: at most
/// kWordsMax words.
///
/// Most calls are answered, with the same word each. So only usual words that tell the bank something are
/// kept: since the last unusual one, one stands for all answers of a model by a key, and for each key two
/// answered clients are named. Usual words are evicted first where there is no room; an operator's never are.
class WordsHeard {
 public:
  struct Heard {
    UpstreamWord word;
    TimePoint called_at{}, heard_at{};

    bool is_usual() const;
    bool is_operators() const;
  };

  /// `called_at`: when the call was handed over to which this is the answer.
  void hear(UpstreamWord word, TimePoint called_at, TimePoint now);
  /// From when they are to be told, usual ones from `usual` on; kNever: there are none.
  TimePoint due(TimePoint usual, TimePoint now) const;
  /// Whether a key was refused, so that the bank may not give it any more.
  bool spend(std::uint16_t key) const;
  std::vector<Heard> take() { return std::exchange(words_, {}); }

 private:
  std::vector<Heard>::iterator usual_words();
  void drop_needless(const Heard& heard);
  bool joins(const Heard& heard);
  bool make_room_for(const Heard& heard);

  std::vector<Heard> words_;
};

}  // namespace lanemq::core
