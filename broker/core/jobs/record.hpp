// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lanemq::core {

struct Job;
struct KeptResult;

/// The number by which the broker and its workers speak of a job, so that it never means another job later.
/// 0 is no job.
enum class JobNumber : std::uint64_t {};

/// What is known of a job under its id and its number: the Job itself until it ends, then its KeptResult.
/// There are no others.
struct Record {
  JobNumber number : 56 {};
  const bool is_result : 1;

  /// The job, null when there is only its result.
  Job* job();
  const Job* job() const;
  /// What is kept of a job that has ended, null while it has not.
  KeptResult* result();
  const KeptResult* result() const;
  std::string_view id() const;

 protected:
  explicit Record(bool of_result) : is_result(of_result) {}
  ~Record() = default;
};

}  // namespace lanemq::core
