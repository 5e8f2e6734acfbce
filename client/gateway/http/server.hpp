// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/gateway/http/loop.hpp"
#include "client/gateway/http/message.hpp"
#include "client/gateway/http/router.hpp"

namespace lanemq::gateway {

/// What a server allows. Every bound has a name here.
struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: a free one

  /// For one more the oldest that has sent no whole head is closed, of those that never have before those
  /// that are kept between requests; where there is none, the new one.
  std::size_t connections_max = 16'384;
  std::size_t connections_per_address_max = 0;  ///< of one address, or IPv6 /64; 0: a quarter
  /// Addresses and networks of the proxies in front (Proxies): theirs have no share of connections, and it is
  /// they who say from which address a request comes.
  std::vector<std::string> proxies{};
  std::size_t header_bytes_max = std::size_t{32} * 1024;
  std::size_t body_bytes_max = std::size_t{32} * 1024 * 1024;  ///< where a route says nothing
  /// All bodies of requests that are read or worked on; a request over it is told to come again. One address,
  /// and one name that Route::admit says, may have a share of it (BytePot::kShares).
  std::size_t bodies_bytes_max = std::size_t{512} * 1024 * 1024;
  /// All bodies that are on their way to the disk or looked at there, in shares as well.
  std::size_t uploads_bytes_max = std::size_t{2} * 1024 * 1024 * 1024;
  /// All of answers that the system has not taken yet; over it the largest are cut first.
  std::size_t answers_bytes_max = std::size_t{512} * 1024 * 1024;

  std::chrono::milliseconds header_timeout{10'000};  ///< from a header's first byte (or the connection) on
  std::chrono::milliseconds body_idle_timeout{30'000};
  std::chrono::milliseconds body_timeout{600'000};  ///< a whole body, however it trickles
  /// What must come of a body that is under way in each body_rate_window; 0: anything will do.
  std::size_t body_bytes_per_second_min = 1'000;
  std::chrono::milliseconds body_rate_window{10'000};
  std::chrono::milliseconds idle_timeout{75'000};   ///< between requests
  std::chrono::milliseconds write_timeout{30'000};  ///< without a byte that came to the reader

  bool operator==(const ServerOptions&) const = default;
};

/// Raises the limit of open files of this process as far as so many connections need it. Returns how many of
/// them the system then allows. Throws std::runtime_error when that is none.
std::size_t reserve_connections(std::size_t wanted);

/// What a server refuses by itself, before there is a handler.
enum class Refusal : unsigned char {
  bad_request,  ///< no HTTP that can be read
  header_too_large,
  target_too_long,
  expectation_failed,
  not_implemented,  ///< a method or a coding
  version_not_supported,
  body_too_large,
  not_found,
  method_not_allowed,
  out_of_memory,  ///< bodies_bytes_max, or the caller's share of it
  disk_refuses,   ///< what was to be kept there
  failed,         ///< a handler threw or forgot the request
};

/// How a refusal reads; `request` has what is known of it, `detail` is a sentence.
using RefusalAnswer =
    std::function<HttpAnswer(Refusal refusal, const HttpRequest& request, std::string_view detail)>;

/// How often a route was answered with a status.
struct RouteAnswers {
  std::string method{}, route{};  ///< no method and the route `none`: there was no such route
  int status = 0;
  std::uint64_t count = 0;
};

/// Told of each connection that is closed over a bound: where it came from, and the name of the bound.
using OnRefused = std::function<void(std::string_view address, std::string_view bound)>;

/// Refuses a request by its head, whatever its route; empty: it may go on.
using Doorkeeper = std::function<std::optional<HttpAnswer>(const HttpRequest& head)>;

struct ServerCounters {
  std::vector<RouteAnswers> answers{};
  std::uint64_t connections = 0;  ///< now
  std::uint64_t newcomers = 0;    ///< connections that wait for their turn to be looked at, now
  std::uint64_t accepted = 0, refused = 0, gave_way = 0, requests = 0, bad_requests = 0, timeouts = 0,
                hang_ups = 0;
  std::uint64_t failures = 0;      ///< exceptions that were caught, each of which ended what it came from
  std::uint64_t body_bytes = 0;    ///< of requests, now
  std::uint64_t upload_bytes = 0;  ///< of bodies on the disk, now
  std::uint64_t answer_bytes = 0;  ///< that the system has not taken, now
  std::uint64_t answers_cut = 0;   ///< for answers_bytes_max
  std::chrono::nanoseconds longest_turn{0};  ///< of TurnClock
};

/// An HTTP/1.1 server on one thread: the one that calls run().
///
/// Connections are kept; requests on one connection are served one after the other, and what a caller sends
/// ahead waits. While a request is worked on the connection is watched: a caller that closes it, or its
/// sending half, is gone.
class HttpServer : public Loop {
 public:
  /// Binds and listens; throws std::runtime_error, which names the address and the reason.
  HttpServer(ServerOptions options, const Router& router, RefusalAnswer refusal_answer,
             Doorkeeper doorkeeper = {});
  ~HttpServer() override;

  std::uint16_t port() const;
  /// Serves until stop(). `on_stop` is called at SIGTERM and SIGINT, `on_reload` at SIGHUP, `on_failure` with
  /// the reason when something threw: that ends its connection, not the server. `on_refused`: OnRefused.
  void run(std::function<void()> on_stop, std::function<void()> on_reload,
           std::function<void(std::string_view)> on_failure = {}, OnRefused on_refused = {});
  /// Takes no more connections, and answers those that are kept with `connection: close`.
  void drain();
  /// Requests that are being read or worked on.
  std::size_t busy() const;
  /// Ends run() at once. From the loop's thread.
  void stop();

  void post(std::function<void()> work) override;
  std::unique_ptr<Timer> timer() override;
  std::unique_ptr<Watch> watch(int fd, std::function<void()> readable) override;
  void aside(Side side, std::function<void()> work, std::function<void()> then) override;
  TimePoint now() const override;

  ServerCounters counters() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace lanemq::gateway
