// SPDX-License-Identifier: Apache-2.0
#include "broker/io/loop/clock_keeper.hpp"

#include <cstdlib>
#include <utility>

#include "common/log/log.hpp"

namespace lanemq::io {

ClockKeeper::ClockKeeper(const StartClocks& start, Read read)
    : read_(read ? std::move(read) : [boot = start.machine.boot] { return read_times(boot); }),
      noted_(start.noted),
      seen_(start.machine),
      behind_(start.behind_us > 0) {
  if (behind_)
    log::event(
        log::Level::warning, "clock.behind",
        {{"by_ms", core::to_ms(core::Duration(start.behind_us))},
         {"do",
          "this machine's clock stands before that of the broker's last life: set it right. Until then "
          "no time is taken for passed while the machine is off"}});
}

void ClockKeeper::look(core::TimePoint now, core::Writes& writes) {
  if (now < look_at_) return;
  look_at_ = now + kLookEvery;
  if (noted_at_ == core::TimePoint()) noted_at_ = now;  // the start's
  const ClockReading reading = read_();
  const core::Duration set(reading.unix_us - seen_.unix_us - (reading.uptime_us - seen_.uptime_us));
  const bool was_set = std::chrono::abs(set) > kSetBy;
  if (was_set) {
    behind_ = false;  // a clock that was set is right
    log::event(log::Level::info, "clock.set", {{"by_ms", core::to_ms(set)}});
  }
  const core::Duration age = now - noted_at_;
  if (!was_set && age < (writes.empty() ? kNoteEvery : kNoteBeside)) return;
  noted_at_ = now;
  note(reading, writes);
}

/// While the wall clock is behind the note, the note goes on by itself: with that clock the next life would
/// count the lag as time passed.
void ClockKeeper::note(const ClockReading& reading, core::Writes& writes) {
  const std::int64_t passed = reading.uptime_us - noted_.at.uptime_us;
  const std::int64_t expected = noted_.at.unix_us + passed;
  behind_ = behind_ && reading.unix_us < expected;
  seen_ = reading;
  noted_ = {.stored_us = noted_.stored_us + passed, .at = reading};
  if (behind_) noted_.at.unix_us = expected;
  write_clock_note(noted_, writes);
}

}  // namespace lanemq::io
