// SPDX-License-Identifier: Apache-2.0
#include "broker/program/reload.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "broker/config/settings.hpp"
#include "broker/program/settle.hpp"
#include "common/http/server/access/caller_key.hpp"
#include "common/log/log.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_warnings.hpp"

namespace lanemq::program {
namespace {

void log_change(const io::OptionChange& change) {
  using How = io::OptionChange::How;
  if (change.needs_restart)
    return log::event(log::Level::warning, "config.needs_restart",
                      {{"key", change.what},
                       {"how", io::name_of(change.how)},
                       {"from", change.before},
                       {"to", change.after}});
  if (change.how == How::changed)
    return log::event(log::Level::info, "config.changed",
                      {{"key", change.what}, {"from", change.before}, {"to", change.after}});
  // A file that was cut while it was copied may be valid; the log then shows what it lost.
  const bool removed = change.how == How::removed;
  log::event(removed ? log::Level::warning : log::Level::info, removed ? "config.removed" : "config.added",
             {{"key", change.what}});
}

/// Compares a configuration that was read again with what runs. `counts`: the part that needs no restart.
std::vector<io::OptionChange> changes_of(const Config& running, const Config& counts, const Config& wanted) {
  std::vector<io::OptionChange> changes = difference(running, counts);
  for (io::OptionChange& change : difference(counts, wanted)) {
    change.needs_restart = true;
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace

Config read_anew(int argc, char** argv) try {
  Config again;
  read_config(argc, argv, settings::process_environment, again);
  settle_endpoints(again);
  settings::warn_of(again.heard.old);
  return again;
} catch (const ConfigError&) {
  throw;
} catch (const std::exception& error) {
  throw ConfigError(settings::without_secrets(error.what()));
}

admin::HttpChange http_now(const Config& config) try {
  const auto file = [](const std::string& named) {
    return http::file_of(named, settings::process_environment);
  };
  admin::HttpChange now{.keys = config.http.keys};
  if (!config.http.tls_certificate.empty()) {
    const std::string key = file(config.http.tls_key), certificate = file(config.http.tls_certificate);
    if (!key.empty() && !certificate.empty()) now.identity = http::TlsIdentity::read(certificate, key);
  }
  return now;
} catch (const std::runtime_error& error) {
  throw ConfigError(error.what());
}

Result<io::Reloaded> reload(Config& running, const std::function<Config()>& read,
                            const core::Options& options, const io::Objection& objection, io::ReloadMode mode,
                            const std::function<void(admin::HttpChange)>& change_http) {
  try {
    const Config wanted = read();
    // A file that is cut, or not complete yet, has none.
    if (!running.server.secret_key.empty() && wanted.server.secret_key.empty())
      throw ConfigError(
          "the broker asks for keys since its start (secret_key), and the configuration has none; to open it "
          "to everybody, restart it");
    if (!running.http.keys.empty() && wanted.http.keys.empty())
      throw ConfigError(
          "HTTP asks for keys since the start, and the configuration has no [[http_key]] any more; to open "
          "it "
          "to this machine, restart the broker");
    // A folder that is not mounted, or is being copied anew, is empty.
    if (!running.server.keys.empty() && wanted.server.keys.empty())
      throw ConfigError(
          "keys_folder " + wanted.keys_folder +
          " has no key any more, and nobody could connect; to take all keys back, restart the broker");
    admin::HttpChange http_change = http_now(wanted);
    Config config = reloaded(running, wanted);
    if (const std::string why = objection(config.core); !why.empty()) throw ConfigError(why);
    Config changed_by_operators = running;
    changed_by_operators.core.lanes = options.lanes;
    changed_by_operators.core.budgets = options.budgets;
    io::Reloaded reloaded{config.core, config.server.keys, changes_of(changed_by_operators, config, wanted)};
    if (mode == io::ReloadMode::try_only) return reloaded;
    log::set_level(config.log_level);
    change_http(std::move(http_change));
    running = std::move(config);
    const std::size_t logged = std::min(reloaded.changes.size(), io::kChangesTold);
    std::for_each_n(reloaded.changes.begin(), logged, log_change);
    log::event(log::Level::info, "config.reloaded", {{"changes", reloaded.changes.size()}});
    return reloaded;
  } catch (const ConfigError& error) {
    if (mode == io::ReloadMode::apply)
      log::event(log::Level::error, "config.reload_failed",
                 {{"reason", error.what()},
                  {"do", "nothing has changed; mend it and send SIGHUP again, or say lanemq reload"}});
    return failure(ErrorCode::bad_request, std::string(error.what()) + "; nothing has changed");
  }
}

}  // namespace lanemq::program
