// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_service.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <lanemq/client.hpp>

#include "client/gateway/batches/line_calls.hpp"
#include "client/gateway/calls/left_watch.hpp"
#include "client/gateway/calls/tenant_words.hpp"
#include "client/gateway/door/lane_choice.hpp"

namespace lanemq::gateway {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Cancellations under way, besides the lines.
constexpr std::size_t kCancelsMax = 1'024;
/// Owners of stored responses that wait for the disk; further ones are lost at the next restart.
constexpr std::size_t kResponsesWaitingMax = 10'000;
/// How old published figures may be.
constexpr milliseconds kFiguresEvery{1'000};

}  // namespace

class BatchService::Core : private LineBroker {
 public:
  Core(const Settings& settings, CallerLimits& limits, Log log)
      : settings_(settings),
        limits_(limits),
        log_(std::move(log)),
        store_(settings_.batches.folder),
        engine_(settings_.batches, store_, *this),
        desk_(settings_.batches, store_, engine_),
        client_({.endpoint = settings.broker,
                 .keys = settings.curve,
                 .pending_max = settings.batches.in_flight_max + kCancelsMax,
                 .pending_bytes_max = settings.batches.in_flight_bytes_max}),
        thread_([this] { run(); }) {}

  ~Core() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  BatchFigures figures() const {
    const std::lock_guard lock(mutex_);
    return figures_;
  }

  void change(const Settings& settings) {
    ask([this, settings](BatchDesk&, WallTime) { take_over(settings, settings_); });
  }

  std::vector<OwnedResponse> earlier_responses() { return std::exchange(earlier_responses_, {}); }

  void keep_response(OwnedResponse made) {
    {
      const std::lock_guard lock(mutex_);
      if (responses_.size() >= kResponsesWaitingMax) return;
      responses_.push_back(std::move(made));
    }
    changed_.notify_one();
  }

