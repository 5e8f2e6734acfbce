// SPDX-License-Identifier: Apache-2.0
#include "broker/program/program.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <sys/random.h>
#include <sys/resource.h>

#include "broker/config/settings.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "broker/io/store/open/store_wait.hpp"
#include "broker/program/reload.hpp"
#include "broker/program/settle.hpp"
#include "broker/program/start_check.hpp"
#include "broker/program/store_choice.hpp"
#include "common/log/log.hpp"
#include "common/settings/secrets/secret_shapes.hpp"
#include "common/settings/start_warnings.hpp"

namespace lanemq::program {
namespace {

/// Descriptors that a broker with thousands of connections needs; with fewer it warns.
constexpr rlim_t kDescriptorsWanted = 65536;
/// How long the service manager waits until the store is open.
constexpr std::chrono::minutes kOpeningMax{2};

std::uint64_t entropy() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed))
    throw std::runtime_error("the system gives no random bytes");
  return seed;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, kDescriptorsWanted));
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < kDescriptorsWanted)
    log::event(log::Level::warning, "limit.descriptors",
               {{"have", static_cast<std::size_t>(limit.rlim_cur)},
                {"want", static_cast<std::size_t>(kDescriptorsWanted)},
                {"do", "raise LimitNOFILE or ulimit -n"}});
}

/// The core's options at the start: with its shard's part of the table, and the time.
core::Options core_at_start(const Config& config) {
  core::Options core = config.core;
  for (const core::ShardOptions& shard : core.shards)
    if (shard.name == core.shard) {
      core.client_endpoints = shard.clients;
      core.worker_endpoints = shard.workers;
    }
  core.wall_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count();
  return core;
}

}  // namespace

void BrokerProgram::prepare() {
  try_plugins(config_);
  settle_endpoints(config_);
  check_binds(config_);
  for (const std::string& doubt : doubts(config_))
    log::event(log::Level::warning, "config.doubtful", {{"reason", settings::without_secrets(doubt)}});
  store_ = store_options(config_);
  store_.shard = config_.core.shard;
  note_secret_files(config_, store_);
  auto lock = io::lock_instance(store_);
  if (!lock) refuse_store(lock.error());
  store_.alone = lock->has_value();
  if (*lock) lock_.emplace(std::move(**lock));
}

std::optional<BrokerProgram::Endpoints> BrokerProgram::start(service::Host host) {
  http_.wait(config_, store_);
  auto store = open_store(host);
  if (!store) return std::nullopt;
  http_.load();
  settings::warn_of(settings::exposed_files());
  raise_descriptor_limit();
  // libzmq makes routing ids with rand(): they must not be guessable.
  std::srand(static_cast<unsigned>(entropy()));
  server_ = std::make_unique<io::Server>(
      config_.server, core_at_start(config_), std::move(store), host,
      io::Configuration{.reload = [this](const core::Options& now, const io::Objection& objection,
                                         io::ReloadMode mode) { return reload(now, objection, mode); },
                        .edit = edited,
                        .show = [this](const core::Options& now) { return shown_config(config_, now); },
                        .bank = bank_of(config_)},
      entropy());
  http_.serve(config_, *server_);
  return Endpoints{.clients = server_->clients_endpoint(),
                   .workers = server_->workers_endpoint(),
                   .admin = server_->admin_endpoint(),
                   .http = http_.url()};
}

/// Null: it was told to stop before it owned the store.
std::unique_ptr<io::Store> BrokerProgram::open_store(service::Host host) {
  io::StoreWait wait(
      host, [this](const io::StoreWaiting& seen) { http_.tell(seen); },
      [this] {
        const auto none = [](const core::Options&) { return std::string(); };  // nothing runs yet
        static_cast<void>(reload(config_.core, none, io::ReloadMode::apply));
      });
  io::StoreOptions options = store_;
  options.waiting = [&wait](const io::StoreWaiting& seen) { return wait.go_on(seen); };
  // A log that a crash has left is written to the store when that is opened.
  host.notifier.extend(kOpeningMax, "opens the store");
  make_store_folder(config_, options);
  make_operators_folder(config_);
  auto store = io::open_store(options);
  if (!store) refuse_store(store.error());
  return std::move(*store);
}

Result<io::Reloaded> BrokerProgram::reload(const core::Options& now, const io::Objection& objection,
                                           io::ReloadMode mode) {
  return program::reload(config_, read_again_, now, objection, mode,
                         [this](admin::HttpChange change) { http_.change(std::move(change)); });
}

}  // namespace lanemq::program
