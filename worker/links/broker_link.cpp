// SPDX-License-Identifier: Apache-2.0
#include "worker/links/broker_link.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <variant>

#include <lanemq/text.hpp>

#include "common/zmq/curve.hpp"
#include "common/zmq/endpoints.hpp"
#include "worker/base/log_line.hpp"

namespace lanemq::worker {
namespace {

using socket::uninterrupted;
using std::chrono::milliseconds;

/// Between connections to somebody who does not speak ZeroMQ.
constexpr int kStrangersPauseMs = 500;
constexpr int kMessagesPerTurn = 1000;       ///< messages read in one turn, before completions and timers
constexpr milliseconds kLingerOnExit{1000};  ///< for the goodbye
constexpr std::chrono::minutes kSameLineEvery{1};

}  // namespace

BrokerLink::BrokerLink(zmq::context_t& context, const WorkerOptions& options, SessionOptions session,
                       const std::string& endpoints, ShardPlace place)
    : context_(context),
      options_(options),
      known_{.place = place},
      where_(endpoints),
      session_(std::move(session)),
      in_(options.body_bytes_max) {}

// ---- connections --------------------------------------------------------------------------------------

void BrokerLink::open(TimePoint now) {
  if (where_.endpoints.several())
    if (const auto bad = socket::bad_endpoint(context_, where_.endpoints.all()))
      refuse_endpoint(bad->endpoint, bad->reason);
  open_socket();
  where_.addresses.begin(where_.endpoints.named());
  session_.connected(now);
  flush();
}

void BrokerLink::open_socket() {
  monitor_.forget();
  state_.next_is_due = false;
  socket_ = zmq::socket_t(context_, zmq::socket_type::dealer);
  socket::show_keys(socket_, options_.keys);
  monitor_.watch(context_, socket_);
  state_.stirred = true;  // the monitor's descriptor reports only what comes after it was asked
  const int depth = static_cast<int>(options_.capacity) * 2 + 1000;
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::sndhwm, depth);
  socket_.set(zmq::sockopt::rcvhwm, depth);
  // Without delay: if the broker hears from the worker in time its jobs go on.
  socket_.set(zmq::sockopt::reconnect_ivl, state_.slow ? kStrangersPauseMs : 1);
  socket_.set(zmq::sockopt::reconnect_ivl_max, 2000);
  socket_.set(zmq::sockopt::handshake_ivl, 5000);
  socket_.set(zmq::sockopt::tcp_keepalive, 1);
  socket_.set(zmq::sockopt::ipv6, true);
  // A header with a body inside, or a body frame.
  socket_.set(zmq::sockopt::maxmsgsize,
              static_cast<std::int64_t>(options_.body_bytes_max + limits::header_bytes_max + 64));
  state_.awaits_address = socket::named_endpoint(where_.endpoints.current()).has_value();
  if (state_.awaits_address) return;
  try {
    socket_.connect(where_.endpoints.current());
  } catch (const zmq::error_t& error) {
    refuse_endpoint(where_.endpoints.current(), error.what());
  }
}

void BrokerLink::refuse_endpoint(const std::string& endpoint, const std::string& reason) const {
  throw std::invalid_argument("broker endpoint \"" + printable(endpoint) + "\": " + reason +
                              "; use the form tcp://HOST:PORT or ipc://PATH");
}

void BrokerLink::reconnect(TimePoint now) {
  if (!said_.connecting_at || now - *said_.connecting_at >= kSameLineEvery) {
    said_.connecting_at = now;
    LogLine line(options_.log, LogLevel::warning,
                 known_.welcomed ? "worker.reconnecting" : "worker.waiting_for_broker");
    about(line).field("running", session_.running()).field("unacknowledged", session_.outcomes());
    if (const std::string there = look_there().problem; !there.empty()) line.field("reason", there);
  }
  take_addresses();
  where_.endpoints.turn();
  where_.addresses.begin(where_.endpoints.named());  // also for the next time
  open_socket();
  introduce_again(now);
}

/// What is wrong with the endpoint. A worker that a broker has answered knows that one was there, and has
/// jobs that cannot wait for a look.
WhatIsThere BrokerLink::look_there() const {
  if (known_.welcomed || !options_.look_there) return {};
  return options_.look_there(where_.endpoints.current());
}

void BrokerLink::take_addresses() {
  where_.endpoints.set_addresses(where_.addresses.known());
}

/// The present endpoint's name has been looked up, or is not known in time. True: the socket is connected.
bool BrokerLink::take_address() {
  take_addresses();
  const std::string& endpoint = where_.endpoints.current();
  const bool is_name = socket::named_endpoint(endpoint).has_value();
  if (is_name && where_.addresses.awaits(endpoint)) return false;
  state_.awaits_address = false;
  try {
    if (!is_name) socket_.connect(endpoint);
  } catch (const zmq::error_t&) {  // an address that this libzmq does not take
    find_next();
    return false;
  }
  if (is_name) find_next();
  return !is_name;
}