  void ask(Work work) {
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  // ---- the service's thread ----
  void run() {
    bool more = true;
    while (true) {
      std::vector<Work> asked;
      std::vector<std::pair<BatchLine, Answer>> answers;
      std::vector<OwnedResponse> responses;
      bool stopping = false;
      {
        std::unique_lock lock(mutex_);
        const auto called = [&] {
          return stopping_ || !asked_.empty() || !answers_.empty() || !responses_.empty();
        };
        std::optional<WallTime> wakeup = engine_.next_wakeup();
        if (figures_due_) wakeup = wakeup ? std::min(*wakeup, *figures_due_) : *figures_due_;
        if (more)
          static_cast<void>(called());
        else if (wakeup)
          changed_.wait_for(lock, *wakeup - now(), called);
        else
          changed_.wait(lock, called);
        stopping = stopping_;
        asked.swap(asked_);
        answers.swap(answers_);
        responses.swap(responses_);
      }
      if (!responses.empty()) keep(responses);
      if (stopping) return;
      for (auto& [line, answer] : answers)
        engine_.answered(line, std::move(answer));
      for (const Work& work : asked)
        work(desk_, now());
      const bool looks = figures_due_ && now() >= *figures_due_;
      const bool happened = !asked.empty() || !answers.empty() || more;
      more = engine_.turn(now());
      tell_trouble();
      if (looks) take_figures();
      // Publishes figures within this time after anything happened.
      if (happened && !figures_due_) figures_due_ = now() + kFiguresEvery;
    }
  }

  /// The system's clock as of the start, plus elapsed time, so that setting the clock changes nothing here.
  WallTime now() const {
    return started_at_ + std::chrono::duration_cast<milliseconds>(Steady::now() - started_);
  }

  void take_figures() {
    figures_due_.reset();
    BatchFigures figures;
    engine_.count(figures);
    try {
      store_.count(figures);
    } catch (const StoreFault&) {
      figures.disk_refuses = true;
    }
    const std::lock_guard lock(mutex_);
    figures_ = figures;
  }

  /// An owner that the disk refuses is forgotten at the next restart; then nobody reaches the response.
  void keep(const std::vector<OwnedResponse>& responses) {
    std::string refused;
    try {
      store_.transaction([&] { store_.add_responses(responses, ResponseOwners::kKnownMax); });
    } catch (const StoreFault& fault) {
      refused = fault.what();
    }
    if (refused != std::exchange(responses_told_, refused) && !refused.empty())
      log_("stored responses: who made them is not kept for a restart: " + refused);
  }

  void tell_trouble() {
    if (engine_.fault() != fault_told_) {
      fault_told_ = engine_.fault();
      log_("batches: an input cannot be read: " + fault_told_);
    }
    if (engine_.trouble() == told_) return;
    told_ = engine_.trouble();
    log_(told_.empty() ? "batches: the disk takes what is written again"
                       : "batches: waiting for the disk: " + told_);
  }

  LineJob job_of(const StoredBatch& batch, std::string_view model, std::string_view body,
                 std::size_t step) override {
    return job_of_line(settings_, batch, model, body, step);
  }
  std::optional<ClientError> why_not(const StoredBatch& batch, std::string_view model,
                                     std::string_view body) override {
    return why_not_line(settings_, batch, model, body);
  }
  std::string_view without_lane(std::string_view model) const override {
    return split_model(model, settings_.lanes).model;
  }
  bool falls_back(const StoredBatch& batch, std::string_view model, std::size_t step,
                  const ClientError& error) override {
    return line_falls_back(settings_, batch, model, step, error);
  }
  std::size_t steps_max() const override {
    std::size_t most = 1;
    for (const ModelSettings& route : settings_.models)
      most = std::max(most, route.steps.size());
    return most;
  }
  void submit(BatchLine line, LineJob job) override {
    const KeySettings* const key = limited_key(job.owner);
    if (key == nullptr)
      return client_.submit(std::move(job.request), std::move(job.body),
                            [this, line](Answer answer) { answered(line, std::move(answer)); });
    if (const milliseconds wait = limits_.until_tokens(*key, Steady::now()); wait > milliseconds(0))
      return answered(line, ClientError{.code = std::string(name_of(ErrorCode::client_full)),
                                        .message = "the key has no tokens left",
                                        .retry_after = wait,
                                        .local = true});
    const std::int64_t taken = CallerLimits::estimate(*key, bytes_of_request(job.body));
    limits_.spend_tokens(*key, taken, Steady::now());
    client_.submit(std::move(job.request), std::move(job.body),
                   [this, line, taken, paying = *key](Answer answer) {
                     const std::int64_t used = answer ? CallerLimits::told(answer->usage).value_or(taken)
                                                      : CallerLimits::used_of(answer.error(), taken);
                     limits_.spend_tokens(paying, used - taken, Steady::now());
                     answered(line, std::move(answer));
                   });
  }
  void answered(BatchLine line, Answer answer) {
    if (!answer && settings_.auth == Auth::keys) answer = for_tenant(std::move(answer.error()));
    {
      const std::lock_guard lock(mutex_);
      answers_.emplace_back(line, std::move(answer));
    }
    changed_.notify_one();
  }
  /// Null: the owner has no limit of tokens.
  const KeySettings* limited_key(std::string_view owner) const {
    const auto at = std::find_if(settings_.keys.begin(), settings_.keys.end(), [&](const KeySettings& key) {
      return key.tokens_per_minute > 0 && key.name == owner;
    });
    return at == settings_.keys.end() ? nullptr : &*at;
  }
  void cancel(const std::string& job_id) override {
    // The line's own answer reports the outcome.
    client_.cancel(job_id, [](const Reply<JobStatus>&) {});
  }
  void collect(BatchLine line, std::vector<std::string> job_ids) override {
    if (job_ids.empty())
      return answered(line, ClientError{.code = std::string(name_of(ErrorCode::cancelled)),
                                        .message = "it was not over when its batch was"});
    std::string id = std::move(job_ids.back());
    job_ids.pop_back();
    client_.fetch(id, milliseconds(0), [this, line, id, left = std::move(job_ids)](FetchAnswer answer) {
      if (!answer && is_end_of_job(answer.error())) return answered(line, std::move(answer.error()));
      if (answer) {
        if (auto* const done = std::get_if<JobDone>(&*answer)) {
          done->body = done->body.owned();
          return answered(line, std::move(*done));
        }
        cancel(id);
      }
      collect(line, left);
    });
  }

  Settings settings_;  ///< a copy: the loop may change its own
  CallerLimits& limits_;
  const Log log_;
  const Steady::time_point started_ = Steady::now();
  const WallTime started_at_ = std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
  BatchStore store_;
  BatchEngine engine_;
  BatchDesk desk_;
  std::string told_, fault_told_, responses_told_;
  std::vector<OwnedResponse> earlier_responses_ = store_.responses();
  std::optional<WallTime> figures_due_ = WallTime();  ///< empty: nothing has happened since the last figures

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Work> asked_;
  std::vector<std::pair<BatchLine, Answer>> answers_;
  std::vector<OwnedResponse> responses_;
  bool stopping_ = false;
  BatchFigures figures_;

  Client client_;  ///< destroyed before what its callbacks use
  std::thread thread_;
};

BatchService::BatchService(const Settings& settings, CallerLimits& limits, Log log)
    : core_(std::make_unique<Core>(settings, limits, std::move(log))) {}
BatchService::~BatchService() = default;

std::vector<OwnedResponse> BatchService::earlier_responses() {
  return core_->earlier_responses();
}

void BatchService::keep_response(OwnedResponse made) {
  core_->keep_response(std::move(made));
}

BatchFigures BatchService::figures() const {
  return core_->figures();
}

void BatchService::change(const Settings& settings) {
  core_->change(settings);
}

void BatchService::ask(Work work) {
  core_->ask(std::move(work));
}

}  // namespace lanemq::gateway
