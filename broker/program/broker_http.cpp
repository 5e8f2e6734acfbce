// SPDX-License-Identifier: Apache-2.0
#include "broker/program/broker_http.hpp"

#include <stdexcept>
#include <utility>

#include "broker/io/peers/router.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "broker/program/reload.hpp"
#include "common/http/server/listen.hpp"

namespace lanemq::program {

void BrokerHttp::wait(Config& config, const io::StoreOptions& store) try {
  if (!config.http.is_on || !io::has_owners(store)) return;
  instance_ = store.instance;
  shard_ = config.core.shard;
  waiting_ = std::make_unique<admin::CandidateHttp>(
      config.http, http_now(config),
      admin::Candidacy{.why = "it looks for its store's owner", .instance = instance_, .shard = shard_});
  // A port that the system has chosen stays.
  config.http.server.port = waiting_->port();
} catch (const std::runtime_error& error) {
  throw io::BindError("http " + http::listen_of(config.http.server), error.what());
}

void BrokerHttp::tell(const io::StoreWaiting& seen) {
  if (waiting_)
    waiting_->tell({.why = seen.why,
                    .instance = instance_,
                    .shard = shard_,
                    .owner = seen.owner,
                    .epoch = seen.epoch,
                    .since_commit = seen.stands});
}

void BrokerHttp::load() {
  if (waiting_)
    waiting_->tell({.owns = true,
                    .why = "it owns the store, and loads its jobs",
                    .instance = instance_,
                    .shard = shard_});
}

void BrokerHttp::serve(const Config& config, io::Server& server) {
  if (!config.http.is_on) return;
  admin::HttpChange now = http_now(config);
  waiting_.reset();
  try {
    serving_ =
        std::make_unique<admin::AdminHttp>(config.http, std::move(now), server.context(), io::kOwnOperators);
  } catch (const std::runtime_error& error) {
    throw io::BindError("http " + http::listen_of(config.http.server), error.what());
  }
}

void BrokerHttp::change(admin::HttpChange change) {
  if (serving_)
    serving_->change(std::move(change));
  else if (waiting_)
    waiting_->change(std::move(change));
}

}  // namespace lanemq::program
