// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// Which jobs the last refusals for a rate were of. Where they are of the same few again and again, and calls
/// of others are answered between them, they are about these jobs, and not about the pace.
class RefusedJobs {
 public:
  /// So few: under a limit that is too high refusals soon meet others.
  static constexpr std::size_t kJobsMax = 3;
  /// So many others must have been answered before a job that is refused again is held to be the reason.
  static constexpr std::int64_t kOthersAnswered = 3;

  /// A call that was handed over at that time was answered.
  void answered(TimePoint taken_at) {
    if (taken_at > at_) ++answered_;
  }
  struct Verdict {
    bool again = false;      ///< it is one of the few
    bool alone = false;      ///< it is about this job
    bool found_out = false;  ///< that shows now
  };
  /// The job was refused.
  Verdict refused(std::uint64_t job, TimePoint now) {
    at_ = now;
    for (last_ = 0; last_ < count_ && jobs_[last_].job != job; ++last_) {
    }
    if (last_ < count_) {
      One& one = jobs_[last_];
      ++one.times;
      const bool found_out = !one.alone && answered_ - one.before >= kOthersAnswered;
      one.alone = one.alone || found_out;
      return {.again = true, .alone = one.alone, .found_out = found_out};
    }
    if (count_ == kJobsMax) count_ = last_ = 0;
    jobs_[count_++] = {.job = job, .before = answered_};
    return {};
  }
  /// How many jobs the few are, if the last refusal was of one of them again; else 0.
  std::size_t again_of() const { return last_ < count_ && jobs_[last_].times > 1 ? count_ : 0; }
  /// Calls that were answered since the job was refused first that was refused last.
  std::int64_t answered() const { return last_ < count_ ? answered_ - jobs_[last_].before : 0; }

 private:
  struct One {
    std::uint64_t job = 0;
    std::int64_t before = 0;  // calls answered before it was refused first
    std::int32_t times = 1;
    bool alone = false;
  };
  std::array<One, kJobsMax> jobs_;
  std::size_t count_ = 0, last_ = 0;
  std::int64_t answered_ = 0;
  TimePoint at_{};  // the last refusal
};

}  // namespace lanemq::core
