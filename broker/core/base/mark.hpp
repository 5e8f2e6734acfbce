// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <xxhash.h>

namespace lanemq::core {

/// A hash that tells names apart where the names are not kept. Two names with one mark are taken for the same
/// name; nothing worse follows. kNoMark is the mark of no name.
inline constexpr std::uint64_t kNoMark = 0;
inline std::uint64_t mark_of(std::string_view name) {
  return name.empty() ? kNoMark : XXH3_64bits(name.data(), name.size());
}

/// The client and tenant that made a call, and its model, by marks. Or the party for which alone an upstream
/// fails: one client; all of a tenant, where no client is named; nobody in particular, where neither is.
struct Caller {
  std::uint64_t client = kNoMark, model = kNoMark;
  std::uint64_t tenant = kNoMark;  ///< the client's; kNoMark: it has none, and is its own

  std::uint64_t party() const { return tenant != kNoMark ? tenant : client; }
  /// The client's mark, or else the tenant's.
  std::uint64_t narrowest() const { return client != kNoMark ? client : tenant; }
};

}  // namespace lanemq::core
