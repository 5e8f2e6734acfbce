// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::fuzz {

/// A header from a client that costs its reader as much as its bytes can.
struct HeavyShape {
  std::string_view name;
  std::string frame;
};

/// What an enemy would try: wide maps, deep ones, keys that come twice, text that is none, and batches whose
/// maps inherit much. Each of `bytes` bytes at most, mostly just that. In a fixed order.
std::vector<HeavyShape> heavy_shapes(std::size_t bytes);

}  // namespace lanemq::fuzz
