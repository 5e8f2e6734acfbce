// SPDX-License-Identifier: Apache-2.0
#include "worker/program/command.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/log/log.hpp"
#include "common/service/memory_guard.hpp"
#include "common/service/own_process.hpp"
#include "common/service/standard_descriptors.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/secrets/secret_shapes.hpp"
#include "common/settings/start_warnings.hpp"
#include "worker/program/program.hpp"
#include "worker/settings.hpp"

namespace lanemq::worker {
namespace {

constexpr int kExitSignal = 128;  ///< plus the signal's number

int serve(Settings settings) {
  std::optional<service::OwnProcess> process;
  WorkerProgram worker(std::move(settings));
  worker.prepare();
  process.emplace();
  std::string services;
  for (const ServiceSettings& service : worker.settings().services)
    services += (services.empty() ? "" : ",") + service.name;
  const std::string serves =
      " services=" + services + " capacity=" + std::to_string(worker.settings().worker.capacity);
  worker.start(process->host(),
               {.ready =
                    [serves](const WorkerProgram::Ready& at) {
                      log::say("ready name=" + at.name + serves +
                               (at.metrics.empty() ? "" : " metrics=" + at.metrics) + "\n");
                    },
                .stop_without_worker = [&process] { std::_Exit(kExitSignal + process->last_signal()); }});
  return worker.run();
}

}  // namespace

int command(int argc, char** argv) try {
  using For = lanemq::settings::Asked::For;
  lanemq::service::take_standard_descriptors();
  lanemq::service::guard_memory();
  Request request = parse(argc, argv, lanemq::settings::process_environment);
  lanemq::log::set_level(request.settings.log_level);
  lanemq::log::set_format(request.settings.log_format);
  request.settings.worker.log = make_log(request.settings.log_level);
  if (request.settings.keep_cores) lanemq::service::open_memory();
  lanemq::settings::warn_of(request.old);
  if (request.what == For::check) {
    check_start(request.settings);
    lanemq::settings::tell_of_credentials("lanemq-worker");
  }
  if (request.what == For::run) return serve(std::move(request.settings));
  std::fputs(lanemq::settings::without_secrets_in_config(request.text).c_str(), stdout);
  return kExitDone;
} catch (const UsageError& error) {
  lanemq::log::complain(std::string("lanemq-worker: ") + error.what());
  return kExitUsage;
} catch (const std::invalid_argument& error) {
  lanemq::log::complain("lanemq-worker: " + lanemq::settings::without_secrets(error.what()));
  return kExitUsage;
} catch (const std::exception& error) {
  lanemq::log::complain(std::string("lanemq-worker: ") + error.what());
  return kExitUnreachable;
}

}  // namespace lanemq::worker
