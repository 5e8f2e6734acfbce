// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/program/start.hpp"

#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>

#include "client/gateway/batches/batch_store.hpp"
#include "client/gateway/program/certificate.hpp"
#include "client/gateway/run/control_socket.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_check.hpp"
#include "common/settings/start_warnings.hpp"
#include "common/trace/exporter.hpp"

namespace lanemq::gateway {

Request read_settings(int argc, const char* const* argv) {
  Request request = parse(argc, argv, lanemq::settings::process_environment);
  for (const KeySettings& key : request.settings.keys)
    lanemq::settings::hide_secret(key.secret);
  lanemq::settings::hide_secret(request.settings.broker_keys.secret_key);
  return request;
}

void check_start(const Settings& settings) {
  static_cast<void>(identity_of(settings));
  if (const auto reason = lanemq::settings::why_not_listen(settings.server.address, settings.server.port))
    throw std::runtime_error("cannot listen on " + settings.server.address + ":" +
                             std::to_string(settings.server.port) + ": " + *reason);
  if (!settings.otlp.endpoint.empty()) trace::require_collector(settings.otlp);
  if (settings.batches.folder_named) check_state_folder(settings.batches.folder);
}

void stop_keys(const Settings& settings, const std::vector<std::string>& names) {
  const std::string& folder = settings.batches.folder;
  if (folder.empty())
    throw UsageError("no folder is known by which a gateway could be found; name it with --state");
  for (const std::string& name : names) {
    if (name.empty()) throw UsageError("--stop-key takes a key's name, and this one is empty");
    const std::optional<ControlAnswer> answer = command_gateway(folder, name);
    if (!answer)
      throw std::runtime_error(
          "no gateway runs with the folder " + folder +
          ": name that of the running one with --state or --config. Where none runs, its "
          "batches go on when it is started");
    if (!answer->done) throw std::runtime_error(answer->text);
    std::fputs(answer->text.c_str(), stdout);
  }
}

Settings read_anew(int argc, const char* const* argv) try {
  Request again = read_settings(argc, argv);
  if (!again.settings.otlp.endpoint.empty()) trace::require_collector(again.settings.otlp);
  warn_of(again.old);
  return std::move(again.settings);
} catch (const UsageError&) {
  throw;
} catch (const std::exception& error) {
  throw UsageError(lanemq::settings::without_secrets(error.what()));
}

}  // namespace lanemq::gateway
