// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/endpoints.hpp>

namespace lanemq::socket {

/// Looks up the addresses behind the names of endpoints, on a thread of its own: a resolver may take seconds,
/// and libzmq itself goes to the first address alone, also where nobody listens there. Belongs to one thread.
class AddressLook {
 public:
  AddressLook();
  ~AddressLook();
  AddressLook(const AddressLook&) = delete;
  AddressLook& operator=(const AddressLook&) = delete;

  /// Begins to look up the names among these, unless there is none, or a look is under way. A look that is
  /// under way at the end is left alone.
  void begin(const std::vector<std::string>& endpoints);
  /// What the last look has found, once; none: nothing since the last call.
  std::optional<std::vector<NamedAddresses>> take();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// The name and the port of `tcp://NAME:PORT`; none: it has no name that could be looked up, as an address.
struct NameAndPort {
  std::string name, port;
};
std::optional<NameAndPort> name_and_port(std::string_view endpoint);

}  // namespace lanemq::socket
