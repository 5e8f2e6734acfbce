// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/server.hpp"

#include <algorithm>
#include <ctime>
#include <stdexcept>
#include <utility>

#include <boost/asio/post.hpp>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include "common/http/server/base/asio_loop.hpp"
#include "common/http/server/connection.hpp"
#include "common/http/server/server_core.hpp"

namespace lanemq::http {
namespace {

using std::chrono::milliseconds;

/// Descriptors besides connections: standard streams, epoll, the broker's connection, batches' files.
constexpr std::size_t kFilesBeside = 256;
constexpr std::size_t kAddressShares = 4;  ///< an address's default share of the connections
constexpr milliseconds kSweepEvery{250};   ///< connections' timeouts may be so late
/// New connections that one turn accepts, and that it begins to read, address by address. The system's queue
/// does not know addresses, so fewer are read while it holds more.
constexpr int kAcceptsPerTurn = 32, kBeginningsPerTurn = 16, kBeginningsWhileBehind = 8;
/// TLS handshakes that one turn begins: each takes up to a millisecond; and that are under way at once.
constexpr int kHandshakesPerTurn = 4;
constexpr std::size_t kHandshakesMax = 1'024;
constexpr milliseconds kAcceptPause{50};  ///< after the system had no descriptor for a connection
constexpr int kProbeAfterSeconds =
    60;  ///< of silence, before the kernel probes whether the peer's machine is there
/// What the system accepts ahead of the reader. Else it would hold megabytes for each of many slow readers,
/// and report room only after a third was read.
constexpr int kUnsentBytesMax = 128 * 1024;

/// Options that connections inherit: setting them on each would add a quarter to its cost.
void set_options(tcp::acceptor& acceptor) {
  using asio::detail::socket_option::integer;
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  acceptor.set_option(tcp::no_delay(true));
  acceptor.set_option(asio::socket_base::keep_alive(true));
  acceptor.set_option(integer<IPPROTO_TCP, TCP_KEEPIDLE>(kProbeAfterSeconds));
  acceptor.set_option(integer<IPPROTO_TCP, TCP_NOTSENT_LOWAT>(kUnsentBytesMax));
}

}  // namespace

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

// ---- the listener -------------------------------------------------------------------------------------

HttpServer::Core::Core(ServerOptions server_options, const Router& routes, RefusalAnswer answer,
                       Doorkeeper keeper)
    : options(std::move(server_options)),
      proxies(options.proxies),
      router(routes),
      refusal_answer(std::move(answer)),
      doorkeeper(std::move(keeper)),
      body_bytes(std::make_shared<BytePot>(options.bodies_bytes_max)),
      upload_bytes(std::make_shared<BytePot>(options.uploads_bytes_max)) {
  const auto post = [this](std::function<void()> work) {
    asio::post(context, [this, work = std::move(work)] {
      const TurnClock::Turn noted(turns);
      work();
    });
  };
  for (std::unique_ptr<SideThread>& side : sides_)
    side = std::make_unique<SideThread>(post);
}

void HttpServer::Core::listen() {
  error_code error;
  const auto address = asio::ip::make_address(options.address, error);
  if (error)
    throw std::runtime_error("cannot listen on \"" + options.address +
                             "\": give a numeric address, like 127.0.0.1 or ::1");
  const tcp::endpoint endpoint(address, options.port);
  try {
    acceptor.open(endpoint.protocol());
    set_options(acceptor);
    acceptor.bind(endpoint);
    acceptor.listen(tcp::acceptor::max_listen_connections);
    acceptor.non_blocking(true);
  } catch (const boost::system::system_error& failed) {
    throw std::runtime_error("cannot listen on " + options.address + ":" + std::to_string(options.port) +
                             ": " + failed.code().message() +
                             "; choose another address, or port 0 for a free one");
  }
}

void HttpServer::Core::accept() {
  acceptor.async_accept(
      door_.from, [this](error_code error, tcp::socket socket) { on_accept(error, std::move(socket)); });
}

/// Takes a place for a connection; one through a trusted proxy has no share, since all of these have one
/// address.
std::string_view HttpServer::Core::take_place(std::string_view address, const std::string& whose) {
  const std::size_t most = options.connections_per_address_max > 0
                               ? options.connections_per_address_max
                               : std::max<std::size_t>(options.connections_max / kAddressShares, 1);
  const auto at = per_address.find(whose);
  if (at != per_address.end() && at->second >= most && !proxies.trusts(address))
    return "connections_per_address_max";
  if (connections.size() + door_.line.size() >= options.connections_max && !make_room())
    return "connections_max";
  ++per_address[whose];
  return {};
}

/// Closes a connection without a complete request: it loses least, since an SDK sends its head with the first
/// packet.
bool HttpServer::Core::make_room() {
  for (const std::list<Connection*>* waiting : {&before_first, &between}) {
    if (waiting->empty()) continue;
    ++counters.gave_way;
    const std::shared_ptr<Connection> oldest = waiting->front()->shared_from_this();
    oldest->guarded([&] { oldest->close(); });
    return true;
  }
  return false;
}

void HttpServer::Core::on_accept(error_code error, tcp::socket socket) {
  if (error == asio::error::operation_aborted || draining) return;
  if (error) {
    // Most likely there is no descriptor left; retrying at once would spin.
    accept_pause_.expires_after(kAcceptPause);
    accept_pause_.async_wait([this](error_code stopped) {
      if (!stopped && !draining) accept();
    });
    return;
  }
  const TurnClock::Turn noted(turns);
  take(std::move(socket));
  door_.more_outside = true;
  for (int taken = 1; taken < kAcceptsPerTurn && door_.more_outside; ++taken) {
    error_code none;
    tcp::socket next(context);
    acceptor.accept(next, door_.from, none);
    if (none)
      door_.more_outside = false;  // the next wait reports the error
    else
      take(std::move(next));
  }
  accept();
}

void HttpServer::Core::take(tcp::socket socket) {
  std::string address = door_.from.address().to_string();
  std::string whose = whose_address(address);
  if (const std::string_view bound = take_place(address, whose); !bound.empty()) {
    ++counters.refused;
    if (on_refused) on_refused(address, bound);
    error_code ignored;
    socket.set_option(tcp::socket::linger(true, 0), ignored);  // a reset costs less than an orderly end
    return;
  }
  ++counters.accepted;
  door_.line.push(whose, {.socket = std::move(socket), .address = std::move(address), .whose = whose});
  if (!std::exchange(door_.opens_soon, true)) asio::post(context, [this] { begin_some(); });
}

/// Addresses take turns, so that many connections of one delay those of others by one at most.
void HttpServer::Core::begin_some() {
  const TurnClock::Turn noted(turns);
  door_.opens_soon = false;
  const int most = door_.more_outside ? kBeginningsWhileBehind : kBeginningsPerTurn;
  for (int begun = 0; begun < most; ++begun) {
    std::optional<Newcomer> next = door_.line.pop();
    if (!next) return;
    try {
      const auto connection = std::make_shared<Connection>(*this, std::move(next->socket),
                                                           std::move(next->address), std::move(next->whose));
      connection->guarded([&] { connection->start(); });
    } catch (const std::exception& failed) {
      note_failure(failed.what());
    }
  }
  door_.opens_soon = true;
  asio::post(context, [this] { begin_some(); });
}

void HttpServer::Core::shake_hands_soon(std::shared_ptr<Connection> connection) {
  const std::string whose = connection->whose_;
  greeting_.push(whose, std::move(connection));
  if (!std::exchange(greets_soon_, true)) asio::post(context, [this] { shake_some_hands(); });
}

/// Addresses take turns, and everything else that is due comes between two of these.
void HttpServer::Core::shake_some_hands() {
  const TurnClock::Turn noted(turns);
  greets_soon_ = false;
  for (int begun = 0; begun < kHandshakesPerTurn; ++begun) {
    const std::optional<std::shared_ptr<Connection>> next = greeting_.pop();
    if (!next) return;
    (*next)->guarded([&] { (*next)->shake_hands(); });
  }
  greets_soon_ = true;
  asio::post(context, [this] { shake_some_hands(); });
}

void HttpServer::Core::begin_handshake(Connection& connection) {
  if (handshakes.size() >= kHandshakesMax) {
    ++counters.gave_way;
    const std::shared_ptr<Connection> oldest = handshakes.front()->shared_from_this();
    oldest->guarded([&] { oldest->close(); });
  }
  connection.handshake_.take(handshakes, &connection);
}

/// An exception of a timer or of the broker's answer, outside a connection, ends that call alone.
void HttpServer::Core::run() {
  while (true) {
    try {
      context.run();
      return;
    } catch (const std::exception& error) {
      note_failure(error.what());
    } catch (...) {
      note_failure("something that is no std::exception");
    }
  }
}

void HttpServer::Core::aside(Loop::Side side, std::function<void()> work, std::function<void()> then) {
  const std::unique_ptr<SideThread>& thread = sides_[static_cast<std::size_t>(side)];
  if (thread) thread->run(std::move(work), std::move(then));
}

void HttpServer::Core::note_failure(std::string_view reason) {
  ++counters.failures;
  if (on_failure) on_failure(reason);
}

void HttpServer::Core::write_soon(std::shared_ptr<Connection> connection) {
  writing_.push_back(std::move(connection));
  if (writing_.size() == 1) asio::post(context, [this] { write_all(); });
}

void HttpServer::Core::write_all() {
  const TurnClock::Turn noted(turns);
  written_.swap(writing_);  // connections added meanwhile wait for the next turn
  for (const std::shared_ptr<Connection>& connection : written_)
    connection->guarded([&] { connection->write_some(); });
  written_.clear();
}

void HttpServer::Core::count_answer_bytes(std::ptrdiff_t bytes) {
  answer_bytes_ = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(answer_bytes_) + bytes);
  if (answer_bytes_ <= options.answers_bytes_max || std::exchange(cutting_soon_, true)) return;
  // After the writes that are due, which may make enough room.
  asio::post(context, [this] { cut_largest_answers(); });
}

