// SPDX-License-Identifier: Apache-2.0
#include "broker/io/loop/server.hpp"

#include "broker/io/loop/loop.hpp"

namespace lanemq::io {

Server::Server(const ServerOptions& options, const core::Options& core_options, std::unique_ptr<Store> store,
               service::Host host, Configuration configuration, std::uint64_t seed)
    : loop_(std::make_unique<Loop>(options, core_options, std::move(store), host, std::move(configuration),
                                   seed)) {}

Server::~Server() = default;

std::string Server::clients_endpoint() const {
  return loop_->sockets().clients.endpoint();
}

std::string Server::workers_endpoint() const {
  return loop_->sockets().workers.endpoint();
}

std::string Server::admin_endpoint() const {
  const auto& admin = loop_->sockets().admin;
  return admin && admin->endpoint() != kOwnOperators ? admin->endpoint() : std::string();
}

zmq::context_t& Server::context() {
  return loop_->sockets().context;
}

int Server::run() {
  return loop_->run();
}

}  // namespace lanemq::io
