// SPDX-License-Identifier: Apache-2.0
#include "broker/io/disconnects.hpp"

#include <algorithm>

namespace lanemq::io {

void Disconnects::watch(int descriptor, std::string_view address) {
  // An end that is known so far was of an earlier connection with the same descriptor.
  read();
  if (descriptor < 0) return;
  std::vector<std::string>& addresses = watched_[descriptor];
  if (std::find(addresses.begin(), addresses.end(), address) != addresses.end()) return;
  if (addresses.size() == kAddressesMax) addresses.erase(addresses.begin());
  addresses.emplace_back(address);
}

void Disconnects::read() {
  while (const auto event = monitor_.next()) {
    const int descriptor = event->value;
    const auto place = watched_.find(descriptor);
    if (event->number != ZMQ_EVENT_DISCONNECTED || place == watched_.end()) continue;
    gone_.insert(gone_.end(), place->second.begin(), place->second.end());
    watched_.erase(place);
  }
}

}  // namespace lanemq::io
