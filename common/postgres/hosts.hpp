// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace lanemq::postgres {

/// What a connection string sets, by keyword.
using Words = std::map<std::string, std::string>;

/// The words for each host that a connection string names, in its order; later ones than the first
/// kHostsMax are not tried. libpq goes on to the next host itself, but only where the one before cannot be
/// reached: not where what stands before a server that is gone, as a load balancer or a tunnel, accepts a
/// connection and closes it, nor where the server has no connection left. Hosts and ports that do not fit
/// together stay as they are, for libpq to say so. Pure.
std::vector<Words> each_host(const Words& words);
inline constexpr std::size_t kHostsMax = 16;

}  // namespace lanemq::postgres
