// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace lanemq::log {

/// Writes lines to a descriptor for people, so that nobody who logs waits for who reads, or for a disk: a
/// thread writes them. Lines for which there is no room are left out, and counted.
///
/// Before start() and after stop() there is no thread, and a line is written at once, or left out where the
/// descriptor takes nothing for kPatience: so a process may still fork, and what it says at its end stands
/// behind its log. The descriptor is used as it is, since whether it waits is also its other owners' matter
/// (O_NONBLOCK belongs to the open file, not to the descriptor). Thread-safe.
class LineWriter {
 public:
  /// Bytes of lines that wait. A longer line is left out.
  static constexpr std::size_t kWaitingBytesMax = std::size_t{1} << 20;
  /// So long settle() waits, or a line without a thread.
  static constexpr std::chrono::milliseconds kPatience{100};
  /// settle() does not wait for so long after it has waited in vain: a slow reader costs a 50th of the time.
  static constexpr std::chrono::milliseconds kImpatientFor{5'000};
  /// So long stop() waits for the last lines.
  static constexpr std::chrono::milliseconds kLastLinesMax{1'000};

  /// `tell_left_out` is called by the thread when lines were left out and there is room again, with how many;
  /// it may write.
  explicit LineWriter(int descriptor, std::function<void(std::uint64_t lines)> tell_left_out = {});
  ~LineWriter() { stop(); }
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// Takes a line with its end. Waits only where there is no thread.
  void write(std::string_view line);
  /// Waits until what was taken is written, for kPatience at most; returns whether it is. So a line is there
  /// before what the program does next, as long as somebody reads. Without a thread nothing waits.
  bool settle();

  /// From here on a thread writes. To be called once.
  void start();
  /// Writes what waits, for kLastLinesMax at most, and ends the thread. One that still waits for its reader
  /// ends with the process.
  void stop();

 private:
  struct State;

  const std::shared_ptr<State> state_;  ///< also the thread's, which may outlive this
};

}  // namespace lanemq::log
