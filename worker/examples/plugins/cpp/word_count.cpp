// SPDX-License-Identifier: Apache-2.0
//
// A handler in C++ with threads of its own, for work that computes: counts the words of a job's body. A
// stream gets a line for each word as it is counted, no faster than its reader takes them. A cancelled job
// ends soon.
//
//   c++ -std=c++20 -shared -fPIC -Iworker/include -Icommon/plugin/include
//     -o word_count.so worker/examples/plugins/cpp/word_count.cpp
//   lanemq-worker --service words=plugin:./word_count.so --capacity 32
//
// Of its table in the worker's file it reads `threads`:
//
//   [[service]]
//   name = "words"
//   handler = "plugin:/usr/lib/word_count.so"
//   [service.plugin]
//   threads = 4
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <lanemq/handler_plugin.h>

namespace {

constexpr int kThreadsMax = 64;

class WordCount {
 public:
  WordCount(const lanemq_host* host, int threads) : host_(host) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] { work(); });
  }
  ~WordCount() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_)
      thread.join();
  }

  void start(const lanemq_job& job, lanemq_completion done) {
    const std::lock_guard lock(mutex_);
    // The body stays where it is until the job is answered.
    waiting_.push_back(
        {{job.lease.job, job.lease.attempt}, {job.body.data, job.body.size}, job.stream, done});
    open_.insert(waiting_.back().lease);
    changed_.notify_one();
  }
  void cancel(lanemq_lease lease) {
    const std::lock_guard lock(mutex_);
    if (open_.contains({lease.job, lease.attempt})) cancelled_.insert({lease.job, lease.attempt});
    changed_.notify_all();
  }
  void resume(lanemq_lease lease) {
    const std::lock_guard lock(mutex_);
    if (open_.contains({lease.job, lease.attempt})) resumed_.insert({lease.job, lease.attempt});
    changed_.notify_all();
  }

 private:
  using Lease = std::pair<uint64_t, int64_t>;
  struct Job {
    Lease lease;
    std::string_view body;
    bool stream;
    lanemq_completion done;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;  // jobs that are not answered go to other workers
      const Job job = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      count(job);
      lock.lock();
      open_.erase(job.lease);
      cancelled_.erase(job.lease);
      resumed_.erase(job.lease);
    }
  }

  void count(const Job& job) {
    std::istringstream words{std::string(job.body)};
    std::size_t counted = 0;
    for (std::string word; words >> word;) {
      if (is_over(job.lease)) return fail(job, LANEMQ_RETRY, "cancelled");
      ++counted;
      if (job.stream) {
        const std::string line = std::to_string(counted) + " " + word + "\n";
        if (!host_->chunk(host_, job.done, line.data(), line.size())) wait_for_reader(job.lease);
      }
    }
    const std::string answer = job.stream ? "" : std::to_string(counted) + "\n";
    host_->success(host_, job.done, answer.data(), answer.size(), nullptr, nullptr);
  }

  void wait_for_reader(const Lease& lease) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || cancelled_.contains(lease) || resumed_.contains(lease); });
    resumed_.erase(lease);
  }
  bool is_over(const Lease& lease) {
    const std::lock_guard lock(mutex_);
    return stopping_ || cancelled_.contains(lease);
  }
  void fail(const Job& job, lanemq_error_class error_class, std::string_view code) {
    lanemq_failure failure = LANEMQ_FAILURE;
    failure.error_class = error_class;
    failure.code = {code.data(), code.size()};
    host_->failure(host_, job.done, &failure);
  }

  const lanemq_host* const host_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::deque<Job> waiting_;                     // at most the worker's capacity
  std::set<Lease> open_, cancelled_, resumed_;  // the latter two: of open ones
  std::vector<std::thread> threads_;            // last: they use the other members
};

int threads_of(const lanemq_plugin_config& config) {
  int threads = 2;
  for (std::size_t i = 0; i < config.settings_count; ++i) {
    const std::string key(config.settings[i].key.data, config.settings[i].key.size);
    const std::string value(config.settings[i].value.data, config.settings[i].value.size);
    if (key != "threads") throw std::string("there is no setting \"" + key + "\"; there is threads");
    threads = std::atoi(value.c_str());
    if (threads < 1 || threads > kThreadsMax)
      throw std::string("threads is \"" + value + "\"; it must be 1 to " + std::to_string(kThreadsMax));
  }
  return threads;
}

void* create(const lanemq_host* host, const lanemq_plugin_config* config, char* error, size_t error_size) {
  try {
    return new WordCount(host, threads_of(*config));
  } catch (const std::string& reason) {
    std::snprintf(error, error_size, "%s", reason.c_str());
  } catch (const std::exception& failure) {
    std::snprintf(error, error_size, "%s", failure.what());
  }
  return nullptr;
}

WordCount& of(void* handler) {
  return *static_cast<WordCount*>(handler);
}

const lanemq_handler_plugin kPlugin = {
    .version = LANEMQ_HANDLER_PLUGIN_VERSION,
    .size = sizeof(lanemq_handler_plugin),
    .name = "word_count",
    .create = create,
    .destroy = [](void* handler) { delete &of(handler); },
    .start = [](void* handler, const lanemq_job* job,
                lanemq_completion done) { of(handler).start(*job, done); },
    .cancel = [](void* handler, lanemq_lease lease) { of(handler).cancel(lease); },
    .resume = [](void* handler, lanemq_lease lease) { of(handler).resume(lease); },
    .descriptor = nullptr,
    .on_readable = nullptr,
    .next_wakeup = nullptr,
    .advance = nullptr,
};

}  // namespace

const lanemq_handler_plugin* lanemq_get_handler_plugin(void) {
  return &kPlugin;
}
