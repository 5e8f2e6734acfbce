// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lanemq::cli {

/// What names a line of the input: a hash of 128 bits, so that a million of them fit in memory whatever the
/// names are. Zero names nothing.
struct RunKey {
  std::uint64_t high = 0, low = 0;
  bool names_something() const { return high != 0 || low != 0; }
  friend bool operator==(const RunKey&, const RunKey&) = default;
  friend bool operator<(const RunKey& a, const RunKey& b) {
    return a.high != b.high ? a.high < b.high : a.low < b.low;
  }
};

/// The key of a line in batch format.
RunKey key_of_custom_id(std::string_view custom_id);
/// The key of a plain line: where it stands and what it says, so that an answer to another text is none to
/// it.
RunKey key_of_line(std::uint64_t number, std::string_view input_hash);
/// What a plain line says, as 16 digits.
std::string input_hash(std::string_view body);

std::string to_text(const RunKey& key);
/// The key that to_text() wrote; names nothing when the text is none.
RunKey key_from_text(std::string_view text);

/// All that makes a job of a run what it is.
struct RunJob {
  std::string_view salt;  ///< of the run: another run's jobs are other jobs
  std::string_view service, lane, model;
  RunKey key;
  std::string_view body;
  std::string_view path{};  ///< InputLine::path
  std::uint32_t attempt = 1;
};

/// The job's id. The same job has the same id in every process, so that a run that was killed and is started
/// again joins the jobs that the broker still has; a further attempt has another.
std::string run_job_id(const RunJob& job);

/// A salt from the system's entropy.
std::string new_salt();

}  // namespace lanemq::cli
