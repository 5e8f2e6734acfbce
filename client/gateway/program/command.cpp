// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/program/command.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "client/gateway/program/program.hpp"
#include "client/gateway/program/start.hpp"
#include "common/log/log.hpp"
#include "common/service/memory_guard.hpp"
#include "common/service/own_process.hpp"
#include "common/service/standard_descriptors.hpp"
#include "common/settings/blank_file.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/secrets/secret_shapes.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_warnings.hpp"

namespace lanemq::gateway {
namespace {

constexpr int kExitDone = 0, kExitUsage = 2, kExitRefused = 3;

int serve(const Settings& settings, const std::function<Settings()>& read_again) {
  service::OwnProcess process;
  GatewayProgram gateway(settings, read_again);
  log::say("ready " + gateway.start(process.host()) + "\n");
  gateway.run();
  return kExitDone;
}

}  // namespace

int command(int argc, char** argv) try {
  lanemq::service::take_standard_descriptors();
  std::signal(SIGHUP, SIG_IGN);  // until it can be heeded: a start reads the configuration anyway
  lanemq::service::guard_memory();
  const Request request = read_settings(argc, argv);
  lanemq::log::set_level(request.settings.log_level);
  lanemq::log::set_format(request.settings.log_format);
  if (request.settings.keep_cores) lanemq::service::open_memory();
  lanemq::settings::warn_of(request.old);
  lanemq::settings::warn_of(lanemq::settings::exposed_files());
  if (request.what == lanemq::settings::Asked::For::check) {
    check_start(request.settings);
    lanemq::settings::tell_of_credentials("lanemq-gateway");
  }
  if (!request.stop_keys.empty()) return stop_keys(request.settings, request.stop_keys), kExitDone;
  if (request.what == lanemq::settings::Asked::For::run)
    return serve(request.settings, [&] {
      if (const auto why_not = lanemq::settings::why_not_read_again(request.file)) throw UsageError(*why_not);
      return read_anew(argc, argv);
    });
  const bool is_config = request.what == lanemq::settings::Asked::For::print_config;
  std::fputs((is_config ? lanemq::settings::without_secrets_in_config(request.text) : request.text).c_str(),
             stdout);
  std::fputs(request.aside.c_str(), stderr);
  return kExitDone;
} catch (const UsageError& error) {
  lanemq::log::complain(std::string("lanemq-gateway: ") + error.what());
  return kExitUsage;
} catch (const std::invalid_argument& error) {
  lanemq::log::complain("lanemq-gateway: " + lanemq::settings::without_secrets(error.what()));
  return kExitUsage;
} catch (const std::exception& error) {
  lanemq::log::complain(std::string("lanemq-gateway: ") + error.what());
  return kExitRefused;
}

}  // namespace lanemq::gateway
