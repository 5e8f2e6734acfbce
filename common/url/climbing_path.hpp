// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lanemq {

/// Whether a segment of a URL's path is `.` or `..` for anybody on its way: behind `/`, `\`, or either of
/// them percent-encoded; itself percent-encoded, also more than once; and in front of the `;` of parameters
/// (RFC 3986, 3.3), which servlets cut off. What stands behind a `?` is no path.
bool path_climbs(std::string_view path);

}  // namespace lanemq
