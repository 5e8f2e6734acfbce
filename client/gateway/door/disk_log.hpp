// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace lanemq::gateway {

/// Logs what the disk refuses, with paths, at most a line every 10 seconds. Callers get a message that says
/// nothing about this machine. Thread-safe.
class DiskLog {
 public:
  static constexpr std::chrono::seconds kBetween{10};

  void note(std::string_view what);

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_{};
  std::uint64_t untold_ = 0;
};

}  // namespace lanemq::gateway
