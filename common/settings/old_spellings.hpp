// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "common/log/log.hpp"
#include "common/settings/asked.hpp"

namespace lanemq::settings {

/// Warns of old spellings, with the present ones. Requires: the log is set up.
inline void warn_of(const std::vector<OldSpelling>& spellings) {
  for (const OldSpelling& old : spellings)
    log::event(log::Level::warning, "config.old_spelling", {{"place", old.place}, {"write", old.write}});
}

}  // namespace lanemq::settings
