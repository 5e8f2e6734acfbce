// SPDX-License-Identifier: Apache-2.0
#include "broker/io/desks/key_desk.hpp"

#include <utility>

#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

constexpr std::string_view kWhy = "the key of this connection does not count any more";

/// Tells a peer why, and that nothing follows.
template <class Farewell>
void shut_out(Router& router, const std::string& address, std::string_view code) {
  Farewell farewell;
  farewell.code = code;
  farewell.message = kWhy;
  Buffer header;
  encode(farewell, header);
  router.send(address, {}, header.view(), {});
  router.shut_out(address);
}

}  // namespace

void KeyDesk::replace(std::vector<PeerKey> keys, core::TimePoint now) {
  for (const std::string& key : sockets_.keys.replace(std::move(keys)))
    take_back(key, Why::left_out, now);
}

void KeyDesk::expire(core::TimePoint now) {
  if (!has_keys() || now - looked_at_ < kLookEvery) return;
  looked_at_ = now;
  for (const std::string& key : sockets_.keys.take_expired(std::chrono::system_clock::now()))
    take_back(key, Why::expired, now);
}

/// Peers that have shown the key get nothing from now on, and their workers' jobs go elsewhere.
void KeyDesk::take_back(const std::string& key, Why why, core::TimePoint now) {
  std::size_t connections = 0;
  broker_.connections().each_of_key(key, [&](const core::Connection& connection) {
    shut_out<wire::ErrorReply>(sockets_.clients, connection.address, name_of(ErrorCode::unauthorized));
    ++connections;
  });
  for (const auto& [number, worker] : broker_.workers().all()) {
    if (worker->key != key) continue;
    shut_out<wire::WorkerRefusal>(sockets_.workers, worker->address, name_of(RefusalCode::unauthorized));
    ++connections;
  }
  broker_.handle(core::KeyRevoked{key}, now);
  log::event(log::Level::warning, why == Why::expired ? "peer.key_expired" : "peer.key_revoked",
             {{"key", key}, {"connections", connections}});
}

}  // namespace lanemq::io
