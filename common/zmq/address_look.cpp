// SPDX-License-Identifier: Apache-2.0
#include "common/zmq/address_look.hpp"

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include "common/signals/signals_blocked.hpp"

namespace lanemq::socket {
namespace {

bool is_address(const std::string& name) {
  in6_addr address{};
  return inet_pton(AF_INET, name.c_str(), &address) == 1 || inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

/// The addresses of a name as endpoints, in an order that does not change from look to look. Empty: it is not
/// known now.
std::vector<std::string> addresses_of(const NameAndPort& of) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  if (getaddrinfo(of.name.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    const std::string host = one->ai_family == AF_INET6 ? "[" + std::string(text) + "]" : text;
    addresses.push_back("tcp://" + host + ":" + of.port);
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

}  // namespace

struct AddressLook::Shared {
  std::mutex mutex;
  bool runs = false;
  std::optional<std::vector<NamedAddresses>> found;
};

AddressLook::AddressLook() : shared_(std::make_shared<Shared>()) {}
AddressLook::~AddressLook() = default;

void AddressLook::begin(const std::vector<std::string>& endpoints) {
  std::vector<std::string> named;
  for (const std::string& endpoint : endpoints)
    if (name_and_port(endpoint)) named.push_back(endpoint);
  if (named.empty()) return;
  {
    const std::lock_guard held(shared_->mutex);
    if (std::exchange(shared_->runs, true)) return;
  }
  const SignalsBlocked meanwhile;
  // Nobody can break off a resolver, so nobody waits for it.
  try {
    std::thread([shared = shared_, named = std::move(named)] {
      std::vector<NamedAddresses> found;
      for (const std::string& endpoint : named)
        found.push_back({.endpoint = endpoint, .addresses = addresses_of(*name_and_port(endpoint))});
      const std::lock_guard held(shared->mutex);
      shared->found = std::move(found);
      shared->runs = false;
    }).detach();
  } catch (const std::system_error&) {  // no room for a thread: the name stays a name until the next time
    const std::lock_guard held(shared_->mutex);
    shared_->runs = false;
  }
}

std::optional<std::vector<NamedAddresses>> AddressLook::take() {
  const std::lock_guard held(shared_->mutex);
  return std::exchange(shared_->found, std::nullopt);
}

std::optional<NameAndPort> name_and_port(std::string_view endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  if (!endpoint.starts_with(kTcp)) return std::nullopt;
  endpoint.remove_prefix(kTcp.size());
  // With `;` it also says by which address of this machine to go.
  const std::size_t colon = endpoint.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || endpoint.find(';') != std::string_view::npos ||
      endpoint.front() == '[')
    return std::nullopt;
  NameAndPort of{.name = std::string(endpoint.substr(0, colon)),
                 .port = std::string(endpoint.substr(colon + 1))};
  if (is_address(of.name)) return std::nullopt;
  return of;
}

}  // namespace lanemq::socket