/// Cuts the largest answers, which take the most room from others.
void HttpServer::Core::cut_largest_answers() {
  const TurnClock::Turn noted(turns);
  cutting_soon_ = false;
  if (answer_bytes_ <= options.answers_bytes_max) return;
  std::vector<std::shared_ptr<Connection>> largest = held_connections();
  std::erase_if(largest, [](const auto& connection) { return connection->unwritten() == 0; });
  std::sort(largest.begin(), largest.end(),
            [](const auto& a, const auto& b) { return a->unwritten() > b->unwritten(); });
  for (const std::shared_ptr<Connection>& connection : largest) {
    if (answer_bytes_ <= options.answers_bytes_max) return;
    ++counters.answers_cut;
    connection->guarded([&] { connection->end(); });
  }
}

void HttpServer::Core::sweep_later() {
  sweep_timer_.expires_after(kSweepEvery);
  sweep_timer_.async_wait([this](error_code error) {
    if (error) return;
    const TurnClock::Turn noted(turns);
    sweep_later();
    date = http_date();
    const TimePoint now = std::chrono::steady_clock::now();
    for (const std::shared_ptr<Connection>& connection : held_connections())
      connection->guarded([&] { connection->sweep(now); });
  });
}

/// Ends open connections as if their callers had left.
void HttpServer::Core::close_all() {
  draining = true;
  error_code ignored;
  acceptor.close(ignored);
  sweep_timer_.cancel();
  accept_pause_.cancel();
  for (const std::shared_ptr<Connection>& connection : held_connections())
    connection->guarded([&] { connection->end(); });
  door_.line.clear();
  greeting_.clear();
  // Their work may hold references to this.
  for (std::unique_ptr<SideThread>& side : sides_)
    side.reset();
  context.restart();
  context.poll();
}

