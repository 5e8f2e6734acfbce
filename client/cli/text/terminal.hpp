// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace lanemq::cli {

/// Output for people: sentences and one live line on the standard error, nothing on the standard output.
/// Thread-safe; a process has one terminal.

/// Prints `lanemq: ...` above the live line.
void say(std::string_view sentence);

/// While it lives sentences wait, and its end prints them: on a screen of its own they would go with that.
class HeldWords {
 public:
  HeldWords();
  ~HeldWords();
  HeldWords(const HeldWords&) = delete;
  HeldWords& operator=(const HeldWords&) = delete;
};

/// Replaces the live line, if the standard error is a terminal; an empty `line` removes it.
void show_live(std::string_view line);

bool error_is_terminal();
bool output_is_terminal();
/// Whether the standard output takes colours: a terminal, and NO_COLOR is not set.
bool output_takes_colour();
/// The columns of the terminal at the standard output, and at the standard error; 80 where there is none.
std::size_t output_columns();
std::size_t error_columns();

/// Writes data to the standard output; false: that failed, and the reason was printed, or it was interrupted.
/// A pipe without a reader counts as an interrupt.
bool put(std::string_view data);
/// put() of what an upstream, a client or a worker said: at a terminal as harmless() has it, else byte for
/// byte.
bool put_foreign(std::string_view data);
/// put_foreign() of a text that comes in pieces, which may be cut within a character.
class ForeignPieces {
 public:
  bool put(std::string_view piece);
  /// No more comes.
  bool end();

 private:
  std::string held_;  // the beginning of a character
};
/// put() of JSON: what would move a terminal stands escaped in its strings, wherever it is read.
bool put_json(std::string_view json);
/// Calls ::write(). A write that blocks fails with EINTR when an interrupt comes. From one thread.
ssize_t write_breaking_off(int fd, std::string_view data);

/// An upstream's text made safe for a terminal: without control characters but line ends and tabs, without
/// those that turn the direction of reading, and without bytes that are no UTF-8, of which a terminal of 8
/// bits takes some for controls.
std::string harmless(std::string_view data);

/// From now on SIGINT, SIGTERM and SIGHUP (but not under nohup) only set interrupted(); a second one, but for
/// SIGHUP, ends the process. A waiting caller checks that from time to time, or watches signal_descriptor().
/// To be called once at most, before threads start that take signals; a Client's threads take none.
void catch_interrupts();
/// From now on interrupted() also says when the standard output has no reader any more. Requires:
/// catch_interrupts().
void watch_output();
/// The signal that came, SIGPIPE where the standard output has no reader; 0: none.
int interrupted();
/// Readable from one of these signals, or a change of the window's size, until hush_signals(). A signal
/// before the wait counts, too, so that a wait right after interrupted() misses none. Requires:
/// catch_interrupts().
int signal_descriptor();
void hush_signals();

/// 1234567 as 1,234,567.
std::string grouped(std::uint64_t number);

}  // namespace lanemq::cli
