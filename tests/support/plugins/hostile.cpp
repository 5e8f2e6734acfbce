// SPDX-License-Identifier: Apache-2.0
// A plugin that breaks the rules of lanemq/handler_plugin.h. Its argument says how its creation goes wrong,
// the body of a job how that job does.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <lanemq/handler_plugin.h>

namespace {

struct Hostile {
  const lanemq_host* host = nullptr;
  std::string how;
  std::vector<std::thread> threads;
  std::vector<lanemq_completion> kept;
};

void* create(const lanemq_host* host, const lanemq_plugin_config* config, char* error, size_t error_size) {
  const std::string how(config->argument.data, config->argument.size);
  if (how == "crash") std::abort();
  if (how == "exit") std::_Exit(7);
  if (how == "exit_well") std::exit(0);
  if (how == "hang")
    while (true)
      ::pause();
  if (how == "throw") throw std::runtime_error("no luck");
  if (how == "throw_number") throw 7;
  if (how == "null") return nullptr;
  if (how == "endless_reason") {
    std::memset(error, 'x', error_size);
    return nullptr;
  }
  if (how == "settings") {
    std::string said;
    for (size_t i = 0; i < config->settings_count; ++i)
      said += std::string(config->settings[i].key.data, config->settings[i].key.size) + "=" +
              std::string(config->settings[i].value.data, config->settings[i].value.size) + ";";
    std::snprintf(error, error_size, "%s", said.c_str());
    return nullptr;
  }
  auto* self = new Hostile;
  self->host = host;
  self->how = how;
  return self;
}

void destroy(void* handler) {
  auto* self = static_cast<Hostile*>(handler);
  for (std::thread& thread : self->threads)
    thread.join();
  const std::string how = self->how;
  delete self;
  if (how == "throw_at_the_end") throw std::runtime_error("never ready");
}

void start(void* handler, const lanemq_job* job, lanemq_completion done) {
  auto* self = static_cast<Hostile*>(handler);
  const lanemq_host* host = self->host;
  const std::string how(job->body.data, job->body.size);
  const auto answer = [host](lanemq_completion to, const char* text) {
    host->success(host, to, text, std::strlen(text), nullptr, nullptr);
  };
  if (how == "throw") throw std::runtime_error("cannot");
  if (how == "throw_behind") {
    answer(done, "first");
    throw std::runtime_error("too late");
  }
  if (how == "twice") {
    answer(done, "once");
    answer(done, "twice");
    host->failure(host, done, nullptr);
    host->chunk(host, done, "late", 4);
  }
  if (how == "null_failure") host->failure(host, done, nullptr);
  if (how == "nowhere") host->success(host, done, nullptr, 10, nullptr, nullptr);
  if (how == "huge") host->success(host, done, "x", SIZE_MAX, nullptr, nullptr);
  if (how == "huge_piece") host->chunk(host, done, "x", SIZE_MAX);
  if (how == "piece") host->chunk(host, done, "x", 1);
  if (how == "invented") {
    for (lanemq_completion other = 0; other < 100; ++other)
      if (other != done) answer(done + 1000 + other, "not mine");
    answer(0, "nobody's");
    answer(UINT64_MAX, "nobody's");
    answer(done, "mine");
  }
  if (how == "garbage") {
    lanemq_failure failure = LANEMQ_FAILURE;
    const std::string code(500, 'c');
    failure.error_class = 77;
    failure.code = {code.data(), code.size()};
    failure.message = {"\xff\xfe\x1b[2J", 6};
    failure.retry_after_ms = INT64_MAX;
    failure.upstream_status = -5;
    lanemq_usage usage = LANEMQ_USAGE_UNKNOWN;
    usage.requests = INT64_MIN;
    usage.size = 9;
    failure.usage = &usage;
    host->failure(host, done, &failure);
  }
  if (how == "limited" || how == "limited_by_an_older_one") {
    lanemq_failure failure = LANEMQ_FAILURE;
    failure.error_class = LANEMQ_LIMITED;
    failure.code = {"busy", 4};
    failure.limited_by = {"concurrency", 11};
    lanemq_limits limits = LANEMQ_LIMITS_UNKNOWN;
    limits.limit_requests = 60;
    limits.limit_concurrency = 3;
    if (how != "limited") {
      failure.size = offsetof(lanemq_failure, limited_by);
      limits.size = offsetof(lanemq_limits, limit_concurrency);
    }
    failure.limits = &limits;
    host->failure(host, done, &failure);
  }
  if (how == "progress" && host->size >= LANEMQ_HOST_WITH_PROGRESS) {
    const std::string note(300, 'n');
    host->progress(host, done, 7, "first", 5);
    host->progress(host, done + 1'000'000, 8, "nobody's", 8);
    host->progress(host, done, 999, note.data(), note.size());
    answer(done, "done");
    host->progress(host, done, 9, "late", 4);
  }
  if (how == "progress_without") {
    host->progress(host, done, -1, nullptr, 10);
    answer(done, "done");
  }
  if (how == "log") {
    host->log(host, LANEMQ_WARNING, "two\nlines", 9);
    answer(done, "logged");
  }
  if (how.starts_with("until ")) {
    // A FIFO: opened once somebody writes there.
    int opened = -1;
    do
      opened = ::open(how.c_str() + 6, O_RDONLY);
    while (opened < 0 && errno == EINTR);
    if (opened >= 0) ::close(opened);
    answer(done, opened >= 0 ? "it is there" : "it cannot be opened");
  }
  if (how == "slow") {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(150);
    while (std::chrono::steady_clock::now() < end) {
    }
    answer(done, "at last");
  }
  if (how == "thread")
    self->threads.emplace_back([host, done, answer] {
      answer(done, "from a thread");
      answer(done, "again");
    });
  if (how == "keep") self->kept.push_back(done);
  if (how == "exit") std::exit(0);
  if (how == "crash") std::abort();
}

void cancel(void* handler, lanemq_lease) {
  auto* self = static_cast<Hostile*>(handler);
  for (const lanemq_completion done : self->kept) {
    self->host->success(self->host, done, "late", 4, nullptr, nullptr);
    self->host->success(self->host, done, "later", 5, nullptr, nullptr);
  }
  if (self->how == "throw_in_cancel") throw std::runtime_error("no cancel");
}

const lanemq_handler_plugin kPlugin = {
    .version = LANEMQ_HANDLER_PLUGIN_VERSION,
    .size = sizeof(lanemq_handler_plugin),
    .name = "hostile",
    .create = create,
    .destroy = destroy,
    .start = start,
    .cancel = cancel,
    .resume = nullptr,
    .descriptor =
        [](void* handler) { return static_cast<Hostile*>(handler)->how == "descriptor" ? 1 << 20 : -1; },
    .on_readable = nullptr,
    .next_wakeup =
        [](void* handler) {
          return static_cast<Hostile*>(handler)->how == "odd_time" ? INT64_MAX : INT64_C(-1);
        },
    .advance = nullptr,
};

}  // namespace

const lanemq_handler_plugin* lanemq_get_handler_plugin(void) {
  return &kPlugin;
}
