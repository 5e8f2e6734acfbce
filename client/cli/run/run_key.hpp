// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lanemq::cli {

/// A hash of 128 bits for a line of the input, so that a million of them fit in memory, however long names
/// are. 0: no name.
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
/// The key of a plain line, from its number and its text, so that it does not match an answer to another
/// text.
RunKey key_of_line(std::uint64_t number, std::string_view input_hash);
/// A hash of a plain line's text: 16 digits.
std::string input_hash(std::string_view body);

std::string to_text(const RunKey& key);
/// The key that to_text() wrote; 0 for another text.
RunKey key_from_text(std::string_view text);

/// All that identifies a job of a run.
struct RunJob {
  std::string_view salt;  ///< of the run, so that no other run has the same jobs
  std::string_view service, lane, model;
  RunKey key;
  std::string_view body;
  std::string_view path{};  ///< InputLine::path
  std::uint32_t attempt = 1;
};

/// The job's id: the same in each process, so that a run that was killed joins the jobs that the broker still
/// has when it is started again. Another attempt has another id.
std::string run_job_id(const RunJob& job);

/// A new salt from the system's entropy.
std::string new_salt();

}  // namespace lanemq::cli