std::vector<std::shared_ptr<HttpServer::Core::Connection>> HttpServer::Core::held_connections() const {
  std::vector<std::shared_ptr<Connection>> held;
  held.reserve(connections.size());
  for (Connection* connection : connections)
    if (std::shared_ptr<Connection> alive = connection->weak_from_this().lock())
      held.push_back(std::move(alive));
  return held;
}

// ---- the face -----------------------------------------------------------------------------------------

std::size_t reserve_connections(std::size_t wanted) {
  const rlim_t needed = wanted + kFilesBeside;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur >= needed) return wanted;
  const rlim_t granted = std::min(files.rlim_max, needed);
  if (granted <= kFilesBeside)
    throw std::runtime_error("the system grants " + std::to_string(files.rlim_max) +
                             " open files, and this takes over " + std::to_string(kFilesBeside) +
                             "; raise the limit (ulimit -Hn, LimitNOFILE=)");
  files.rlim_cur = granted;
  ::setrlimit(RLIMIT_NOFILE, &files);
  return granted - kFilesBeside;
}

HttpServer::HttpServer(ServerOptions options, const Router& router, RefusalAnswer refusal_answer,
                       Doorkeeper doorkeeper)
    : core_(std::make_shared<Core>(std::move(options), router, std::move(refusal_answer),
                                   std::move(doorkeeper))) {
  core_->listen();
}

