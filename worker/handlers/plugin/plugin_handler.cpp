// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/plugin/plugin_handler.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string_view>

#include <fcntl.h>

#include <lanemq/text.hpp>

#include "worker/base/log_line.hpp"
#include "worker/handlers/plugin/held_completions.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kTextMax = 1024;  ///< of a message or a log line of a plugin
constexpr std::size_t kCodeMax = 100;
constexpr milliseconds kRetryAfterMax = std::chrono::hours(24);
/// Between two log lines about slow calls.
constexpr std::chrono::minutes kSlowToldEvery{1};

constexpr plugin::Kind kKind{.header = "lanemq/handler_plugin.h",
                             .symbol = "lanemq_get_handler_plugin",
                             .version = LANEMQ_HANDLER_PLUGIN_VERSION,
                             .size_min = offsetof(lanemq_handler_plugin, cancel)};

lanemq_handler_plugin complete(const lanemq_handler_plugin& table) {
  if (table.create == nullptr || table.destroy == nullptr || table.start == nullptr)
    throw plugin::PluginError("its table lacks create, destroy or start");
  return table;
}

lanemq_bytes bytes_of(std::string_view text) {
  return {text.data(), text.size()};
}

/// Bytes that a plugin names; none where they lie nowhere.
std::string_view view_of(lanemq_bytes bytes) {
  return bytes.data == nullptr ? std::string_view() : std::string_view(bytes.data, bytes.size);
}

std::int64_t ticks_of(TimePoint time) {
  return std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count();
}

/// Reads a struct of a plugin as this worker knows it. What the plugin's does not have keeps its default.
template <class Struct>
Struct known_part(const Struct& theirs, Struct known) {
  std::memcpy(&known, &theirs, std::min(theirs.size, sizeof known));
  return known;
}

std::optional<std::int64_t> number(std::int64_t value) {
  return value < 0 ? std::nullopt : std::optional(value);
}

std::optional<wire::Usage> usage_of(const lanemq_usage* usage) {
  if (usage == nullptr) return std::nullopt;
  const lanemq_usage known = known_part(*usage, lanemq_usage LANEMQ_USAGE_UNKNOWN);
  return wire::Usage{.requests = number(known.requests),
                     .input_tokens = number(known.input_tokens),
                     .output_tokens = number(known.output_tokens),
                     .cached_tokens = number(known.cached_tokens),
                     .reasoning_tokens = number(known.reasoning_tokens)};
}

std::optional<wire::UpstreamLimits> limits_of(const lanemq_limits* limits) {
  if (limits == nullptr) return std::nullopt;
  const lanemq_limits known = known_part(*limits, lanemq_limits LANEMQ_LIMITS_UNKNOWN);
  return wire::UpstreamLimits{.remaining_requests = number(known.remaining_requests),
                              .remaining_tokens = number(known.remaining_tokens),
                              .remaining_input_tokens = number(known.remaining_input_tokens),
                              .remaining_output_tokens = number(known.remaining_output_tokens),
                              .reset_requests_ms = number(known.reset_requests_ms),
                              .reset_tokens_ms = number(known.reset_tokens_ms),
                              .reset_input_tokens_ms = number(known.reset_input_tokens_ms),
                              .reset_output_tokens_ms = number(known.reset_output_tokens_ms),
                              .limit_requests = number(known.limit_requests),
                              .limit_tokens = number(known.limit_tokens),
                              .limit_input_tokens = number(known.limit_input_tokens),
                              .limit_output_tokens = number(known.limit_output_tokens),
                              .limit_concurrency = number(known.limit_concurrency),
                              .period_requests_ms = number(known.period_requests_ms),
                              .period_tokens_ms = number(known.period_tokens_ms)};
}

ErrorClass class_of(std::int32_t said) {
  switch (said) {
    case LANEMQ_LIMITED:
      return ErrorClass::limited;
    case LANEMQ_QUOTA:
      return ErrorClass::quota;
    case LANEMQ_OVERLOADED:
      return ErrorClass::overloaded;
    case LANEMQ_PERMANENT:
      return ErrorClass::permanent;
    case LANEMQ_DEADLINE:
      return ErrorClass::deadline;
    case LANEMQ_RELEASED:
      return ErrorClass::released;
    case LANEMQ_RETRY:
      break;
  }
  return ErrorClass::retry;
}

/// A text for people, cut and made safe.
std::string text_of(lanemq_bytes bytes) {
  return printable(beginning(view_of(bytes), kTextMax), kTextMax);
}

JobFailure failure_of(const lanemq_failure& said, std::size_t body_bytes_max) {
  const std::string_view code = view_of(said.code);
  JobFailure failure{
      .error_class = class_of(said.error_class),
      .code = code.empty() || code.size() > kCodeMax ? "plugin_failed" : printable(code, kCodeMax),
      .message = text_of(said.message),
      .detail = text_of(said.detail)};
  if (said.retry_after_ms >= 0)
    failure.retry_after = std::min(milliseconds(said.retry_after_ms), kRetryAfterMax);
  if (said.upstream_status > 0) failure.upstream_status = said.upstream_status;
  failure.body = Blob::copy(view_of(said.body).substr(0, body_bytes_max));
  failure.usage = usage_of(said.usage);
  failure.limits = limits_of(said.limits);
  failure.limited_by = limited_by(view_of(said.limited_by));
  return failure;
}

