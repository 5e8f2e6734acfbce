// SPDX-License-Identifier: Apache-2.0
#include "broker/program/store_choice.hpp"

#include <chrono>
#include <string>

#include <limits.h>
#include <unistd.h>

#include "broker/io/loop/server.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "broker/io/store/open/store_place.hpp"
#include "common/settings/environment.hpp"

namespace lanemq::program {
namespace {

std::string instance_of(const Config& config) {
  if (!config.instance.empty()) return config.instance;
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "broker";
}

}  // namespace

void refuse_store(const Error& error) {
  if (error.code == ErrorCode::bad_request) throw ConfigError(error.message);
  throw io::StoreError(error.message);
}

io::StoreOptions store_options(const Config& config) {
  io::StoreOptions options{
      .specification = config.store,
      .reserve_bytes = config.store_reserve,
      .schema = config.store_schema,
      .instance = instance_of(config),
      .replication = config.store_replication,
      .lease = std::chrono::duration_cast<std::chrono::milliseconds>(config.store_lease)};
  io::ignore_environment_of_store(options);
  if (!options.specification.empty()) return options;
  const auto place = io::default_store(settings::process_environment, config.core.shard);
  if (!place) refuse_store(place.error());
  options.specification = *place;
  return options;
}

void make_store_folder(const Config& config, const io::StoreOptions& options) {
  if (!config.store.empty()) return;
  if (const auto made = io::make_default_folder(options.specification); !made) refuse_store(made.error());
}

}  // namespace lanemq::program
