// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace lanemq::cli {

/// What people see: sentences and one live line on the standard error, nothing of it on the standard output.
/// Thread-safe; there is one terminal per process.

/// A sentence, as `lanemq: ...`; the live line makes room for it.
void say(std::string_view sentence);

/// Shows `line` in the place of the live line, if the standard error is a terminal; empty takes it away.
void show_live(std::string_view line);

bool error_is_terminal();
bool output_is_terminal();
/// Whether the standard output takes colours: a terminal, and NO_COLOR is not set.
bool output_takes_colour();
/// The columns of the standard error's terminal; 80 where that cannot be told.
std::size_t error_columns();

/// Writes data to the standard output; false: it cannot be written to, and the reason was said.
bool put(std::string_view data);

/// What an upstream said, for a terminal: nothing of it moves the cursor or changes a title. Line ends and
/// tabs stay.
std::string harmless(std::string_view data);

/// From now on SIGINT and SIGTERM only set what interrupted() returns; a second one ends the process. Whoever
/// waits looks at that now and then, or watches signal_descriptor(). Called at most once, before there are
/// threads that signals may come to; those of a Client are none.
void catch_interrupts();
/// The signal that came, or 0.
int interrupted();
/// Readable from one of them, or a change of the window's size, until hush_signals(), also if it came before
/// anybody waited: a wait that is begun just behind a look at interrupted() misses none. Requires:
/// catch_interrupts().
int signal_descriptor();
void hush_signals();

/// 950ms, 12.3s, 4m05s, 2h07m.
std::string short_duration(std::chrono::milliseconds duration);
/// 1234567 as 1,234,567.
std::string grouped(std::uint64_t number);

}  // namespace lanemq::cli