/// Nobody listens there: the next endpoint's turn comes at once. Where there is one address alone ZeroMQ
/// tries again.
void BrokerLink::find_next() {
  take_addresses();
  // ZeroMQ itself goes on trying until then, and tells each time.
  const bool may_move = where_.endpoints.several() || where_.addresses.fd() >= 0;
  if (!may_move || std::exchange(state_.next_is_due, true)) return;
  const TimePoint now = std::chrono::steady_clock::now();
  session_.found_nobody(where_.rounds.found_nobody(where_.endpoints.all().size(), now));
}

/// ZeroMQ pauses where nobody listens, but not where a connection is made and ended at once, as HTTP servers
/// do. Why they are ended is said as soon as it is known, and where it comes to be known later, once more.
/// True: there is a new socket.
bool BrokerLink::meet_stranger() {
  const ConnectionMonitor::Why why = monitor_.why();
  const bool was_slow = std::exchange(state_.slow, true);
  if (monitor_.knows_why() && said_.stranger != why) say_stranger(why);
  if (!was_slow) open_socket();
  return !was_slow;
}

void BrokerLink::say_stranger(ConnectionMonitor::Why why) {
  using Why = ConnectionMonitor::Why;
  const WhatIsThere seen = why == Why::unknown ? look_there() : WhatIsThere{};
  // Who ends a connection first often leaves no reason for the other.
  if (seen.asks_for_keys && options_.keys.secret.empty()) why = Why::other_security;
  said_.stranger = why;
  const bool is_stranger = why == Why::unknown;
  const std::string& there = seen.problem;
  LogLine line(options_.log, is_stranger ? LogLevel::warning : LogLevel::error,
               is_stranger ? "broker.stranger" : "broker.key_refused");
  about(line)
      .field("message", !there.empty() ? there
                        : is_stranger  ? "what listens there ends connections without a word of ZeroMQ"
                        : why == Why::key_refused ? "the broker does not take this worker's key"
                        : options_.keys.secret.empty()
                            ? "the broker asks for keys, and this worker has none"
                            : "the broker asks for no keys, and this worker shows one")
      .field("do",
             why == Why::key_refused
                 ? "put its public key, with role worker, into the broker's keys_folder and reload"
             : !is_stranger
                 ? options_.keys.secret.empty()
                       ? "set broker_key and secret_key here as the broker's secret_key and keys_folder say"
                       : "leave broker_key and secret_key out here, or give the broker a secret_key"
             : options_.keys.secret.empty()
                 ? "name the broker's endpoint for workers with --broker"
                 : "name the broker's endpoint for workers with --broker, and its key with --broker-key");
}

/// There is a new connection. Messages that ZeroMQ still holds go first, and are answered with
/// `unknown_session`, which the session's greeting takes care of.
void BrokerLink::introduce_again(TimePoint now) {
  session_.connected(now);
  state_.stuck = false;
}

void BrokerLink::welcomed(const Welcomed& welcomed) {
  socket::learn(context_, where_.endpoints, welcomed.endpoints);
  LogLine line(options_.log, LogLevel::info, "worker.connected");
  about(line)
      .field("session", session_.broker_session())
      .field("running", session_.running())
      .field("unacknowledged", session_.outcomes());
  said_.connecting_at.reset();
  state_.next_is_due = false;
  state_.slow = false;  // of the next one
  said_.stranger.reset();
  known_.welcomed = true;
}

void BrokerLink::refused(TimePoint now) {
  if (said_.refusal == session_.refusal() && now - said_.refusal_at < kSameLineEvery) return;
  said_.refusal = session_.refusal();
  said_.refusal_at = now;
  LogLine line(options_.log, LogLevel::error, "broker.refused");
  about(line).field("message", session_.refusal());
}

LogLine& BrokerLink::about(LogLine& line) const {
  line.field("broker", where_.endpoints.current());
  if (!session_.shard().empty()) line.field("shard", session_.shard());
  return line;
}

bool BrokerLink::take_shards(const ShardsTold& told) {
  if (told.shards == known_.told) return false;
  known_.told = told.shards;
  std::optional<ShardMap> shards = told.shards.empty() ? ShardMap() : decode_shards(told.shards);
  if (!shards) {
    log_unreadable("its shards cannot be read");
    return false;
  }
  known_.shards = std::move(*shards);
  if (const Shard* const own = known_.shards.find(session_.shard())) keep_to(*own);
  return true;
}

/// Forgets endpoints of other shards: a list that names all brokers would lead there when this one is away.
void BrokerLink::keep_to(const Shard& own) {
  const std::vector<std::string> named = where_.endpoints.named();
  for (const std::string& endpoint : named) {
    const bool foreign =
        std::any_of(known_.shards.all().begin(), known_.shards.all().end(), [&](const Shard& shard) {
          return shard.name != own.name &&
                 std::find(shard.endpoints.begin(), shard.endpoints.end(), endpoint) != shard.endpoints.end();
        });
    if (foreign) where_.endpoints.forget(endpoint);
  }
  socket::learn(context_, where_.endpoints, own.endpoints);
}

