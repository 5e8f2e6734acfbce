// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lanemq::http::test {

/// However bytes are cut, the reader makes the same of them. Throws std::logic_error where it does not.
void check_cuts(std::string_view bytes);

}  // namespace lanemq::http::test
