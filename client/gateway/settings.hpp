// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/gateway/access.hpp"
#include "client/gateway/batches/batch_settings.hpp"
#include "client/gateway/http/server.hpp"
#include "client/gateway/models.hpp"
#include "common/settings/asked.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/option.hpp"

namespace lanemq::gateway {

using settings::Environment;
using settings::UsageError;

/// All that the program can be told.
struct Settings {
  std::string broker = "tcp://127.0.0.1:5570";
  ServerOptions server{.port = 8080};
  log::Level log_level = log::Level::info;
  log::Format log_format = log::Format::text;
  bool insecure = false;
  Auth auth = Auth::none;  ///< as said, else as it follows from the keys at the start
  bool auth_said = false;
  std::vector<std::string> hosts{};  ///< names that it answers to without keys, with * and ?

  std::string openai_service = "openai", anthropic_service = "anthropic";
  /// The lanes, the highest first: what a name in a URL or behind a model's @ may be, and what comes below
  /// what.
  std::vector<std::string> lanes{"critical", "high", "normal", "low", "batch"};

  std::chrono::milliseconds commit{8'000};       ///< how long a stream's status is held back
  std::chrono::milliseconds keep_alive{10'000};  ///< silence in a stream before a keep-alive
  /// How long a request waits for a worker where none serves it; 0: for as long as its time lasts.
  std::chrono::milliseconds no_worker_wait{30'000};
  /// From SIGTERM on /readyz says that it stops, and so much later it does: who spreads callers has seen it.
  std::chrono::milliseconds drain_delay{1'000};
  std::chrono::milliseconds drain_timeout{10'000};
  std::chrono::milliseconds idempotency_retain{24 * 3600 * 1000};
  /// A job whose caller hangs up goes on, and its answer is kept so long for the caller's next try; 0: it is
  /// cancelled.
  std::chrono::milliseconds detach{0};
  /// An SDK's job that is not streamed goes on so long without a caller: its timeout is over, and it asks
  /// again.
  std::chrono::milliseconds retry_grace{1'500};
  std::string public_url{};  ///< how callers reach this gateway: what links begin with; empty: with nothing
  bool forward_service_tier = false;  ///< of callers whose key does not say

  /// Of a job that is left: it waits in the broker's memory, for as long as nobody looks after it.
  std::size_t job_body_bytes_max = std::size_t{8} * 1024 * 1024;

  BatchSettings batches{};

  std::vector<KeySettings> keys{};
  std::vector<ModelSettings> models{};
};

/// What parse() found to be asked for.
struct Request {
  settings::Asked::For what = settings::Asked::For::run;
  Settings settings{};
  std::string text{};                        ///< to print: the help, the version or the configuration
  std::string file{};                        ///< that was read; empty: none was named
  std::vector<settings::OldSpelling> old{};  ///< what is written as the version before did
};

/// The options, but for [[key]] and [[model]].
const settings::Options<Settings>& option_table();

/// Reads the command line, the environment and the file that --config names; a flag wins over a variable,
/// that over the file. Reads the secrets of keys, and keeps their hashes alone. Throws UsageError.
Request parse(int argc, const char* const* argv, const Environment& environment);

/// What other settings do to those that have a name.
struct NamedChange {
  std::string_view what;  ///< "key" or "model"
  std::string_view done;  ///< "removed", "added" or "changed"
  std::string names;      ///< the first kNamesTold, and how many more there are

  static constexpr std::size_t kNamesTold = 20;
};
/// In that order; what does not happen is left out.
std::vector<NamedChange> named_changes(const Settings& before, const Settings& after);

/// Puts what may change while the program runs, all but a few, into the settings that it runs with. Returns
/// the names of what is different, too, and counts after a restart alone. Throws UsageError, and changes
/// nothing, where nobody would need a key any more.
std::vector<std::string> take_over(const Settings& wanted, Settings& running);

}  // namespace lanemq::gateway
