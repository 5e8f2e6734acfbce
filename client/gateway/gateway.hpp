// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lanemq/client.hpp>

#include "client/gateway/access.hpp"
#include "client/gateway/http/loop.hpp"
#include "client/gateway/http/router.hpp"
#include "client/gateway/settings.hpp"

namespace lanemq::gateway {

/// What all routes share. Lives as long as the program; everything but the client belongs to the loop's
/// thread. The client's callbacks come on the client's thread: hand over with loop.post().
struct Gateway {
  const Settings& settings;
  Loop& loop;
  Client& broker;
  const Access& access;

  bool draining = false;  ///< new work is refused
};

}  // namespace lanemq::gateway
