// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
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
/// The key of a plain line.
RunKey key_of_line(std::uint64_t number);

/// What a run asks for all lines alike.
struct RunTarget {
  std::string_view service{}, model{};  ///< `model`: of --model; empty: that of each body
};
/// A hash of all that an answer depends on. It stands in the output with each answer, so that one to another
/// request of the same name is no answer to this line.
std::uint64_t request_hash(const RunTarget& target, std::string_view path, std::string_view body);

std::string to_text(const RunKey& key);
/// The key that to_text() wrote; 0 for another text.
RunKey key_from_text(std::string_view text);

/// All that identifies a job of a run.
struct RunJob {
  std::string_view salt;  ///< of the run, so that no other run has the same jobs
  std::string_view lane;
  RunKey key;
  std::uint64_t request = 0;  ///< request_hash()
  std::uint32_t attempt = 1;
};

/// The job's id, `run-JOB-REQUEST-ATTEMPT`: the same in each process, so that a run that was killed joins the
/// jobs that the broker still has when it is started again. Another attempt has another id.
std::string run_job_id(const RunJob& job);
/// The request_hash() in such an id; empty: it is none.
std::optional<std::uint64_t> request_in(std::string_view job_id);

/// What the id of a line begins with that is no job; its number follows.
inline constexpr std::string_view kLineIdStart = "line-";

/// A new salt from the system's entropy.
std::string new_salt();

}  // namespace lanemq::cli
