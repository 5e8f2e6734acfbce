// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "tests/support/upstream/counter.hpp"
#include "tests/support/upstream/draws.hpp"
#include "tests/support/upstream/peak.hpp"

namespace lanemq::upstream {

/// The longest job id and model name that the log tells; longer ones are cut.
inline constexpr std::size_t kLoggedTextMax = 128;

/// What the log tells of one call for work.
struct CallRecord {
  Duration at{};  ///< Arrival (the request is there completely), since the start of the double.
  std::string path{};
  unsigned status = 0;  ///< 0: nothing was answered. 499: the client hung up first.
  std::string end{};    ///< "answered", "hung_up", or "cut" when the double was stopped.
  bool stream = false;
  std::string model{};
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;  ///< Of a stream: deltas that were sent.
  /// What the limits were charged at arrival; nothing if the call was refused. A call counts against the
  /// limits exactly if it is charged.
  std::optional<std::uint64_t> charged{};
  Duration latency{};      ///< From arrival to the end of the answer, or until the client hung up.
  Duration ended_unix{};   ///< That end, since 1970.
  std::uint64_t sent = 0;  ///< Bytes of the body that went out.
  std::string fault{};     ///< name_of(Fault); "cut" when the double was stopped; else empty.
  std::vector<std::string>
      leaks{};  ///< What a gateway should have kept to itself: header fields, parameters, models.
  std::string service_tier{};   ///< As it was asked for, or empty.
  std::string job{};            ///< The request's `x-lanemq-job`, else its `x-client-request-id`, or empty.
  std::string key{};            ///< The name of the key it carried, or empty.
  std::uint64_t body_hash = 0;  ///< fnv1a() of the request's body.
};

/// The record as one line of JSON, without the newline:
///
///     {"t_ms":1203.417,"path":"/v1/chat/completions","status":200,"end":"answered","model":"gpt-4o","prompt_tokens":61,
///      "completion_tokens":118,"latency_ms":87.220,"ended_unix_ms":1763773701290.637,"sent":812,"charged":573,
///      "job":"a-17","body":"9f86d081884c7d65"}
///
/// `stream`, `charged`, `fault`, `leaks`, `service_tier`, `job` and `key` are left out where there is none.
/// Times are cut, not rounded, to microseconds, so that two calls 60 s apart are still 60 s apart in the log.
std::string to_line(const CallRecord& record);

/// Writes records to a file, one line each, in the order in which the calls ended.
///
/// Buffered: the owner calls flush() every kFlushInterval and at the end. A full disk throws
/// std::runtime_error, for a log with holes would prove nothing.
class CallLog {
 public:
  /// Begins an empty file. Throws std::runtime_error if it cannot be written.
  explicit CallLog(const std::string& path);

  void append(const CallRecord& record);
  void flush();

  static constexpr Duration kFlushInterval = std::chrono::milliseconds(100);
  /// A buffer that grows beyond this is flushed at once.
  static constexpr std::size_t kBufferBytesMax = 1 << 20;

 private:
  std::string path_;
  std::ofstream file_;
  std::string buffer_;
};

/// In which spans the calls under such a limit are counted. A bucket has no windows: in any.
PeakMeter::Spans spans_of(WindowKind window);

/// What a log proves.
struct Audit {
  std::uint64_t calls = 0;
  std::uint64_t accepted = 0;
  std::uint64_t ok = 0;
  std::uint64_t rejected_429 = 0;  ///< By the limits, or because the key was spent.
  std::uint64_t violations = 0;    ///< Calls with something that a gateway should have kept to itself.
  std::uint64_t peak_calls = 0;    ///< Of a period, of the key that had most, as each has limits of its own.
  std::uint64_t peak_tokens = 0;   ///< The same.
  bool torn = false;               ///< The last line had no end and was left out.
};

/// Reads a whole log, of a double whose wall clock started at a whole millisecond. A line that is no record
/// is an error that names its number. Peaks are those of `window`; a bucket's are those of any span of the
/// period, in which it may take its limit and what it holds.
tl::expected<Audit, std::string> audit(std::istream& log, WindowKind window = WindowKind::sliding,
                                       Duration period = kPeriodDefault);

}  // namespace lanemq::upstream
