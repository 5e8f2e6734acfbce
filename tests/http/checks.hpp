// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace lanemq::http::test {

/// However bytes are cut, the reader makes the same of them. Throws std::logic_error where it does not.
/// Returns how often they were read.
std::size_t check_cuts(std::string_view bytes);

}  // namespace lanemq::http::test
