// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/pattern_sample.hpp"

#include <algorithm>
#include <bitset>
#include <charconv>

namespace lanemq::upstream {
namespace {

/// No text that a pattern asks for is made longer, nothing is repeated so much oftener than it must be, and
/// no group nests deeper.
constexpr std::size_t kTextMax = 10'000;
constexpr std::size_t kMoreMax = 1'000;
constexpr int kGroupDepthMax = 32;

using Characters = std::bitset<128>;

struct NotSimple {};

Characters range(char first, char last) {
  Characters set;
  for (int c = first; c <= last; ++c)
    set.set(static_cast<std::size_t>(c));
  return set;
}

Characters printable() {
  return range(' ', '~');
}

Characters digits() {
  return range('0', '9');
}

Characters word() {
  return digits() | range('a', 'z') | range('A', 'Z') | range('_', '_');
}

/// Reads a pattern and writes its text in one go. Throws NotSimple.
class PatternSampler {
 public:
  PatternSampler(std::string_view pattern, std::size_t more, std::size_t variant)
      : pattern_(pattern), more_(more), variant_(variant) {}

  std::string sample() {
    std::string text = alternatives(0);
    if (at_ != pattern_.size()) throw NotSimple{};
    return text;
  }

 private:
  bool done() const { return at_ == pattern_.size(); }
  char peek() const { return done() ? '\0' : pattern_[at_]; }
  char next() {
    if (done() || static_cast<unsigned char>(pattern_[at_]) > 127) throw NotSimple{};
    return pattern_[at_++];
  }
  bool take(std::string_view words) {
    if (!pattern_.substr(at_).starts_with(words)) return false;
    at_ += words.size();
    return true;
  }

  std::string alternatives(int depth) {
    if (depth > kGroupDepthMax) throw NotSimple{};
    std::string first = sequence(depth);
    while (take("|"))
      sequence(depth);  // Read, not written.
    return first;
  }

  std::string sequence(int depth) {
    std::string text;
    while (!done() && peek() != '|' && peek() != ')') {
      if (take("^") || take("$")) continue;
      const std::string once = atom(depth);
      for (std::size_t left = repeats(); left > 0; --left) {
        text += once;
        if (text.size() > kTextMax) throw NotSimple{};
      }
    }
    return text;
  }

  std::string atom(int depth) {
    if (take("(")) {
      if (take("?") && !take(":")) throw NotSimple{};
      std::string group = alternatives(depth + 1);
      if (!take(")")) throw NotSimple{};
      return group;
    }
    if (take("[")) return one_of(character_class());
    if (take(".")) return one_of(printable());
    if (take("\\")) return one_of(escaped());
    return {next()};
  }

  // How often the atom before stands here: as seldom as it may, and `more_` times beyond if it may.
  std::size_t repeats() {
    std::size_t least = 1;
    std::size_t most = 1;
    if (take("*")) {
      least = 0, most = kTextMax;
    } else if (take("+")) {
      most = kTextMax;
    } else if (take("?")) {
      least = 0;
    } else if (take("{")) {
      least = most = number();
      if (take(",")) most = peek() == '}' ? kTextMax : number();
      if (!take("}")) throw NotSimple{};
    }
    take("?");  // Lazy or not is the same.
    return least + std::min(more_, most - std::min(least, most));
  }

  std::size_t number() {
    std::size_t value = 0;
    const char* const begin = pattern_.data() + at_;
    const auto [end, error] = std::from_chars(begin, pattern_.data() + pattern_.size(), value);
    if (error != std::errc() || value > kTextMax) throw NotSimple{};
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  Characters character_class() {
    const bool others = take("^");
    Characters set;
    while (!take("]")) {
      const Characters first = take("\\") ? escaped() : single(next());
      if (first.count() == 1 && peek() == '-' && pattern_.substr(at_, 2) != "-]") {
        next();
        const Characters last = take("\\") ? escaped() : single(next());
        if (last.count() != 1) throw NotSimple{};
        set |= range(only(first), only(last));
      } else {
        set |= first;
      }
    }
    return others ? printable() & ~set : set;
  }

  Characters escaped() {
    const char c = next();
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return printable() & ~digits();
      case 'w':
        return word();
      case 'W':
        return printable() & ~word();
      case 's':
        return single(' ');
      case 'S':
        return printable() & ~single(' ');
      case 'n':
        return single('\n');
      case 't':
        return single('\t');
      default:
        // \b, \1, \x41, \u0041, \p{L} and their kin.
        if (word().test(static_cast<std::size_t>(c))) throw NotSimple{};
        return single(c);
    }
  }

  static Characters single(char c) { return range(c, c); }
  static char only(const Characters& set) {
    char c = 0;
    while (!set.test(static_cast<std::size_t>(c)))
      ++c;
    return c;
  }

  // Letters first, as they are the plainest.
  std::string one_of(const Characters& set) const {
    std::string candidates;
    for (const Characters& kind : {range('a', 'z'), range('A', 'Z'), digits(), ~word()})
      for (std::size_t c = 0; c < set.size(); ++c)
        if (set.test(c) && kind.test(c)) candidates += static_cast<char>(c);
    if (set.test('_')) candidates += '_';
    if (candidates.empty()) throw NotSimple{};
    return {candidates[variant_ % candidates.size()]};
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::size_t more_;
  std::size_t variant_;
};

}  // namespace

std::optional<std::string> sample_of_pattern(std::string_view pattern, const PatternWish& wish) {
  try {
    for (std::size_t more = 0; more <= std::min(wish.length_min + 1, kMoreMax); ++more) {
      const std::string text = PatternSampler(pattern, more, wish.variant).sample();
      // What may be empty is tried once more: a text is the plainer sample.
      if (text.size() >= wish.length_min && (!text.empty() || more > 0)) return text;
    }
  } catch (const NotSimple&) {
  }
  return std::nullopt;
}

}  // namespace lanemq::upstream
