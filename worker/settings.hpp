// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/worker.hpp>

#include "common/settings/asked.hpp"
#include "common/settings/broker_keys.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/option.hpp"
#include "common/trace/collector.hpp"
#include "worker/handlers/exec/exec_options.hpp"
#include "worker/handlers/http/http_client.hpp"
#include "worker/handlers/model/lane_times.hpp"
#include "worker/handlers/model/model_api.hpp"
#include "worker/handlers/plugin/plugin_handler.hpp"
#include "worker/handlers/webhook/webhook_options.hpp"
#include "worker/metrics/metrics_options.hpp"

namespace lanemq::worker {

using settings::Environment;
using settings::UsageError;

/// A key of a service's upstream; the broker names it with each job.
struct KeySettings {
  std::string name;
  std::string source;  ///< of its secret, as written: not checked
};

/// A configured service.
struct ServiceSettings {
  std::string name;
  std::string handler;     ///< `echo`, `http`, `openai`, `anthropic`, `exec`, `plugin` or `webhook`
  std::string argument{};  ///< a duration, a URL, or FILE[:ARGUMENT]; a program is in `exec`
  std::vector<std::string> headers{};  ///< as written: secrets are not read yet
  bool in_clear = false;               ///< its key may go to another machine over http://
  std::vector<KeySettings> keys{};     ///< at most kKeysMax, with distinct names
  std::vector<std::pair<std::string, std::string>> plugin{};  ///< its table, [service.plugin]
  ExecOptions exec{};                                         ///< of an exec service
  WebhookOptions webhook{};                                   ///< of a webhook service

  static constexpr std::size_t kKeysMax = 256;
};

/// Which upstreams get `traceparent` and `tracestate`.
enum class TracedUpstreams : unsigned char {
  none,
  own,  ///< of one's own network, by is_own_host()
  all,
};

/// All settings of the program.
struct Settings {
  WorkerOptions worker;
  settings::BrokerKeys broker_keys;  ///< as said; parse() reads them into `worker`
  HttpOptions http;
  std::string http_proxy_source;          ///< of http.proxy, where that is a secret
  LaneTimes lane_times;                   ///< for openai and anthropic services
  std::vector<std::string> http_headers;  ///< for all http services
  std::vector<ServiceSettings> services;
  /// Of flags and variables, which may come before their service; parse() hands them out.
  std::vector<std::pair<std::string, KeySettings>> keys;
  std::vector<std::string> lane_times_said, exec_said, webhook_said;  ///< handed out likewise
  log::Level log_level = log::Level::info;
  log::Format log_format = log::Format::text;
  bool keep_cores = false;
  trace::Collector otlp{};  ///< where spans go; empty: nowhere
  MetricsOptions metrics;
  TracedUpstreams traced_upstreams = TracedUpstreams::own;
};

/// What parse() returns.
struct Request {
  settings::Asked::For what = settings::Asked::For::run;
  Settings settings;
  std::string text;                        ///< to print: the help, the version or the configuration
  std::vector<settings::OldSpelling> old;  ///< options in the spelling of the version before
};

/// All options, without [[service]] and [timeout.LANE].
const settings::Options<Settings>& option_table();
/// Those of an exec service: keys of its [[service]], and of --exec.
const settings::Options<ExecOptions>& exec_options();

/// Those of a webhook service: keys of its [[service]], and of --webhook.
const settings::Options<WebhookOptions>& webhook_options();

/// Reads the command line, the environment and the file of --config. A flag wins over a variable, a variable
/// over the file. Throws UsageError.
Request parse(int argc, const char* const* argv, const Environment& environment);

/// The model API of a handler; null: the handler has none.
const ModelApi* find_model_api(std::string_view handler);

/// Of a service whose handler is `plugin`.
PluginOptions plugin_options(const ServiceSettings& service);

/// `NAME=HANDLER[:ARGUMENT]`: `chat=http:https://api.example/v1/chat/completions`, `slow=echo:50ms`. A URL
/// alone stands for the http handler. Throws UsageError.
ServiceSettings parse_service(std::string_view text);

}  // namespace lanemq::worker
