// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lanemq::settings {

/// A message for people without what looks like a secret: whoever gives one in the wrong place finds it in no
/// log. Of a long word that mixes letters and digits (sk-..., 20 bytes or more, no part of a path) and of 40
/// characters as lanemq keygen makes them the first four remain, then `...`; of what stands before the @ of a
/// URL's host nothing does. A password that looks like a word is not recognized.
std::string without_secrets(std::string_view message);

}  // namespace lanemq::settings
