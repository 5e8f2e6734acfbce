// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"
#include "broker/whatif/window_peak.hpp"

namespace lanemq::figures {

using core::Amounts;
using core::Duration;
using core::TimePoint;

/// What a test submits.
struct Work {
  std::string lane, client, model;
  Amounts stated;               ///< tokens that its client says it will take
  std::optional<Amounts> used;  ///< that it really takes; absent: as stated
  bool states = true;           ///< else the client says nothing of what it takes
  std::string service = "llm";
};

/// How the upstream answers a call.
struct Answer {
  Duration takes = std::chrono::milliseconds(100);
  std::optional<Duration> retry_after;              ///< set: it refused for its rate, and says until when
  bool refused = false;                             ///< it refused for its rate, and does not say until when
  std::optional<wire::UpstreamLimits> limits = {};  ///< what it says of its limits
  std::optional<LimitedBy> limited_by = {};         ///< which limit refused, where it says so
};

/// The real core in virtual time: turns as in the broker's loop, workers that ask the test what the upstream
/// says, and a note of when each job was handed over first.
class Stage {
 public:
  using Upstream = std::function<Answer(const Work& work, TimePoint now)>;

  explicit Stage(core::Options options, Upstream upstream = {});

  /// Up to 1024 places; of these lanes alone if any are named.
  void add_worker(std::int64_t places, std::vector<std::string_view> lanes = {},
                  std::vector<std::string_view> services = {"llm"});
  /// Submits at the present time. The number of the job: they count from 0.
  std::size_t submit(Work fields, std::string_view body = {});
  /// Has something done later. Requires: not in the past.
  void at(TimePoint when, std::function<void()> what) { plans_.emplace(when, std::move(what)); }
  /// Runs turn by turn until nothing is left to happen by then.
  void run_until(TimePoint end);
  /// When something happens next; kNever: nothing does.
  TimePoint next();
  /// Does what happens next. Requires: next() is no kNever.
  void step() { turn(std::max(next(), now_)); }

  TimePoint now() const { return now_; }
  const Work& work(std::size_t job) const { return jobs_[job].work; }
  /// How long the job waited; absent while it does.
  std::optional<Duration> wait(std::size_t job) const;
  std::size_t jobs() const { return jobs_.size(); }
  /// What the broker says of the job at the present time.
  struct Status {
    std::optional<Duration> eta;
    std::string blocked_by;
  };
  Status status(std::size_t job);
  /// Called for each hand-over.
  std::function<void(std::size_t job)> on_hand_over;

 private:
  struct Job {
    Work work;
    TimePoint submitted;
    std::optional<TimePoint> started;
  };
  void turn(TimePoint now);
  void begin(const wire::JobOffer& offer, std::string_view worker);

  core::Broker broker_;
  Upstream upstream_;
  TimePoint now_{std::chrono::seconds(100)};
  std::deque<Job> jobs_;
  std::multimap<TimePoint, std::function<void()>> plans_;
  int workers_ = 0;
  Decoder decoder_;
  wire::WorkerCommand command_;
  wire::ClientReply reply_;
  Status status_;  // of the last status reply
};

/// An upstream that counts every window of a minute, knows nothing of buckets, and refuses what is over.
class StrictUpstream {
 public:
  /// Absent: not limited.
  struct Limits {
    std::optional<std::int64_t> requests, tokens;
  };
  explicit StrictUpstream(Limits limits) : limits_(limits) {}

  /// How long to wait, if it refuses; else the call counts.
  std::optional<Duration> call(std::int64_t tokens, TimePoint now);
  /// Counts the call and refuses nothing.
  void count(std::int64_t tokens, TimePoint now);

  std::int64_t calls() const { return requests_peak_.total(); }
  std::int64_t tokens() const { return tokens_peak_.total(); }
  /// The most in any minute.
  std::int64_t calls_peak() const { return requests_peak_.peak(); }
  std::int64_t tokens_peak() const { return tokens_peak_.peak(); }

 private:
  static constexpr Duration kMinute = std::chrono::minutes(1);
  struct Call {
    TimePoint at;
    std::int64_t tokens;
  };
  Limits limits_;
  std::deque<Call> calls_;
  std::int64_t tokens_in_window_ = 0;
  whatif::WindowPeak requests_peak_{kMinute}, tokens_peak_{kMinute};
};

/// What was sent in each minute.
class Minutes {
 public:
  void count(const Amounts& amounts, TimePoint at);
  /// The mean of what was used of the limit that bound most, of the whole minutes after the first and before
  /// `end`.
  double binding(const std::vector<core::RateOptions>& limits, TimePoint end) const;

 private:
  std::map<std::int64_t, Amounts> sent_;
  std::int64_t first_ = -1;
};

/// One limit of a budget of a minute.
core::RateOptions per_minute(core::Resource resource, std::int64_t limit, std::int64_t capacity = 0);
/// Prints a figure that was reached, so that the documentation can be compared with it.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
/// The value that a share of `q` does not exceed. Requires: not empty.
Duration quantile(std::vector<Duration> values, double q);
double ms(Duration duration);

}  // namespace lanemq::figures