// ---- the turn -----------------------------------------------------------------------------------------

/// The socket's descriptor reports changes only, so the loop asks for the state before it sleeps.
bool BrokerLink::ask_for_input() {
  const int events = uninterrupted([this] { return socket_.get(zmq::sockopt::events); });
  const int wanted = state_.stuck ? ZMQ_POLLOUT : session_.has_left() ? 0 : ZMQ_POLLIN;
  state_.has_input = (events & wanted) != 0;
  return state_.has_input;
}

bool BrokerLink::follow_connection() {
  if (std::exchange(state_.looked, false)) where_.addresses.heed();
  if (state_.awaits_address && !session_.has_left() && take_address()) {
    introduce_again(std::chrono::steady_clock::now());
    return true;
  }
  if (!std::exchange(state_.stirred, false)) return false;
  const bool again = monitor_.reconnected();
  if (session_.has_left()) return false;
  const bool strange = !again && monitor_.meets_strangers() && meet_stranger();
  if (again || strange)
    introduce_again(std::chrono::steady_clock::now());
  else if (monitor_.finds_nobody())
    find_next();
  return again || strange;
}

void BrokerLink::watch(pollfd* polled) {
  polled[0].fd = socket_.get(zmq::sockopt::fd);
  polled[1].fd = monitor_.descriptor();
  polled[2].fd = where_.addresses.fd();
}

void BrokerLink::take_polled(const pollfd* polled) {
  // Asking a ZeroMQ socket for its state costs a system call each time.
  state_.has_input = state_.has_input || polled[0].revents != 0;
  state_.stirred = state_.stirred || polled[1].revents != 0;
  state_.looked = state_.looked || polled[2].revents != 0;
}

void BrokerLink::read(TimePoint now, Owner& owner) {
  if (!state_.has_input) return;
  // Reads no more than it can answer: so the outbox holds at most one turn's messages.
  for (int count = 0; count < kMessagesPerTurn && !state_.stuck && !session_.has_left(); ++count) {
    if (!in_.message.receive(socket_)) return;
    read_message(now, owner);
  }
}

/// Handles the message that was received.
void BrokerLink::read_message(TimePoint now, Owner& owner) {
  const DecodeError* const error =
      in_.message.fault() ? nullptr
                          : in_.decoder.decode(in_.message.header(), in_.message.body_frame(), in_.commands);
  if (in_.message.fault() || error) {
    if (error) return refuse_unreadable(*error, now);
    session_.heard(now);
    log_unreadable(in_.message.fault());
    return;
  }
  for (std::size_t i = 0; i < in_.commands.size(); ++i) {
    if (const DecodeError* broken = in_.commands.error(i)) {
      refuse_unreadable(*broken, now);
      continue;
    }
    const auto* offer = std::get_if<wire::JobOffer>(&in_.commands[i]);
    if (offer && !fits_inside(offer->job)) {
      log_unreadable("the job's number is beyond those of a broker");
      continue;
    }
    session_.receive(in_.commands[i], now, effects_);
    in_.inside = in_.commands.body(i);
    owner.carry_out(*this, now, offer);
  }
}

void BrokerLink::refuse_unreadable(const DecodeError& error, TimePoint now) {
  session_.heard(now);
  log_unreadable(error.message);
  if (error.job) session_.refuse_unreadable({*error.job, error.attempt}, error.message);
}

void BrokerLink::log_unreadable(std::string_view why) {
  LogLine line(options_.log, LogLevel::warning, "broker.unreadable_message");
  const std::string there = look_there().problem;
  about(line).field("reason", there.empty() ? why : std::string_view(there));
}

Blob BrokerLink::take_body() {
  return in_.message.body_frame() && !in_.commands.is_batch() ? in_.message.take_body_frame()
                                                              : Blob::copy(in_.inside);
}

void BrokerLink::flush() {
  Outbox& outbox = session_.outbox();
  while (!outbox.empty()) {
    const Outbox::Message message = outbox.front();
    zmq::message_t header(message.header.data(), message.header.size());
    const auto more = message.body ? zmq::send_flags::sndmore : zmq::send_flags::none;
    state_.stuck = !send(header, zmq::send_flags::dontwait | more);
    if (state_.stuck) return;
    if (message.body) {
      zmq::message_t body = socket::lend(*message.body);
      // The first frame was accepted, so the socket accepts the whole message.
      static_cast<void>(send(body, zmq::send_flags::dontwait));
    }
    outbox.pop();
  }
}

bool BrokerLink::send(zmq::message_t& frame, zmq::send_flags flags) {
  return uninterrupted([&] { return socket_.send(frame, flags).has_value(); });
}

void BrokerLink::close() {
  flush();
  monitor_.forget();
  socket_.set(zmq::sockopt::linger, static_cast<int>(kLingerOnExit.count()));
  socket_.close();
}

}  // namespace lanemq::worker
