// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/restore.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <xxhash.h>

#include "broker/core/jobs/stored.hpp"
#include "broker/io/store/move_note.hpp"
#include "broker/io/store/shard_note.hpp"

namespace lanemq::io {
namespace {

/// Rows between two calls of RestoreCalls::progress.
constexpr std::size_t kRowsPerCall = 1024;
/// The clocks of the machine and of the store are read within this time, if one of the tries is as fast.
constexpr std::int64_t kClocksApartMaxUs = 100'000;
constexpr int kClockTries = 10;
/// A wall clock that is so much before the last note is wrong, or that one was.
constexpr std::int64_t kBehindMinUs = 1'000'000;
/// The first day of 2026: a machine's clock before it was never set. Machines without a battery begin in
/// 1970.
constexpr std::int64_t kNoClockBeforeUs = 1'767'225'600'000'000;

/// The time since the note; none: the machine was started since.
std::optional<std::int64_t> uptime_since(const ClockNote& note, const ClockReading& now) {
  const bool known = now.boot != 0 && note.at.boot == now.boot && now.uptime_us >= note.at.uptime_us;
  return known ? std::optional(now.uptime_us - note.at.uptime_us) : std::nullopt;
}

/// The least that the wall clock can be now, where the note is right.
std::int64_t expected_unix_us(const ClockNote& note, const ClockReading& now) {
  return note.at.unix_us + uptime_since(note, now).value_or(0);
}

/// Passes the store's rows on to the core, in order.
class Reader final : public StoreReader {
 public:
  /// `clock`: the store's, `machine`: this machine's, both read now.
  Reader(core::Restorer& restorer, const std::string& shard, const RestoreCalls& calls,
         const ClockReading& clock, const ClockReading& machine)
      : restorer_(restorer),
        shard_(shard),
        calls_(calls),
        time_(calls.now()),
        clock_(clock),
        machine_(machine),
        stored_us_(machine.unix_us) {}

  /// The store's clock at the time `clock` was read.
  std::int64_t stored_now() const { return stored_us_; }
  /// The least that the wall clock of `clock` can be, by the note; 0: there is none.
  std::int64_t expected_unix() const { return expected_unix_us_; }
  bool was_of_shard() const { return was_of_shard_; }

  Result<void> note(std::string_view name, std::string_view record) override {
    if (name == kShardNote) return check_shard(record);
    if (auto why = why_not_served(name, record)) return failure(ErrorCode::conflict, std::move(*why));
    if (name != kClockNote) return restorer_.note(name, record, time_);
    const auto note = clock_note(record);
    if (!note) return tl::unexpected(note.error());
    stored_us_ = stored_us(*note, clock_);
    expected_unix_us_ = expected_unix_us(*note, clock_);
    restorer_.clock(core::Duration(machine_.unix_us - stored_us_));
    return {};
  }
  Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                   std::optional<std::string_view> body, std::size_t body_bytes) override {
    count_row();
    return restorer_.job(number, state, record, body, body_bytes, time_);
  }
  Result<void> result(std::uint64_t number, std::string_view record, std::optional<std::string_view> body,
                      std::size_t body_bytes) override {
    count_row();
    return restorer_.result(number, record, body, body_bytes, time_);
  }

 private:
  Result<void> check_shard(std::string_view record) {
    was_of_shard_ = true;
    return check_shard_note(record, shard_);
  }

  void count_row() {
    if (++rows_ % kRowsPerCall == 0) calls_.progress(rows_);
  }

  core::Restorer& restorer_;
  const std::string& shard_;
  const RestoreCalls& calls_;
  core::TimePoint time_;
  const ClockReading& clock_;
  const ClockReading& machine_;
  std::int64_t stored_us_;
  std::int64_t expected_unix_us_ = 0;
  std::size_t rows_ = 0;
  bool was_of_shard_ = false;
};

struct Clocks {
  ClockReading machine;
  std::optional<std::int64_t> store_us;
};

/// The time between the two readings shifts the windows of budgets. A store that has to be connected to first
/// answers late, and perhaps not at once.
Clocks read_clocks(Store& store, const std::function<ClockReading()>& clock) {
  Clocks clocks;
  for (int i = 0; i < kClockTries; ++i) {
    clocks = {.machine = clock(), .store_us = store.unix_us()};
    if (!store.shared()) break;
    const std::int64_t apart_us = clock().uptime_us - clocks.machine.uptime_us;
    if (clocks.store_us && apart_us <= kClocksApartMaxUs) break;
  }
  return clocks;
}

/// Another machine's uptime means nothing to its successor.
Result<ClockReading> clock_that_counts(const Store& store, const Clocks& clocks) {
  if (clocks.store_us) return ClockReading{.unix_us = *clocks.store_us};
  if (!store.shared()) return clocks.machine;
  return failure(ErrorCode::internal, "the store's clock cannot be read, by which windows of budgets go on");
}

std::int64_t uptime_us() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

}  // namespace

