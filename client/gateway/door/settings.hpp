// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/door/access.hpp"
#include "client/gateway/door/batch_settings.hpp"
#include "client/gateway/door/models.hpp"
#include "common/http/server/server.hpp"
#include "common/settings/broker_keys.hpp"
#include "common/settings/option.hpp"
#include "common/trace/collector.hpp"

namespace lanemq::gateway {

using settings::UsageError;

/// As long as none is configured.
ByApi<std::string> usual_services();

/// All settings of the program.
struct Settings {
  std::string broker = "tcp://127.0.0.1:5570";
  settings::BrokerKeys broker_keys{};  ///< as said
  CurveKeys curve{};                   ///< as read by parse()
  ServerOptions server{.port = 8080};
  log::Level log_level = log::Level::info;
  log::Format log_format = log::Format::text;
  bool keep_cores = false;
  bool access_log = false;
  trace::Collector otlp{};  ///< where spans go; empty: nowhere
  bool insecure = false;
  /// As configured: paths, or `credential:NAME`; and the files that these are. Empty: no TLS.
  std::string tls_certificate{}, tls_key{}, tls_certificate_file{}, tls_key_file{};
  Auth auth = Auth::none;  ///< as configured, else by whether there are keys at the start
  bool auth_said = false;
  std::vector<std::string> hosts{};  ///< names that requests without keys may use for this host, with * and ?

  ByApi<std::string> services = usual_services();  ///< the broker's, for requests of each API
  /// The lanes, the highest first: the names that a URL, or a model's @, may have, and their order.
  std::vector<std::string> lanes{"critical", "high", "normal", "low", "batch"};

  std::chrono::milliseconds commit{8'000};       ///< how long a stream's status is held back
  std::chrono::milliseconds keep_alive{10'000};  ///< of silence in a stream, before a keep-alive
  /// How long a request waits for a silent broker, as while another one takes its store over: longer than the
  /// brokers' store_lease.
  std::chrono::milliseconds broker_wait{20'000};
  /// How long a request waits for a worker where none serves it; 0: for as long as its time lasts.
  std::chrono::milliseconds no_worker_wait{30'000};
  /// From SIGTERM on /readyz refuses; after this time, in which load balancers notice, work is refused, too.
  std::chrono::milliseconds drain_delay{1'000};
  std::chrono::milliseconds drain_timeout{10'000};
  std::chrono::milliseconds idempotency_retain{24 * 3600 * 1000};
  /// A job whose caller hangs up goes on, and its answer is kept so long for the caller's next try; 0: it is
  /// cancelled.
  std::chrono::milliseconds detach{0};
  /// How long an SDK's job without a stream goes on after its caller left: the SDK's timeout is over, and it
  /// asks again.
  std::chrono::milliseconds retry_grace{1'500};
  std::string
      public_url{};  ///< this gateway's URL for callers, at the start of links; empty: links are relative
  bool forward_service_tier = false;  ///< for callers whose key does not say

  /// Of a left job: it waits in the broker's memory, with nobody waiting for it.
  std::size_t job_body_bytes_max = std::size_t{8} * 1024 * 1024;

  BatchSettings batches{};

  std::vector<KeySettings> keys{};
  std::vector<ModelSettings> models{};
};

/// How a reload changes named things.
struct NamedChange {
  std::string_view what;  ///< "key" or "model"
  std::string_view done;  ///< "removed", "added" or "changed"
  std::string names;      ///< the first kNamesTold, and the number of others

  static constexpr std::size_t kNamesTold = 20;
};
/// In that order; changes that do not occur are left out.
std::vector<NamedChange> named_changes(const Settings& before, const Settings& after);

/// Copies the settings that may change at runtime, all but a few, to `running`. Returns the names of other
/// changed ones, which need a restart. Throws UsageError, with nothing changed, where no key would be needed
/// any more.
std::vector<std::string> take_over(const Settings& wanted, Settings& running);

}  // namespace lanemq::gateway
