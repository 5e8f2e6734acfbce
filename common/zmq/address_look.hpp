// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/endpoints.hpp>

namespace lanemq::socket {

/// Looks up the addresses behind the names of endpoints, each on a thread of its own. libzmq would look them
/// up on the one thread that moves all messages of its context, where a DNS server that does not answer holds
/// up each connection; and it goes to the first address alone, also where nobody listens there. Belongs to
/// one thread.
class AddressLook {
 public:
  /// A name without an answer after that time counts as one where nobody is; its look goes on.
  static constexpr std::chrono::milliseconds kWithin{1'000};
  /// A look that takes longer has another one beside it: the server that does not answer may answer the next
  /// question at once.
  static constexpr std::chrono::milliseconds kAgainAfter{6'000};
  /// Looks under way in this process; beyond that a name counts as one where nobody is.
  static constexpr int kLooksMax = 64;

  AddressLook();
  ~AddressLook();
  AddressLook(const AddressLook&) = delete;
  AddressLook& operator=(const AddressLook&) = delete;

  /// Begins to look up each name among these, but for those whose look is under way, and not for longer than
  /// kAgainAfter. Nobody can break off a resolver: a look that is under way at the end is left alone. Throws
  /// std::runtime_error where no descriptors are left.
  void begin(const std::vector<std::string>& endpoints);
  /// Readable when a look has ended, or is late; -1: there was no name so far. Once there is one it stays.
  int fd() const;
  /// To be called when fd() is readable, and harmless at other times: it is not readable until there is news.
  void heed();
  /// Whether the endpoint's name is being looked up, and not for longer than kWithin.
  bool awaits(const std::string& endpoint) const;
  /// The addresses of all names that were found; of a name that is not found any more the last ones.
  std::vector<NamedAddresses> known() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// An endpoint `tcp://NAME:PORT`, or `tcp://SOURCE;NAME:PORT`.
struct NamedEndpoint {
  std::string before;  ///< `tcp://`, and the source where it has one
  std::string name, port;
};
/// None: there is no name in it to look up, as in an address; or libzmq may not take it.
std::optional<NamedEndpoint> named_endpoint(std::string_view endpoint);

}  // namespace lanemq::socket
