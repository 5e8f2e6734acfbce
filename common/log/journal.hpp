// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/log/level.hpp"

namespace lanemq::log {

/// Whether a descriptor leads to systemd's journal, by the text of $JOURNAL_STREAM: its device and inode, as
/// in `8:1234` (systemd.exec(5)). `stream`: null where the variable is not set.
bool is_journal(const char* stream, int descriptor);

/// What a line of the journal begins with: its priority, as in `<4>` (sd-daemon(3)). A line without one is
/// `info` to the journal.
const char* priority_of(Level level);

}  // namespace lanemq::log
