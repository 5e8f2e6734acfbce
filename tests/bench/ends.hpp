// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/bench/job_body.hpp"

/// The two ends of a broker, written by hand for both peers, so that an end of one costs what an end of the
/// other costs. Every function throws Failure where the peer refuses, is silent or says something malformed.
namespace lanemq::bench {

/// Which broker is measured.
enum class Peer { raw, lanemq };

/// Where a job goes at lanemq; the bare broker tells urgent jobs by JobKind::probe, if it is asked to.
enum class Lane { critical, high, batch };

enum class Wait { until_reply, no };

/// Whether a client may write ahead of the broker without end, or is held back by libzmq's high-water mark.
enum class SendAhead { unbounded, high_water_mark };

class ClientEnd {
 public:
  ClientEnd() = default;
  ClientEnd(const ClientEnd&) = delete;
  ClientEnd& operator=(const ClientEnd&) = delete;
  virtual ~ClientEnd() = default;

  /// Sends one job, or keeps it for the message that is being filled; push() sends that. Blocks only with
  /// SendAhead::high_water_mark.
  virtual void submit(const JobBody& body, Lane lane) = 0;
  /// Sends what is kept.
  virtual void push() {}
  /// Takes one reply; false where there is none and `wait` says not to wait. Waiting ends after
  /// kReplyTimeout.
  virtual bool receive(JobBody& reply, Wait wait) = 0;
  /// Returns when the broker has taken in all that was submitted before. Requires: no reply is due meanwhile.
  virtual void flush() = 0;
};

/// Jobs in one message at most.
inline constexpr std::size_t kBatchMax = 64;

inline constexpr int kReplyTimeoutMs = 10'000;

/// What a worker does with a job, in the place where the job stands.
class Performer {
 public:
  /// Counts the work jobs that are done in `work_done`.
  explicit Performer(std::atomic<std::uint64_t>& work_done) : work_done_(work_done) {}

  /// `body` are the kBodyBytes bytes of a job, at any alignment.
  void perform(void* body) const {
    if (kind_of(body) != JobKind::echo) perform_timed(body);
  }

 private:
  void perform_timed(void* body) const;

  std::atomic<std::uint64_t>& work_done_;
};

struct WorkerPlace {
  int index = 0;          ///< from 0, different for each worker of a broker
  int capacity = 1;       ///< jobs it holds at once
  std::size_t batch = 1;  ///< jobs that go in one message, either way
  bool reserved = false;  ///< takes critical jobs only; the bare broker is told so by its own options
};

class WorkerEnd {
 public:
  WorkerEnd() = default;
  WorkerEnd(const WorkerEnd&) = delete;
  WorkerEnd& operator=(const WorkerEnd&) = delete;
  virtual ~WorkerEnd() = default;

  /// Says that it is ready and waits until the broker has taken note.
  virtual void announce() = 0;
  /// Performs jobs for ever.
  [[noreturn]] virtual void run(const Performer& performer) = 0;
};

/// `batch`: jobs that go in one message, either way.
std::unique_ptr<ClientEnd> make_bare_client(const std::string& endpoint, SendAhead ahead, std::size_t batch);
std::unique_ptr<WorkerEnd> make_bare_worker(const std::string& endpoint, const WorkerPlace& place);
std::unique_ptr<ClientEnd> make_lmq1_client(const std::string& endpoint, SendAhead ahead, std::size_t batch);
std::unique_ptr<WorkerEnd> make_lmq1_worker(const std::string& endpoint, const WorkerPlace& place);

}  // namespace lanemq::bench
