// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/trace/collector.hpp"
#include "common/trace/span.hpp"

namespace lanemq::trace {

/// Where spans go, and whose they are.
struct ExporterOptions {
  Collector collector;
  std::string service;  ///< service.name
  std::string version;  ///< service.version
};

/// Sends spans to a collector of OTLP over HTTP, in JSON, in batches, on a thread of its own. Nobody waits
/// for it: spans that find no room, and batches that the collector does not take, are lost and counted, and
/// the log says so once a minute (`traces.lost`). Nothing is sent twice. Thread-safe.
class Exporter {
 public:
  static constexpr std::size_t kWaitingMax = 4096;  ///< spans that wait
  static constexpr std::size_t kBatchMax = 512;
  static constexpr std::chrono::milliseconds kBatchEvery{500};
  static constexpr std::chrono::milliseconds kConnectTimeout{1'000}, kTimeout{3'000};
  /// For what waits when the program ends.
  static constexpr std::chrono::milliseconds kFarewell{1'000};
  static constexpr std::size_t kAnswerBytesMax = std::size_t{64} * 1024;

  /// Throws std::invalid_argument where require_collector() does.
  explicit Exporter(ExporterOptions options);
  /// Sends what waits, for kFarewell at most.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  /// Takes a span to be sent. Costs a moment of a mutex.
  void add(Span span);

  std::uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }
  std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  class Post;

  void run();
  void send(Post& post, const std::vector<Span>& batch);
  void lose(std::size_t count, const std::string& why);

  const ExporterOptions options_;
  std::mutex mutex_;
  std::condition_variable stirred_;
  std::vector<Span> waiting_;                        // under mutex_
  bool stopping_ = false;                            // under mutex_
  std::chrono::steady_clock::time_point said_at_{};  // the thread's own
  std::atomic<std::uint64_t> sent_{0}, lost_{0}, unsaid_{0};
  std::atomic<bool> leaving_{false};
  std::chrono::steady_clock::time_point leave_by_{};  // set before leaving_
  std::thread thread_;                                // last: it uses the other members
};

}  // namespace lanemq::trace
