// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/words_heard.hpp"

#include <algorithm>

namespace lanemq::core {

/// Whether it says what most calls do, so that it is in no hurry, and may be left out.
bool WordsHeard::Heard::is_usual() const {
  return word.kind == UpstreamWord::Kind::answered ||
         (word.kind == UpstreamWord::Kind::key_taken && !word.tries_key);
}

/// Whether nobody says it again.
bool WordsHeard::Heard::is_operators() const {
  return word.kind == UpstreamWord::Kind::keys_configured || word.kind == UpstreamWord::Kind::forgotten;
}

void WordsHeard::hear(UpstreamWord word, TimePoint called_at, TimePoint now) {
  Heard heard{.word = std::move(word), .called_at = called_at, .heard_at = now};
  drop_needless(heard);
  if (!joins(heard) && make_room_for(heard)) words_.push_back(std::move(heard));
}

TimePoint WordsHeard::due(TimePoint usual, TimePoint now) const {
  TimePoint due = kNever;
  for (const Heard& heard : words_)
    due = std::min(due, heard.is_usual() ? usual : now);
  return due;
}

bool WordsHeard::spend(std::uint16_t key) const {
  return key != Claim::kNoKey && std::any_of(words_.begin(), words_.end(), [&](const Heard& heard) {
           return heard.word.kind == UpstreamWord::Kind::key_refused && heard.word.may_spend &&
                  heard.word.key == key;
         });
}

/// The start of the trailing run of usual words.
std::vector<WordsHeard::Heard>::iterator WordsHeard::usual_words() {
  const auto is_other = [](const Heard& one) { return !one.is_usual(); };
  return std::find_if(words_.rbegin(), words_.rend(), is_other).base();
}

/// Drops what the word makes needless: what an operator has said before; by whom a key was taken the bank
/// wants to know of two clients.
void WordsHeard::drop_needless(const Heard& heard) {
  if (heard.is_operators())
    std::erase_if(words_, [&](const Heard& one) { return one.word.kind == heard.word.kind; });
  if (!heard.is_usual() || heard.word.kind != UpstreamWord::Kind::key_taken) return;
  const auto of_key = [&](const Heard& one) {
    return one.word.kind == UpstreamWord::Kind::key_taken && one.word.key == heard.word.key;
  };
  const auto of_client = [&](const Heard& one) {
    return of_key(one) && one.word.client_mark == heard.word.client_mark;
  };
  words_.erase(std::remove_if(usual_words(), words_.end(), of_client), words_.end());
  if (std::count_if(usual_words(), words_.end(), of_key) > 1)
    words_.erase(std::find_if(usual_words(), words_.end(), of_key));
}

/// Whether an answer is told with an earlier one of the same model. Of the two the later call counts: it says
/// more of pauses, and of what remains.
bool WordsHeard::joins(const Heard& heard) {
  if (heard.word.kind != UpstreamWord::Kind::answered) return false;
  const auto known = std::find_if(usual_words(), words_.end(), [&](const Heard& one) {
    return one.word.kind == UpstreamWord::Kind::answered && one.word.key == heard.word.key &&
           one.word.model_mark == heard.word.model_mark &&
           one.word.limits.has_value() == heard.word.limits.has_value();
  });
  if (known == words_.end()) return false;
  const std::int64_t calls = known->word.calls + heard.word.calls;
  if (heard.called_at >= known->called_at) *known = heard;
  known->word.calls = calls;
  return true;
}

/// False: there is none.
bool WordsHeard::make_room_for(const Heard& heard) {
  if (words_.size() < kWordsMax) return true;
  // Usual words go first: the next call repeats them.
  auto least = std::find_if(words_.begin(), words_.end(), [](const Heard& one) { return one.is_usual(); });
  if (least == words_.end()) {
    if (!heard.is_operators()) return false;
    least = std::find_if(words_.begin(), words_.end(), [](const Heard& one) { return !one.is_operators(); });
  }
  words_.erase(least);
  return true;
}

}  // namespace lanemq::core
