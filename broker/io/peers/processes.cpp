// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/processes.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lanemq/process_name.hpp>

namespace lanemq::io {
namespace {

/// Events that are read at once.
constexpr int kEventsMax = 64;

}  // namespace

Processes::Processes() : own_(process_name()), poll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (poll_ < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

Processes::~Processes() {
  for (const auto& [number, process] : processes_)
    ::close(process.descriptor);
  ::close(poll_);
}

void Processes::watch(std::string_view name, std::string_view address,
                      const std::function<bool(const std::string&)>& is_known) {
  forget(address);
  const auto number = process_beside(own_, name);
  if (!number) return;
  if (processes_.size() >= kProcessesMax || by_address_.size() >= kAddressesMax) forget_unknown(is_known);
  if (by_address_.size() >= kAddressesMax) return;
  auto place = processes_.find(*number);
  if (place == processes_.end()) {
    if (processes_.size() >= kProcessesMax) return;
    const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, *number, 0));
    if (descriptor < 0) return;
    epoll_event wanted{.events = EPOLLIN, .data = {.fd = *number}};
    if (::epoll_ctl(poll_, EPOLL_CTL_ADD, descriptor, &wanted) != 0) {
      ::close(descriptor);
      return;
    }
    place = processes_.emplace(*number, Process{.descriptor = descriptor, .addresses = {}}).first;
  }
  // The worker is not at the addresses it had before its connection was lost.
  for (const std::string& earlier : place->second.addresses)
    if (!is_known(earlier)) by_address_.erase(earlier);
  std::erase_if(place->second.addresses, [&](const std::string& one) { return !by_address_.contains(one); });
  place->second.addresses.emplace_back(address);
  by_address_[std::string(address)] = *number;
}

void Processes::forget_unknown(const std::function<bool(const std::string&)>& is_known) {
  std::vector<std::string> unknown;
  for (const auto& [address, number] : by_address_)
    if (!is_known(address)) unknown.push_back(address);
  for (const std::string& address : unknown)
    forget(address);
}

core::WorkerDisconnected::Process Processes::of(std::string_view address) const {
  using Of = core::WorkerDisconnected::Process;
  const auto place = by_address_.find(address);
  if (place == by_address_.end()) return Of::unknown;
  return place->second == 0 ? Of::ended : Of::lives;
}

void Processes::forget(std::string_view address) {
  const auto place = by_address_.find(address);
  if (place == by_address_.end()) return;
  const int number = place->second;
  by_address_.erase(place);
  const auto process = processes_.find(number);
  if (process == processes_.end()) return;
  std::erase(process->second.addresses, address);
  if (process->second.addresses.empty()) close(number);
}

void Processes::close(int number) {
  const auto process = processes_.find(number);
  ::close(process->second.descriptor);  // epoll forgets the descriptor then
  processes_.erase(process);
}

void Processes::read() {
  epoll_event events[kEventsMax];
  const int count = ::epoll_wait(poll_, events, kEventsMax, 0);
  for (int i = 0; i < count; ++i) {
    const auto process = processes_.find(events[i].data.fd);
    if (process == processes_.end()) continue;
    for (const std::string& address : process->second.addresses) {
      by_address_[address] = 0;
      ended_.push_back(address);
    }
    close(events[i].data.fd);
  }
}

}  // namespace lanemq::io