/// Why bytes cannot be an answer, or a piece of one; empty: they can. A length beyond the limit is not read.
std::string why_no_answer(const char* data, std::size_t size, std::size_t bytes_max) {
  if (data == nullptr && size > 0) return "the plugin answered with bytes at no place";
  if (size > bytes_max)
    return "the plugin answered with " + std::to_string(size) + " bytes; at most " +
           std::to_string(bytes_max);
  return {};
}

JobFailure bad_answer(std::string why) {
  return {.error_class = ErrorClass::permanent, .code = "bad_answer", .message = std::move(why)};
}

}  // namespace

PluginHandler::PluginHandler(std::string service, const PluginOptions& options, std::size_t capacity, Log log)
    : library_(options.file, kKind),
      plugin_(complete(library_.table<lanemq_handler_plugin>())),
      service_(std::move(service)),
      log_(std::move(log)),
      host_{.version = LANEMQ_HANDLER_PLUGIN_VERSION,
            .size = sizeof(lanemq_host),
            .chunk = &PluginHandler::chunk,
            .success = &PluginHandler::success,
            .failure = &PluginHandler::failure,
            .log = &PluginHandler::say,
            .context = this,
            .progress = &PluginHandler::progress} {
  make(options, capacity);
}

void PluginHandler::make(const PluginOptions& options, std::size_t capacity) {
  std::vector<lanemq_setting> settings;
  for (const auto& [key, value] : options.settings)
    settings.push_back({bytes_of(key), bytes_of(value)});
  const lanemq_plugin_config config{.size = sizeof config,
                                    .service = bytes_of(service_),
                                    .argument = bytes_of(options.argument),
                                    .settings = settings.data(),
                                    .settings_count = settings.size(),
                                    .capacity = capacity};
  std::array<char, kTextMax> reason{};
  std::string thrown;
  try {
    handler_ = plugin_.create(&host_, &config, reason.data(), reason.size());
  } catch (const std::exception& error) {
    thrown = std::string("create() threw: ") + error.what();
  } catch (...) {
    thrown = "create() threw";
  }
  if (handler_ == nullptr) {
    reason.back() = '\0';
    if (thrown.empty()) thrown = reason.front() == '\0' ? "create() gave no reason" : reason.data();
    throw plugin::PluginError(printable(thrown, kTextMax));
  }
  if (plugin_.descriptor == nullptr) return;
  call("descriptor", [&] { descriptor_ = plugin_.descriptor(handler_); });
  if (descriptor_ < 0 || ::fcntl(descriptor_, F_GETFD) >= 0) return;
  const int wrong = std::exchange(descriptor_, -1);
  call("destroy", [&] { plugin_.destroy(handler_); });
  throw plugin::PluginError("its descriptor " + std::to_string(wrong) + " is not open");
}

PluginHandler::~PluginHandler() {
  call("destroy", [&] { plugin_.destroy(handler_); });
  HeldCompletions::of_process().drop(this);
}

bool PluginHandler::call(const char* function, const std::function<void()>& use) const {
  const TimePoint began = std::chrono::steady_clock::now();
  std::string thrown;
  try {
    use();
  } catch (const std::exception& error) {
    thrown = std::string_view(error.what()).substr(0, kTextMax);
    if (thrown.empty()) thrown = "an exception";
  } catch (...) {
    thrown = "no std::exception";
  }
  if (!thrown.empty()) {
    LogLine line(log_, LogLevel::error, "plugin.threw");
    line.field("service", service_).field("function", function).field("what", thrown);
  }
  const TimePoint ended = std::chrono::steady_clock::now();
  if (ended - began >= kSlowCall && (!slow_told_ || ended - *slow_told_ >= kSlowToldEvery)) {
    slow_told_ = ended;
    LogLine(log_, LogLevel::warning, "plugin.slow")
        .field("service", service_)
        .field("function", function)
        .field("ms", std::chrono::duration_cast<milliseconds>(ended - began).count())
        .field("do", "nothing else goes on meanwhile; let the plugin work on threads of its own");
  }
  return thrown.empty();
}

