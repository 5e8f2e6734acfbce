// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include <lanemq/blob.hpp>

// A LoopClient without a socket, in place of the library's: of its parts the link alone is another one. All
// else is the library's own code, in the order in which its engine calls it.
namespace lanemq::costs {

/// The broker's end of the client that was made last.
struct StillWire {
  /// Hears each message that the client sends.
  std::function<void(std::string_view header, const Blob* body)> sent;
  /// Lets the client send, and tells its callers what has come.
  std::function<void()> process;
  /// The client hears a message, and tells its callers of it.
  std::function<void(std::string_view header)> hear;
};
StillWire& still_wire();

}  // namespace lanemq::costs
