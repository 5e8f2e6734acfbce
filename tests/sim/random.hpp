// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

#include "broker/core/base/time.hpp"

namespace lanemq::sim {

/// All chance of a run, from one seed. The standard distributions differ between libraries; these do not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t next() { return engine_(); }
  /// 0 .. n-1. Requires: n > 0.
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most - least) + 1));
  }
  core::Duration between(core::Duration least, core::Duration most) {
    return core::Duration(between(least.count(), most.count()));
  }
  /// True so many times in a thousand.
  bool per_mille(std::uint64_t times) { return below(1000) < times; }
  bool percent(std::uint64_t times) { return below(100) < times; }
  template <class List>
  const auto& pick(const List& from) {
    return from[below(from.size())];
  }
  template <class T>
  T one_of(std::initializer_list<T> from) {
    return *(from.begin() + below(from.size()));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace lanemq::sim
