// SPDX-License-Identifier: Apache-2.0
#include "broker/program/command.hpp"

#include <csignal>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "broker/config/settings.hpp"
#include "broker/program/instead.hpp"
#include "broker/program/program.hpp"
#include "broker/program/refused.hpp"
#include "broker/program/reload.hpp"
#include "broker/program/start_check.hpp"
#include "common/log/log.hpp"
#include "common/service/memory_guard.hpp"
#include "common/service/own_process.hpp"
#include "common/service/standard_descriptors.hpp"
#include "common/settings/blank_file.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_warnings.hpp"

namespace lanemq::program {
namespace {

int serve(Config config, const std::function<Config()>& read_again) {
  std::optional<service::OwnProcess> process;
  BrokerProgram broker(std::move(config), read_again);
  broker.prepare();
  const auto at = broker.start(process.emplace().host());
  if (!at) return 0;
  log::say("ready clients=" + at->clients + " workers=" + at->workers +
           (at->admin.empty() ? "" : " admin=" + at->admin) + (at->http.empty() ? "" : " http=" + at->http) +
           "\n");
  return broker.run();
}

int run(int argc, char** argv) {
  using For = settings::Asked::For;
  service::guard_memory();
  Config config;
  const settings::Asked asked = read_config(argc, argv, settings::process_environment, config);
  log::set_level(config.log_level);
  log::set_format(config.log_format);
  if (config.keep_cores) service::open_memory();
  settings::warn_of(config.heard.old);
  std::cout << (asked.what == For::print_config ? settings::without_secrets_in_config(asked.text)
                                                : asked.text);
  std::cerr << asked.aside;
  if (asked.what == For::check) {
    check_start(config);
    settings::tell_of_credentials("lanemq-broker");
  }
  if (asked.what != For::run || do_instead(config, asked)) return 0;
  return serve(std::move(config), [&] {
    if (const auto why_not = settings::why_not_read_again(asked.file)) throw ConfigError(*why_not);
    return read_anew(argc, argv);
  });
}

}  // namespace

int command(int argc, char** argv) try {
  service::take_standard_descriptors();
  std::signal(SIGHUP, SIG_IGN);  // until it can be heeded: a start reads the configuration anyway
  return run(argc, argv);
} catch (...) {
  return refused(std::current_exception());
}

}  // namespace lanemq::program
