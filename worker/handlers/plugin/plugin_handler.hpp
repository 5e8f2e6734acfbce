// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <lanemq/handler_plugin.h>
#include <lanemq/worker.hpp>

#include "common/plugin/library.hpp"
#include "common/plugin/probe.hpp"

namespace lanemq::worker {

/// What one service says of its plugin.
struct PluginOptions {
  std::string file, argument;
  std::vector<std::pair<std::string, std::string>> settings;  ///< of its table, in their order
};

/// Hands jobs to a plugin, through the functions of lanemq/handler_plugin.h. It outlives what a bound can
/// outlive: exceptions, second and late answers, odd numbers and lengths. It does not outlive a crash or an
/// exit of the plugin; and while a function of the plugin runs, the worker's loop stands.
class PluginHandler final : public Handler {
 public:
  /// A call that takes longer is logged.
  static constexpr std::chrono::milliseconds kSlowCall{100};

  /// Loads the plugin and makes its handler. Throws plugin::PluginError.
  PluginHandler(std::string service, const PluginOptions& options, std::size_t capacity, Log log);
  ~PluginHandler() override;

  void start(const JobCall& job, Completion done) override;
  void cancel(wire::Lease lease) override;
  void resume(wire::Lease lease) override;
  int descriptor() const override { return descriptor_; }
  void on_readable(TimePoint now) override;
  std::optional<TimePoint> next_wakeup() const override;
  void advance(TimePoint now) override;

 private:
  static bool chunk(const lanemq_host* host, lanemq_completion done, const char* data, std::size_t size);
  static void progress(const lanemq_host* host, lanemq_completion done, std::int32_t percent,
                       const char* note, std::size_t note_size);
  static void success(const lanemq_host* host, lanemq_completion done, const char* data, std::size_t size,
                      const lanemq_usage* usage, const lanemq_limits* limits);
  static void failure(const lanemq_host* host, lanemq_completion done, const lanemq_failure* failure);
  static void say(const lanemq_host* host, std::int32_t level, const char* text, std::size_t size);

  /// Calls a function of the plugin: an exception goes no further, a slow call is logged. False: it has
  /// thrown.
  bool call(const char* function, const std::function<void()>& use) const;
  void make(const PluginOptions& options, std::size_t capacity);

  const plugin::Library library_;
  const lanemq_handler_plugin plugin_;  ///< its functions; null: one that it does not have
  const std::string service_;
  const Log log_;
  const lanemq_host host_;
  void* handler_ = nullptr;  ///< the plugin's
  int descriptor_ = -1;
  mutable std::optional<TimePoint> slow_told_;
};

/// Loads a plugin, makes a handler of it and destroys that, in a process that is thrown away. Returns why the
/// plugin cannot be used; none: it can. Requires: the process has one thread.
std::optional<std::string> why_no_plugin(const std::string& service, const PluginOptions& options,
                                         std::size_t capacity, const Log& log,
                                         std::chrono::milliseconds at_most = plugin::kProbeTime);

}  // namespace lanemq::worker