void PluginHandler::start(const JobCall& job, Completion done) {
  const Blob body = job.body.owned();
  const lanemq_job call_of{.size = sizeof call_of,
                           .lease = {job.lease.job, job.lease.attempt},
                           .service = bytes_of(job.service),
                           .id = bytes_of(job.id),
                           .lane = bytes_of(job.lane),
                           .model = bytes_of(job.model),
                           .client = bytes_of(job.client),
                           .key = bytes_of(job.key),
                           .body = bytes_of(body.bytes()),
                           .meta = bytes_of(job.meta.bytes),
                           .trace = bytes_of(job.trace.bytes),
                           .deadline = job.deadline ? ticks_of(*job.deadline) : LANEMQ_NONE,
                           .answer_bytes_max = job.answer_bytes_max,
                           .stream = job.stream};
  const std::uint64_t number = HeldCompletions::of_process().hold({.done = std::move(done),
                                                                   .body = body,
                                                                   .owner = this,
                                                                   .answer_bytes_max = job.answer_bytes_max,
                                                                   .stream = job.stream});
  if (call("start", [&] { plugin_.start(handler_, &call_of, number); })) return;
  HeldCompletions::of_process().take(number, [](HeldCompletions::Held& held) {
    held.done.failure({.error_class = ErrorClass::retry,
                       .code = "plugin_threw",
                       .message = "the plugin threw an exception; the worker's log has it"});
  });
}

void PluginHandler::cancel(wire::Lease lease) {
  if (const auto cancel = plugin_.cancel)
    call("cancel", [&] { cancel(handler_, {lease.job, lease.attempt}); });
}

void PluginHandler::resume(wire::Lease lease) {
  if (const auto resume = plugin_.resume)
    call("resume", [&] { resume(handler_, {lease.job, lease.attempt}); });
}

void PluginHandler::on_readable(TimePoint) {
  if (const auto on_readable = plugin_.on_readable) call("on_readable", [&] { on_readable(handler_); });
}

std::optional<TimePoint> PluginHandler::next_wakeup() const {
  const auto next_wakeup = plugin_.next_wakeup;
  std::int64_t next = LANEMQ_NONE;
  if (next_wakeup != nullptr) call("next_wakeup", [&] { next = next_wakeup(handler_); });
  // Beyond a day it is asked again anyway, and a number that is no time does no harm.
  if (next < 0 || next > ticks_of(std::chrono::steady_clock::now() + std::chrono::hours(24)))
    return std::nullopt;
  return TimePoint(milliseconds(next));
}

void PluginHandler::advance(TimePoint now) {
  if (const auto advance = plugin_.advance) call("advance", [&] { advance(handler_, ticks_of(now)); });
}

std::optional<std::string> why_no_plugin(const std::string& service, const PluginOptions& options,
                                         std::size_t capacity, const Log& log, milliseconds at_most) {
  return plugin::why_not([&] { PluginHandler(service, options, capacity, log); }, at_most);
}

// ---- what plugins call, from any thread ----------------------------------------------------------------

bool PluginHandler::chunk(const lanemq_host*, lanemq_completion done, const char* data, std::size_t size) {
  bool more = true;
  std::string wrong;
  HeldCompletions& held = HeldCompletions::of_process();
  held.with(done, [&](HeldCompletions::Held& job) {
    wrong = job.stream ? why_no_answer(data, size, job.answer_bytes_max)
                       : "the plugin sent a piece of an answer that is no stream";
    if (wrong.empty()) more = job.done.chunk(Blob::copy({data, size}));
  });
  if (!wrong.empty())
    held.take(done, [&](HeldCompletions::Held& job) { job.done.failure(bad_answer(wrong)); });
  return more;
}

void PluginHandler::progress(const lanemq_host*, lanemq_completion done, std::int32_t percent,
                             const char* note, std::size_t note_size) {
  HeldCompletions::of_process().with(done, [&](HeldCompletions::Held& job) {
    job.done.progress({.pct = percent < 0 ? std::nullopt : std::optional(percent),
                       .note = std::string(beginning(view_of({note, note_size}), kTextMax))});
  });
}

void PluginHandler::success(const lanemq_host*, lanemq_completion done, const char* data, std::size_t size,
                            const lanemq_usage* usage, const lanemq_limits* limits) {
  HeldCompletions::of_process().take(done, [&](HeldCompletions::Held& job) {
    if (std::string wrong = why_no_answer(data, size, job.answer_bytes_max); !wrong.empty())
      return job.done.failure(bad_answer(std::move(wrong)));
    job.done.success(Blob::copy({data, size}), usage_of(usage), limits_of(limits));
  });
}

void PluginHandler::failure(const lanemq_host*, lanemq_completion done, const lanemq_failure* failure) {
  HeldCompletions::of_process().take(done, [&](HeldCompletions::Held& job) {
    const lanemq_failure unknown = LANEMQ_FAILURE;
    job.done.failure(
        failure_of(failure == nullptr ? unknown : known_part(*failure, unknown), job.answer_bytes_max));
  });
}

void PluginHandler::say(const lanemq_host* host, std::int32_t level, const char* text, std::size_t size) {
  const auto& handler = *static_cast<const PluginHandler*>(host->context);
  const LogLevel known = level == LANEMQ_DEBUG     ? LogLevel::debug
                         : level == LANEMQ_WARNING ? LogLevel::warning
                         : level == LANEMQ_ERROR   ? LogLevel::error
                                                   : LogLevel::info;
  LogLine(handler.log_, known, "plugin.says")
      .field("service", handler.service_)
      .field("text", view_of({text, size}).substr(0, kTextMax));
}

}  // namespace lanemq::worker
