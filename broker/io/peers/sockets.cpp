// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/sockets.hpp"

#include <algorithm>
#include <cstdint>

#include <sys/resource.h>

#include "broker/io/base/time_slice.hpp"
#include "broker/io/peers/stopped_inputs.hpp"
#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

/// Messages of one operator that wait to be read.
constexpr int kAdminReceiveHwm = 16;

/// The kernel's time slice for the loop and libzmq's threads. With the default a critical job would wait for
/// a slice at each step while bulk work keeps the cores busy.
constexpr auto kTimeSlice = std::chrono::microseconds(100);

/// Bytes of a frame beside the largest body: a header, or a body somewhat too large, which gets an answer
/// instead of a cut connection.
constexpr std::int64_t kFrameBytesSpare = 1 << 20;

/// Descriptors that are kept for everything but peers: the store, the log, processes that are watched.
constexpr std::size_t kDescriptorsKept = 512;

RouterOptions client_router(const ServerOptions& options, const core::Options& core) {
  return {.endpoint = options.clients,
          .receive_hwm = options.client_receive_hwm,
          .send_hwm = options.client_send_hwm,
          .frame_bytes_max = static_cast<std::int64_t>(core.body_bytes_max) + kFrameBytesSpare,
          .large_bytes_max = static_cast<std::int64_t>(options.client_large_bytes_max),
          .secret_key = options.secret_key,
          .zap_domain = std::string(name_of(Door::clients))};
}

RouterOptions worker_router(const ServerOptions& options, const core::Options& core) {
  return {.endpoint = options.workers,
          .receive_hwm = options.client_receive_hwm,
          // A worker holds at most capacity_max jobs. With as many messages again for the rest it never
          // reaches this mark.
          .send_hwm = 2 * static_cast<int>(limits::capacity_max),
          .frame_bytes_max = static_cast<std::int64_t>(core.body_bytes_max) + kFrameBytesSpare,
          .large_bytes_max = INT64_MAX,
          .secret_key = options.secret_key,
          .zap_domain = std::string(name_of(Door::workers))};
}

RouterOptions admin_router(const ServerOptions& options) {
  return {.endpoint = options.admin,
          .receive_hwm = kAdminReceiveHwm,
          .frame_bytes_max = kFrameBytesSpare,
          .large_bytes_max = INT64_MAX,
          .inner = options.has_http ? kOwnOperators : "",
          .private_file = true,
          .zap_domain = std::string(kOperatorsDomain)};
}

/// The bounds of each of the two sockets' connections: those of the options, as far as there are descriptors.
ConnectionBounds bounds_of(const ServerOptions& options, const core::Options& core) {
  rlimit files{};
  const std::size_t descriptors =
      ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? static_cast<std::size_t>(files.rlim_cur) : SIZE_MAX;
  const std::size_t for_peers = descriptors - std::min(descriptors / 2, kDescriptorsKept);
  const std::size_t connections = std::min(options.connections_max, std::max<std::size_t>(1, for_peers / 2));
  const std::size_t of_address = options.connections_per_address_max;
  return {.connections_max = connections,
          .per_address_max = of_address == 0 ? std::max<std::size_t>(1, connections / 4) : of_address,
          .message_bytes_max = core.body_bytes_max + kFrameBytesSpare,
          .receiving_bytes_max = options.receiving_bytes_max};
}

zmq::context_t make_context(int io_threads) {
  ask_for_time_slice(kTimeSlice);  // before the context starts its threads
  zmq::context_t context(io_threads);
  context.set(zmq::ctxopt::max_sockets, 1023);
  return context;
}

std::optional<Router> make_admin(zmq::context_t& context, const ServerOptions& options) try {
  if (options.admin.empty())
    throw BindError("",
                    "no folder of this user is known for its socket file: RUNTIME_DIRECTORY, "
                    "XDG_RUNTIME_DIR, XDG_STATE_HOME and HOME name none of its own");
  return std::optional<Router>(std::in_place, context, admin_router(options));
} catch (const BindError& error) {
  if (options.admin_required) throw;
  log::event(log::Level::warning, "admin.unavailable",
             {{"endpoint", options.admin.empty() ? "none" : options.admin},
              {"reason", error.reason()},
              {"do", "name a free endpoint with --admin; until then operators have none"}});
  if (!options.has_http) return std::nullopt;
  // They have HTTP: it needs no address.
  return std::optional<Router>(
      std::in_place, context,
      RouterOptions{
          .endpoint = kOwnOperators, .receive_hwm = kAdminReceiveHwm, .large_bytes_max = INT64_MAX});
}

}  // namespace

Sockets::Sockets(const ServerOptions& options, const core::Options& core)
    : context(make_context(options.io_threads)),
      keys(options.keys),
      asks_for_keys(!options.secret_key.empty()),
      door_check(context, keys, asks_for_keys),
      authorizer(keys, asks_for_keys),
      clients(context, client_router(options, core)),
      workers(context, worker_router(options, core)),
      admin(make_admin(context, options)),
      client_connections(context, clients.handle(), std::string(name_of(Door::clients)), asks_for_keys,
                         bounds_of(options, core)),
      worker_connections(context, workers.handle(), std::string(name_of(Door::workers)), asks_for_keys,
                         bounds_of(options, core)) {
  if (admin)
    admin_connections.emplace(context, admin->handle(), "admin", asks_for_keys, bounds_of(options, core));
  if (!guards_stopped_inputs())
    log::event(log::Level::warning, "libzmq.unguarded",
               {{"reason", "libzmq does not use epoll as expected, so a peer can end the broker"},
                {"do", "use Debian's libzmq"}});
}

void Sockets::set_linger(std::chrono::milliseconds time) {
  clients.set_linger(time);
  workers.set_linger(time);
  if (admin) admin->set_linger(time);
}

}  // namespace lanemq::io
