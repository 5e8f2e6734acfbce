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

#include "common/http/server/base/loop.hpp"
#include "common/http/server/base/message.hpp"
#include "common/http/server/base/tls.hpp"
#include "common/http/server/router.hpp"

namespace lanemq::http {

/// A server's bounds.
struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: the system chooses

  /// For one connection more the oldest is closed that has sent no complete head: first of those without a
  /// request so far, then of those kept between requests. If there is none the new one is closed.
  std::size_t connections_max = 16'384;
  std::size_t connections_per_address_max = 0;  ///< per IPv4 address or IPv6 /64; 0: a quarter
  /// Addresses and networks of trusted proxies (Proxies). Their connections have no share; they tell from
  /// which address a request comes.
  std::vector<std::string> proxies{};
  std::size_t header_bytes_max = std::size_t{32} * 1024;
  std::size_t body_bytes_max = std::size_t{32} * 1024 * 1024;  ///< for routes without a bound
  /// Bytes of all requests' bodies in memory; a request beyond it is told to retry. An address, and a name
  /// from Route::admit, may have a share of it (BytePot::kShares).
  std::size_t bodies_bytes_max = std::size_t{512} * 1024 * 1024;
  /// Bytes of all bodies that are written to the disk or read there; shared likewise.
  std::size_t uploads_bytes_max = std::size_t{2} * 1024 * 1024 * 1024;
  /// Bytes of answers that the system has not accepted; beyond it the largest are cut first.
  std::size_t answers_bytes_max = std::size_t{512} * 1024 * 1024;

  std::chrono::milliseconds header_timeout{10'000};  ///< from a head's first byte (or the connection)
  std::chrono::milliseconds body_idle_timeout{30'000};
  std::chrono::milliseconds body_timeout{600'000};  ///< of a whole body, however slow
  /// The least rate of a body in each body_rate_window; 0: none.
  std::size_t body_bytes_per_second_min = 1'000;
  std::chrono::milliseconds body_rate_window{10'000};
  std::chrono::milliseconds idle_timeout{75'000};   ///< between requests
  std::chrono::milliseconds write_timeout{30'000};  ///< without a byte reaching the reader

  bool operator==(const ServerOptions&) const = default;
};

/// Raises this process's limit of descriptors for `wanted` connections. Returns how many the system allows.
/// Throws std::runtime_error where that is 0.
std::size_t reserve_connections(std::size_t wanted);

/// Why the server itself refuses a request.
enum class Refusal : unsigned char {
  bad_request,  ///< unreadable HTTP
  header_too_large,
  target_too_long,
  expectation_failed,
  not_implemented,  ///< an unknown method or coding
  version_not_supported,
  body_too_large,
  not_found,
  method_not_allowed,
  out_of_memory,  ///< bodies_bytes_max, or the caller's share of it
  disk_refuses,   ///< the disk refused the body
  failed,         ///< a handler threw, or dropped the request
};

/// The status for it, where a program has no other wish.
constexpr int status_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::bad_request:
      return 400;
    case Refusal::header_too_large:
      return 431;
    case Refusal::target_too_long:
      return 414;
    case Refusal::expectation_failed:
      return 417;
    case Refusal::not_implemented:
      return 501;
    case Refusal::version_not_supported:
      return 505;
    case Refusal::body_too_large:
      return 413;
    case Refusal::not_found:
      return 404;
    case Refusal::method_not_allowed:
      return 405;
    case Refusal::out_of_memory:
    case Refusal::disk_refuses:
      return 503;
    case Refusal::failed:
      break;
  }
  return 500;
}

/// Makes the answer of a refusal. `request`: what is known of it; `detail`: a sentence.
using RefusalAnswer =
    std::function<HttpAnswer(Refusal refusal, const HttpRequest& request, std::string_view detail)>;

/// How often a route answered with a status.
struct RouteAnswers {
  std::string method{}, route{};  ///< no method and the route `none`: there was no route
  int status = 0;
  std::uint64_t count = 0;
};

/// Called for each connection that is closed over a bound, with the bound's name.
using OnRefused = std::function<void(std::string_view address, std::string_view bound)>;

/// Refuses a request by its head, whatever its route; empty: it may go on.
using Doorkeeper = std::function<std::optional<HttpAnswer>(const HttpRequest& head)>;

struct ServerCounters {
  std::vector<RouteAnswers> answers{};
  std::uint64_t connections = 0;  ///< now
  std::uint64_t newcomers = 0;    ///< now: connections that wait to be read first
  std::uint64_t accepted = 0, refused = 0, gave_way = 0, requests = 0, bad_requests = 0, timeouts = 0,
                hang_ups = 0;
  std::uint64_t handshaking = 0;                        ///< now: of TLS
  std::uint64_t handshakes = 0, handshakes_failed = 0;  ///< of TLS
  std::uint64_t failures = 0;                ///< exceptions that were caught; each ended what it came from
  std::uint64_t body_bytes = 0;              ///< now: of requests in memory
  std::uint64_t upload_bytes = 0;            ///< now: of bodies on disk
  std::uint64_t answer_bytes = 0;            ///< now: not accepted by the system
  std::uint64_t answers_cut = 0;             ///< because of answers_bytes_max
  std::chrono::nanoseconds longest_turn{0};  ///< as TurnClock measures it
};

/// An HTTP/1.1 server on one thread, the one that calls run().
///
/// Connections are kept; requests on one are served one after the other, and what a caller sends ahead waits.
/// While a request is served its connection is watched: a caller that closes it, or its sending half, has
/// left.
/// A request that is over.
struct Answered {
  const HttpRequest& request;  ///< without its body and most of its header
  int status = 0;              ///< 0: its caller left before
  bool whole = true;           ///< the answer was not cut off, by its caller or by the server
  std::string_view request_id;
  std::chrono::milliseconds took;  ///< from when the request was whole
  const AnswerFacts& facts;
};
/// On the loop's thread, within the call that ends the answer; must not block or throw.
using OnAnswered = std::function<void(const Answered&)>;

class HttpServer : public Loop {
 public:
  /// Binds and listens; throws std::runtime_error with the address and the reason.
  HttpServer(ServerOptions options, const Router& router, RefusalAnswer refusal_answer,
             Doorkeeper doorkeeper = {});
  ~HttpServer() override;

  std::uint16_t port() const;
  /// Connections to come speak TLS under this identity; those that are there go on as they began. Before
  /// run(), or on the loop's thread.
  void encrypt(std::shared_ptr<const TlsIdentity> identity);
  /// Refusals see these header fields, and those of traces, of a request that its handler has already. Before
  /// run().
  void keep_headers(std::vector<std::string> names);
  /// Called for each request that is over, those that were refused as well. Before run().
  void on_answered(OnAnswered answered);
  /// Serves until stop(). Calls `on_failure` with the reason of an exception, which ends its connection and
  /// not the server.
  void run(std::function<void(std::string_view)> on_failure = {}, OnRefused on_refused = {});
  /// Accepts no more connections; answers requests on kept ones with `connection: close`.
  void drain();
  /// Requests that are read or served.
  std::size_t busy() const;
  std::size_t connections() const;
  /// Ends run() at once. On the loop's thread.
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

}  // namespace lanemq::http
