// SPDX-License-Identifier: Apache-2.0
// What any bytes are put through as a URL, as a path, and as a text for a terminal. What is demanded is said
// by rules of its own, not by those of what is checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lanemq::fuzz {

/// Reads the bytes as a URL, and aborts where what is put together from its parts is another one, or where a
/// message shows what stands before the @ of a URL in it.
void check_url(std::string_view bytes);
/// Aborts where a path that climbs for somebody on its way is let through.
void check_path(std::string_view bytes);
/// Aborts where a text for a terminal has a byte that acts, or is changed when it is made harmless again.
void check_terminal(std::string_view bytes);

std::vector<std::string> url_seeds();
std::vector<std::string> path_seeds();
std::vector<std::string> terminal_seeds();

}  // namespace lanemq::fuzz