ClockReading read_times(std::int64_t boot) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return {.unix_us = std::chrono::duration_cast<std::chrono::microseconds>(wall).count(),
          .uptime_us = uptime_us(),
          .boot = boot};
}

ClockReading read_clock() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  // A service may be kept from most of /proc (ProcSubset=pid); two starts would look like one then.
  return read_times(boot.empty() ? 0 : static_cast<std::int64_t>(XXH3_64bits(boot.data(), boot.size())));
}

std::int64_t stored_us(const ClockNote& note, const ClockReading& now) {
  if (const auto uptime = uptime_since(note, now)) return note.stored_us + *uptime;
  // A store's own clock comes without uptime, and is right.
  const bool was_wrong = note.at.uptime_us > 0 && note.at.unix_us < kNoClockBeforeUs;
  return note.stored_us + (was_wrong ? 0 : std::max<std::int64_t>(now.unix_us - note.at.unix_us, 0));
}

void write_clock_note(const ClockNote& note, core::Writes& writes) {
  core::StoredNumbers numbers;
  for (const std::int64_t number : {note.stored_us, note.at.unix_us, note.at.uptime_us, note.at.boot})
    numbers.put(number);
  core::write_note(kClockNote, {{.name = "start", .numbers = numbers}}, writes);
}

Result<ClockNote> clock_note(std::string_view record) {
  core::StoredDecoder decoder;
  auto entries = decoder.entries(record);
  if (!entries || entries->empty()) return failure(ErrorCode::internal, "note \"clock\" cannot be read");
  core::StoredNumbers& numbers = entries->front().numbers;
  ClockNote note;
  note.stored_us = numbers.next();
  note.at.unix_us = numbers.next();
  note.at.uptime_us = numbers.next();
  note.at.boot = numbers.next();
  return note;
}

Result<ClockReading> clock_of(Store& store) {
  return clock_that_counts(store, read_clocks(store, read_clock));
}

Result<Restored> restore(core::Broker& broker, Store& store, const RestoreCalls& calls) {
  const Clocks clocks = read_clocks(store, calls.clock);
  const auto clock = clock_that_counts(store, clocks);
  if (!clock) return tl::unexpected(clock.error());
  core::Restorer restorer = broker.restorer();
  const std::string& shard = broker.options().shard;
  Reader reader(restorer, shard, calls, *clock, clocks.machine);
  if (const auto loaded = store.load(reader); !loaded) return tl::unexpected<Error>(loaded.error());
  const auto restored = restorer.finish(calls.now());
  if (!restored) return tl::unexpected<Error>(restored.error());
  Restored found{*restored,
                 {.noted = {.stored_us = reader.stored_now(), .at = *clock}, .machine = clocks.machine}};
  // A little is what time servers correct while nobody looks.
  if (const std::int64_t behind = reader.expected_unix() - clock->unix_us;
      !clocks.store_us && behind > kBehindMinUs) {
    found.clocks.behind_us = behind;
    found.clocks.noted.at.unix_us = reader.expected_unix();
  }
  core::Writes& writes = broker.outbox().writes;
  write_clock_note(found.clocks.noted, writes);
  if (!shard.empty())
    core::write_note(kShardNote, {{.name = shard, .numbers = core::StoredNumbers()}}, writes);
  else if (reader.was_of_shard())
    core::erase_note(kShardNote, writes);
  // The first number of this life must be on disk before any number is used: another life would use it again,
  // and a worker could report an outcome of this life to that one.
  store.submit(writes);
  store.flush();
  return found;
}

}  // namespace lanemq::io
