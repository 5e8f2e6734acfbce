// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lanemq::core {

struct Job;
struct KeptResult;

/// The number of a job between broker and workers; never used for another job. 0 is no job.
enum class JobNumber : std::uint64_t {};

/// The record found by a job's id and number: the Job until it ends, then its KeptResult. There are no other
/// kinds.
struct Record {
  JobNumber number : 56 {};
  const bool is_result : 1;

  /// The job; null: only its result is kept.
  Job* job();
  const Job* job() const;
  /// The result of an ended job; null: it has not ended.
  KeptResult* result();
  const KeptResult* result() const;
  std::string_view id() const;

 protected:
  explicit Record(bool of_result) : is_result(of_result) {}
  ~Record() = default;
};

}  // namespace lanemq::core
