// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/client.hpp>

#include "client/cli/base/commands.hpp"
#include "client/cli/run/failures.hpp"
#include "client/cli/run/input_file.hpp"
#include "client/cli/run/output_file.hpp"
#include "client/cli/run/progress.hpp"
#include "client/cli/run/retry.hpp"

namespace lanemq::cli {

struct RunOptions {
  JobOptions job;
  std::string file, out;  ///< empty `out`: beside the file
  std::optional<LineFormat> format;
  OutputOrder order = OutputOrder::completion;
  std::size_t window = 64;
  int retries = 0;
  bool quiet = false;
  bool json = false;        ///< print the summary as JSON
  bool keep = false;        ///< an interrupt does not cancel the jobs
  bool keep_going = false;  ///< whatever fails
};

/// Bodies of all jobs in flight; a larger one goes alone.
inline constexpr std::size_t kInFlightBytesMax = std::size_t{128} * 1024 * 1024;

/// An answer, passed from the client's thread to this one.
struct Landed {
  Flight flight{};
  LineName name;
  std::size_t body_bytes = 0;
  Answer answer;
};

/// Passes answers from one thread to another, all at once. Holds at most the window.
class LandingStrip {
 public:
  void put(Landed landed) {
    {
      const std::lock_guard lock(mutex_);
      landed_.push_back(std::move(landed));
    }
    something_.notify_one();
  }
  /// Waits for answers up to `wait`; replaces the content of `out`.
  void take(std::vector<Landed>& out, std::chrono::milliseconds wait) {
    out.clear();
    std::unique_lock lock(mutex_);
    something_.wait_for(lock, wait, [this] { return !landed_.empty(); });
    out.swap(landed_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable something_;
  std::vector<Landed> landed_;
};

/// One run: keeps the window full, writes answers, sends refused lines again.
class Runner {
 public:
  /// All outlive it, and `strip` the client.
  Runner(const RunOptions& options, const InputFile& input, OutputFile& output, const Progressed& progressed,
         Client& client, const Common& common, LandingStrip& strip);

  /// States the size of the jobs' group, from what the broker knows of the lines that are to be sent: it
  /// counts no job twice, so those that it knows are not among the jobs that this run adds. Throws RunError
  /// where a group cannot be said to have both.
  /// `goes_on`: with what a run before has left; else the broker knows none of the lines.
  void size_group(bool goes_on);

  /// Names a group of this run's own and sizes it, so that the broker tells how far the run is. Of a long
  /// file each line without an answer is counted, also one that is no job, or whose job an earlier run has
  /// left.
  void name_group(bool goes_on);

  /// Runs until each line is settled, a signal comes, or no line is expected to succeed.
  void run();

  /// Cancels the jobs at the broker. The broker keeps that a job was cancelled, so the next run must send its
  /// line as a further attempt: this is stored first.
  void cancel();

  /// Ends a run whose answers nobody reads.
  void forsake();

  /// Why the run stopped before its end, as a sentence; empty: it did not, or by a signal.
  const std::string& stopped() const { return stopped_; }
  const Failures& failures() const { return failures_; }
  std::size_t in_flight() const { return at_broker_.size(); }
  const RunCounts& counts() const { return counts_; }
  std::string summary() const { return progress_.summary(counts_, std::chrono::steady_clock::now()); }

 private:
  using Clock = std::chrono::steady_clock;

  bool fill();
  bool has_room() const;
  Flight flight_of(std::size_t place) const;
  void send(const Flight& flight);
  void take_last();
  void settle(Landed landed);
  void put_down(const InputFile::Entry& entry, const LineName& name, std::string_view job_id,
                const Answer& answer, bool sent);
  void stop(std::string why);
  void wait_and_retry(Flight flight, const ClientError& error, AfterError what);
  void write();
  void show();
  std::chrono::milliseconds wait() const;
  std::string job_id(const Flight& flight) const;
  std::string model_of(const InputLine& line) const {
    return options_.job.model.empty() ? line.model : options_.job.model;
  }

  const RunOptions& options_;
  std::string group_;
  bool group_is_own_ = false;  ///< nobody asked for it
  std::optional<std::int64_t> group_size_;
  const InputFile& input_;
  OutputFile& output_;
  const Progressed& progressed_;
  Client& client_;
  const Common& common_;
  LandingStrip& strip_;

  std::size_t next_ = 0;  ///< index of the first line that was not looked at
  struct AtBroker {
    std::string id;
    std::uint32_t attempt;
  };
  std::map<std::uint32_t, AtBroker> at_broker_;  ///< by the line's place
  std::size_t in_flight_bytes_ = 0;
  bool cancelled_ = false, forsaken_ = false;
  std::string stopped_;
  Failures failures_;
  std::multimap<Clock::time_point, Flight> waiting_;  ///< refused lines, which stay in the window
  std::string storage_, lines_;
  RunCounts counts_;
  Progress progress_;
  Clock::time_point bar_at_{}, words_at_, served_at_, refusal_said_{};
  std::size_t problems_said_ = 0;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace lanemq::cli
