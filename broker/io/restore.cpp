// SPDX-License-Identifier: Apache-2.0
#include "broker/io/restore.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>

#include "broker/core/stored.hpp"

namespace lanemq::io {
namespace {

constexpr std::string_view kClock = "clock";

/// Hands on what the store says, in its order.
class Reader final : public StoreReader {
 public:
  Reader(core::Broker& broker, core::TimePoint time, const ClockReading& clock)
      : broker_(broker), time_(time), clock_(clock) {}

  Result<void> note(std::string_view name, std::string_view record) override {
    if (name != kClock) return broker_.restore_note(name, record);
    core::StoredDecoder decoder;
    auto entries = decoder.entries(record);
    if (!entries || entries->empty()) return failure(ErrorCode::internal, "note \"clock\" cannot be read");
    core::StoredNumbers& numbers = entries->front().numbers;
    ClockReading then;
    then.unix_us = numbers.next();
    then.uptime_us = numbers.next();
    then.boot = numbers.next();
    broker_.restore_clock(core::Duration(clock_shift_us(then, clock_)));
    return {};
  }
  Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                   std::optional<std::string_view> body, std::size_t body_bytes) override {
    return broker_.restore_job(number, state, record, body, body_bytes, time_);
  }
  Result<void> result(std::uint64_t number, std::string_view record, Blob body) override {
    return broker_.restore_result(number, record, body, time_);
  }

 private:
  core::Broker& broker_;
  core::TimePoint time_;
  const ClockReading& clock_;
};

std::int64_t uptime_us() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

}  // namespace

ClockReading read_clock() {
  ClockReading reading;
  reading.unix_us = std::chrono::duration_cast<std::chrono::microseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  reading.uptime_us = uptime_us();
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  for (const char c : boot)  // FNV-1a, the same in each run
    reading.boot = static_cast<std::int64_t>(
        (static_cast<std::uint64_t>(reading.boot) ^ static_cast<unsigned char>(c)) * 1099511628211u);
  return reading;
}

std::int64_t clock_shift_us(const ClockReading& then, const ClockReading& now) {
  if (then.boot == now.boot && now.uptime_us >= then.uptime_us)
    return now.unix_us - (then.unix_us + now.uptime_us - then.uptime_us);
  return std::min<std::int64_t>(now.unix_us - then.unix_us, 0);
}

Result<core::Broker::Restored> restore(core::Broker& broker, Store& store, core::TimePoint time) {
  const ClockReading clock = read_clock();
  Reader reader(broker, time, clock);
  if (const auto loaded = store.load(reader); !loaded) return tl::unexpected<Error>(loaded.error());
  const core::Broker::Restored restored = broker.restored(time);
  core::StoredNumbers numbers;
  for (const std::int64_t number : {clock.unix_us, clock.uptime_us, clock.boot})
    numbers.put(number);
  core::Writes& writes = broker.outbox().writes;
  writes.add(core::Write::Kind::put_note, 0);
  writes.buffer().write(kClock.data(), kClock.size());
  writes.end_of_state();
  core::write({{.name = "start", .numbers = numbers}}, writes.buffer());
  writes.end_of_record();
  return restored;
}

}  // namespace lanemq::io
