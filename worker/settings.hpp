// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/worker.hpp>

#include "common/settings/asked.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/option.hpp"
#include "worker/handlers/http/http_client.hpp"
#include "worker/handlers/model/lane_times.hpp"
#include "worker/handlers/model/model_api.hpp"

namespace lanemq::worker {

using settings::Environment;
using settings::UsageError;

/// A key of a service's upstream, which the broker names with a job.
struct KeySettings {
  std::string name;
  std::string source;  ///< where its secret stands, as written: not checked
};

/// A service as it is asked for.
struct ServiceSettings {
  std::string name;
  std::string handler;                 ///< `echo`, `http`, `openai` or `anthropic`
  std::string argument{};              ///< a duration, or a URL
  std::vector<std::string> headers{};  ///< as written: secrets not yet read
  std::vector<KeySettings> keys{};     ///< at most kKeysMax, each name once

  static constexpr std::size_t kKeysMax = 256;
};

/// All that the program can be told.
struct Settings {
  WorkerOptions worker;
  HttpOptions http;
  LaneTimes lane_times;                   ///< of openai and anthropic services
  std::vector<std::string> http_headers;  ///< of all http services
  std::vector<ServiceSettings> services;
  /// Of flags and variables, which may come before their service; parse() has given them to it.
  std::vector<std::pair<std::string, KeySettings>> keys;
  std::vector<std::string> lane_times_said;  ///< likewise
  log::Level log_level = log::Level::info;
  log::Format log_format = log::Format::text;
};

/// What parse() found to be asked for.
struct Request {
  settings::Asked::For what = settings::Asked::For::run;
  Settings settings;
  std::string text;                        ///< to print: the help, the version or the configuration
  std::vector<settings::OldSpelling> old;  ///< what is written as the version before did
};

/// The options, but for [[service]] and [timeout.LANE].
const settings::Options<Settings>& option_table();

/// Reads the command line, the environment and the file that --config names; a flag wins over a variable,
/// that over the file. Throws UsageError.
Request parse(int argc, const char* const* argv, const Environment& environment);

/// The API that a handler of this name speaks; null: it is another one's.
const ModelApi* find_model_api(std::string_view handler);

/// `NAME=HANDLER[:ARGUMENT]`: `chat=http:https://api.example/v1/chat/completions`, `slow=echo:50ms`. A URL
/// alone stands for the http handler. Throws UsageError.
ServiceSettings parse_service(std::string_view text);

}  // namespace lanemq::worker
