// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <absl/hash/hash.h>
#include <absl/strings/string_view.h>

namespace lanemq::core {

/// For tables whose keys come from strangers: seeded per process, so that nobody can aim at one bucket; and
/// transparent, so that a look-up builds no string.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    // Debian's absl has a string_view of its own; for std's it would fall back to std::hash, which has no
    // seed.
    return absl::Hash<absl::string_view>{}(absl::string_view(text.data(), text.size()));
  }
};
struct StringEqual {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const { return a == b; }
};

}  // namespace lanemq::core