HttpServer::~HttpServer() = default;

void HttpServer::keep_headers(std::vector<std::string> names) {
  core_->kept_headers = std::move(names);
}

void HttpServer::on_answered(OnAnswered answered) {
  core_->on_answered = std::move(answered);
}

void HttpServer::encrypt(std::shared_ptr<const TlsIdentity> identity) {
  core_->identity = std::move(identity);
}

std::uint16_t HttpServer::port() const {
  return core_->acceptor.local_endpoint().port();
}

void HttpServer::run(std::function<void(std::string_view)> on_failure, OnRefused on_refused) {
  core_->on_failure = std::move(on_failure);
  core_->on_refused = std::move(on_refused);
  core_->sweep_later();
  core_->accept();
  core_->run();
  core_->close_all();
}

void HttpServer::drain() {
  core_->draining = true;
  error_code ignored;
  core_->acceptor.close(ignored);
}

std::size_t HttpServer::busy() const {
  return core_->busy;
}

std::size_t HttpServer::connections() const {
  return core_->counters.connections;
}

void HttpServer::stop() {
  core_->context.stop();
}

void HttpServer::post(std::function<void()> work) {
  asio::post(core_->context, [core = core_.get(), work = std::move(work)] {
    const TurnClock::Turn noted(core->turns);
    work();
  });
}

std::unique_ptr<Loop::Timer> HttpServer::timer() {
  return std::make_unique<AsioTimer>(core_->context, core_->turns);
}

std::unique_ptr<Loop::Watch> HttpServer::watch(int fd, std::function<void()> readable) {
  return std::make_unique<AsioWatch>(core_->context, core_->turns, fd, std::move(readable));
}

void HttpServer::aside(Side side, std::function<void()> work, std::function<void()> then) {
  core_->aside(side, std::move(work), std::move(then));
}

Loop::TimePoint HttpServer::now() const {
  return std::chrono::steady_clock::now();
}

ServerCounters HttpServer::counters() const {
  ServerCounters counters = core_->counters;
  counters.newcomers = core_->newcomers();
  counters.handshaking = core_->handshakes.size();
  counters.body_bytes = core_->body_bytes->bytes();
  counters.upload_bytes = core_->upload_bytes->bytes();
  counters.answer_bytes = core_->answer_bytes();
  for (const auto& [answered, count] : core_->answers) {
    const auto& [route, status] = answered;
    counters.answers.push_back({.method = route ? route->method : "",
                                .route = route ? route->pattern : "none",
                                .status = status,
                                .count = count});
  }
  counters.longest_turn = core_->turns.longest(now());
  return counters;
}

}  // namespace lanemq::http
