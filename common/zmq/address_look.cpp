// SPDX-License-Identifier: Apache-2.0
#include "common/zmq/address_look.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/signals/signals_blocked.hpp"

namespace lanemq::socket {
namespace {

using Clock = std::chrono::steady_clock;

bool is_address(const std::string& name) {
  in6_addr address{};
  return inet_pton(AF_INET, name.c_str(), &address) == 1 || inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

/// The addresses of a name as endpoints, in an order that does not change from look to look. Empty: it is not
/// known now.
std::vector<std::string> addresses_of(const NamedEndpoint& of) {
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
    addresses.push_back(of.before + host + ":" + of.port);
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

std::atomic<int> looks_under_way = 0;

}  // namespace

/// Shared with the threads of its looks, which may end later than who began them.
struct AddressLook::Shared {
  struct Look {
    int under_way = 0;
    Clock::time_point begun{};             ///< the last
    std::vector<std::string> addresses{};  ///< found last
  };

  ~Shared() {
    if (timer >= 0) ::close(timer);
  }
  /// Has the timer fire after that time, at once for 0. Requires: the mutex is held.
  void arm(std::chrono::nanoseconds after) {
    after = std::max(after, std::chrono::nanoseconds(1));
    const auto whole = std::chrono::floor<std::chrono::seconds>(after);
    const itimerspec at{.it_interval = {},
                        .it_value = {.tv_sec = whole.count(), .tv_nsec = (after - whole).count()}};
    ::timerfd_settime(timer, 0, &at, nullptr);
    armed = true;
  }

  std::mutex mutex;
  std::map<std::string, Look> looks;  // by endpoint
  int timer = -1;
  bool armed = false;
};

AddressLook::AddressLook() : shared_(std::make_shared<Shared>()) {}
AddressLook::~AddressLook() = default;

void AddressLook::begin(const std::vector<std::string>& endpoints) {
  for (const std::string& endpoint : endpoints) {
    const std::optional<NamedEndpoint> named = named_endpoint(endpoint);
    if (!named) continue;
    {
      const std::lock_guard held(shared_->mutex);
      if (shared_->timer < 0) {
        shared_->timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (shared_->timer < 0)
          throw std::runtime_error("cannot make a timer; raise the limit of open files");
      }
      Shared::Look& look = shared_->looks[endpoint];
      const Clock::time_point now = Clock::now();
      if (look.under_way > 0 && now < look.begun + kAgainAfter) continue;
      ++look.under_way;
      look.begun = now;
      shared_->arm(kWithin);
    }
    const auto end = [shared = shared_, endpoint](std::vector<std::string> addresses) {
      const std::lock_guard held(shared->mutex);
      Shared::Look& look = shared->looks[endpoint];
      --look.under_way;
      if (!addresses.empty()) look.addresses = std::move(addresses);
      shared->arm(std::chrono::nanoseconds(0));
      --looks_under_way;
    };
    const SignalsBlocked meanwhile;
    try {
      if (++looks_under_way > kLooksMax)
        end({});
      else
        std::thread([named = *named, end] { end(addresses_of(named)); }).detach();
    } catch (const std::system_error&) {  // no room for a thread: it is as if nobody was there
      end({});
    }
  }
}

int AddressLook::fd() const {
  return shared_->timer;  // which this thread alone sets
}

void AddressLook::heed() {
  const std::lock_guard held(shared_->mutex);
  if (!shared_->armed) return;
  std::uint64_t fired = 0;
  if (::read(shared_->timer, &fired, sizeof fired) != sizeof fired) return;
  shared_->armed = false;
  const Clock::time_point now = Clock::now();
  std::optional<Clock::duration> next;
  for (const auto& [endpoint, look] : shared_->looks)
    if (look.under_way > 0 && look.begun + kWithin > now)
      next = std::min(look.begun + kWithin - now, next.value_or(kWithin));
  if (next) shared_->arm(*next);
}

bool AddressLook::awaits(const std::string& endpoint) const {
  const std::lock_guard held(shared_->mutex);
  const auto at = shared_->looks.find(endpoint);
  return at != shared_->looks.end() && at->second.under_way > 0 && Clock::now() < at->second.begun + kWithin;
}

std::vector<NamedAddresses> AddressLook::known() const {
  const std::lock_guard held(shared_->mutex);
  std::vector<NamedAddresses> all;
  for (const auto& [endpoint, look] : shared_->looks)
    if (!look.addresses.empty()) all.push_back({.endpoint = endpoint, .addresses = look.addresses});
  return all;
}

std::optional<NamedEndpoint> named_endpoint(std::string_view endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  constexpr int kPortMax = 65'535;
  if (!endpoint.starts_with(kTcp)) return std::nullopt;
  const std::size_t source = endpoint.find(';');
  const std::size_t begins = source == std::string_view::npos ? kTcp.size() : source + 1;
  const std::string_view rest = endpoint.substr(begins);
  const std::size_t colon = rest.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view name = rest.substr(0, colon), port = rest.substr(colon + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_plain = [&](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  const auto is_of_name = [&](char c) { return is_plain(c) || c == '.' || c == '-' || c == '_'; };
  if (name.empty() || !is_plain(name.front()) || !std::all_of(name.begin(), name.end(), is_of_name) ||
      port.empty() || port.size() > 5 || !std::all_of(port.begin(), port.end(), is_digit) ||
      std::stoi(std::string(port)) > kPortMax)
    return std::nullopt;
  NamedEndpoint of{.before = std::string(endpoint.substr(0, begins)),
                   .name = std::string(name),
                   .port = std::string(port)};
  if (is_address(of.name)) return std::nullopt;
  return of;
}

}  // namespace lanemq::socket
