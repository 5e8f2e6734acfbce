// SPDX-License-Identifier: Apache-2.0
#include "client/library/engine.hpp"

#include <exception>
#include <utility>

#include <lanemq/text.hpp>

namespace lanemq::client {
namespace {

using Clock = std::chrono::steady_clock;

/// Messages that one turn receives, so that sending does not wait for all of them.
constexpr std::size_t kReceivedPerTurn = 1'000;
/// Turns of one call of process(): handlers may ask for more each time, and the caller has other things to
/// do.
constexpr int kTurnsPerCall = 16;
/// So many connections in a row that end without a message are reported.
constexpr int kLostByStrangers = 3;

}  // namespace

Engine::Engine(const ClientOptions& options, RequestDesk& desk, const std::string& shard)
    : options_(options),
      shard_(shard),
      desk_(desk),
      link_(options.endpoint, options.keys, options.body_bytes_max),
      session_(Clock::now(), options.batch_max, link_.endpoints().all().size(), shard),
      decoder_(options.body_bytes_max) {}

void Engine::begin(Request&& request) {
  asked_ = true;
  session_.begin(std::move(request), Clock::now());
}

bool Engine::seen(const std::string& id, std::int64_t seq) {
  const bool changed = session_.seen(id, seq, Clock::now());
  asked_ |= changed;
  return changed;
}

void Engine::end(Handler handler, Outcome outcome) {
  asked_ = true;
  ended_.push_back({.handler = std::move(handler), .outcome = std::move(outcome)});
}

void Engine::process() {
  bool look = true;  // there may be something to receive
  more_ = false;
  for (int turn = 0; turn < kTurnsPerCall; ++turn) {
    asked_ = false;
    const TimePoint now = Clock::now();
    session_.advance(now);
    if (session_.reopen_is_due(now)) {
      reopen(now);
      look = true;
    }
    // Sends before it receives: only a receive that finds nothing shows that nothing is left to do.
    const Sent sent = send(now);
    look |= sent != Sent::nothing;
    const std::size_t received = look ? receive() : 0;
    // The descriptor stays readable until events are read, so they can wait for a call without other work.
    if (new_link_ || (turn == 0 && received == 0 && sent != Sent::something)) watch_link();
    tell();
    look = received == kReceivedPerTurn || (sent == Sent::no_room && link_.may_go_on());
    if (!look && !asked_ && received == 0) return;
  }
  more_ = true;
}

std::optional<TimePoint> Engine::next_wakeup() const {
  if (asked_ || more_) return TimePoint{};
  return session_.next_wakeup();
}

void Engine::close() {
  session_.close();
  tell();
}

std::optional<BrokerSilence> Engine::silence() const {
  const std::optional<TimePoint> since = session_.silent_since(Clock::now());
  if (!since) return std::nullopt;
  BrokerSilence silence{.since = *since, .shard = shard_};
  for (const std::string& one : link_.endpoints().named())
    silence.endpoints += (silence.endpoints.empty() ? "" : ",") + one;
  return silence;
}

bool Engine::is_silent() const {
  return session_.silent_since(Clock::now()).has_value();
}

/// Sends as much as the socket accepts.
Engine::Sent Engine::send(TimePoint now) {
  Sent sent = Sent::nothing;
  while (const std::optional<Outgoing> next = session_.next_send()) {
    if (!link_.send(*next)) return Sent::no_room;
    session_.sent(now);
    sent = Sent::something;
  }
  return sent;
}

std::size_t Engine::receive() {
  const TimePoint now = Clock::now();
  std::size_t count = 0;
  while (count < kReceivedPerTurn && link_.receive(received_)) {
    ++count;
    hear(received_, now);
  }
  if (heard_) tell_if_heard_again();
  if (const std::vector<std::string> told = session_.take_told(); !told.empty())
    session_.set_endpoints(link_.learn(told));
  return count;
}

void Engine::read_all() {
  const TimePoint now = Clock::now();
  while (link_.receive(received_))
    hear(received_, now);
}

void Engine::hear(Received& received, TimePoint now) {
  const auto frame = received.body ? std::optional(received.body->bytes()) : std::nullopt;
  if (received.malformed || received.header.empty() || (received.body && has_inline_body(received.header))) {
    hear_nonsense("it is no LMQ1 message");
    return;
  }
  const auto nonsense = [&](const DecodeError& error) { hear_nonsense(error.message); };
  if (const DecodeError* error = decoder_.decode(received.header, frame, replies_)) return nonsense(*error);
  for (std::size_t i = 0; i < replies_.size(); ++i) {
    if (const DecodeError* error = replies_.error(i)) {
      nonsense(*error);
      continue;
    }
    heard_ = true;
    if (received.body && !replies_.is_batch())
      session_.heard(replies_[i], *received.body, now);
    else
      session_.heard(replies_[i], Blob::borrow(replies_.body(i)), now);
  }
}

void Engine::hear_nonsense(const std::string& why) {
  session_.heard_nonsense();
  if (heard_)
    log("a message of the broker cannot be read: " + why);
  else
    tell_stranger("a message of it cannot be read: " + why);
}

void Engine::watch_link() {
  new_link_ = false;
  while (const std::optional<LinkEvent> event = link_.next_event()) {
    switch (*event) {
      case LinkEvent::connected:
        session_.connected();
        asked_ = true;  // it has something to say
        break;
      case LinkEvent::disconnected:
        session_.disconnected(Clock::now());
        read_all();
        link_.let_go();
        break;
      case LinkEvent::nobody:
        session_.set_endpoints(link_.take_addresses());
        session_.found_nobody(Clock::now(), link_.has_names());
        asked_ = true;  // the next endpoint's turn may have come
        break;
      case LinkEvent::refused:
        refuse_all(named() +
                   " does not take this key; its operator puts the public key into the broker's keys_folder");
        break;
      case LinkEvent::other_kind:
        refuse_all(named() +
                   (options_.keys.secret.empty()
                        ? " asks for keys; give the broker's public key and a secret key of one's own"
                        : " asks for no keys, and this client shows one; leave the keys out"));
        break;
    }
  }
  if (session_.lost() >= kLostByStrangers)
    tell_stranger("it ends connections without a word that can be read");
}

/// Ends all requests: the broker will take none of them.
void Engine::refuse_all(const std::string& why) {
  log(why);
  session_.end_all({.code = std::string(name_of(ErrorCode::unauthorized)), .message = why, .local = true});
}

/// Reports a peer that is no broker, once until a broker answers.
void Engine::tell_stranger(const std::string& why) {
  if (!std::exchange(told_stranger_, true))
    log("what listens at " + endpoint() + " is no broker's endpoint for clients, perhaps: " + why);
}

/// Reports a broker that does not answer, once until one does. That the next endpoint's turn comes at once is
/// no news.
void Engine::tell_reopen() {
  using Reason = Session::Reason;
  const Reason reason = session_.reason();
  if (session_.pending() == 0 || reason == Reason::nobody || std::exchange(told_silence_, true)) return;
  const std::size_t pending = session_.pending();
  const std::string wait =
      ", " + (pending == 1 ? std::string("a request waits") : std::to_string(pending) + " requests wait");
  if (reason == Reason::not_owner)
    return log(named() + " may not own its store now: looking for the owner" + wait);
  if (reason == Reason::silence || reason == Reason::unmet)
    return log("no word from " + named() + ": connecting again" + wait);
  std::string all;
  for (const std::string& one : link_.endpoints().named())
    all += (all.empty() ? "" : ", ") + printable(one);
  log("no broker" + whose() + " listens at " + (link_.endpoints().several() ? "any of " : "") + all +
      ": connecting again" + wait);
}

void Engine::reopen(TimePoint now) {
  tell_reopen();
  read_all();  // before the old socket is closed
  session_.take_reopen(now);
  try {
    link_.reopen();
    session_.set_endpoints(link_.endpoints().all().size());
    new_link_ = true;
    heard_ = false;
  } catch (const std::exception& error) {
    log(error.what());
    session_.reopen_failed(now);
  }
}

/// Calls the callers' handlers: pieces first, since no piece may follow its stream's end.
void Engine::tell() {
  session_.take_arrived(arrived_);
  session_.take_finished(finished_);
  for (Arrived& arrived : arrived_) {
    desk_.give_back_bytes(arrived.freed_bytes);
    if (arrived.on_change) {
      if (*arrived.on_change) call_back([&] { (*arrived.on_change)(std::move(arrived.change)); });
      continue;
    }
    const std::int64_t seq = arrived.chunk.seq;
    if (*arrived.on_chunk) call_back([&] { (*arrived.on_chunk)(std::move(arrived.chunk)); });
    if (arrived.takes_at_once) asked_ |= session_.seen(arrived.ref, seq, Clock::now());
  }
  for (Finished& finished : finished_) {
    if (finished.takes_place)
      desk_.give_back(finished.body_bytes);  // first, so that a callback may use the place
    call_back([&] { finished.handler(std::move(finished.outcome)); });
  }
  finished_.clear();
  finished_.swap(ended_);
  for (Finished& ended : finished_)
    call_back([&] { ended.handler(std::move(ended.outcome)); });
  arrived_.clear();
  finished_.clear();
}

template <class Call>
void Engine::call_back(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    log(std::string("a callback threw: ") + error.what());
  } catch (...) {
    log("a callback threw something");
  }
}

void Engine::tell_if_heard_again() {
  told_stranger_ = false;
  if (std::exchange(told_silence_, false)) log(named() + " answers");
}

std::string Engine::whose() const {
  return shard_.empty() ? "" : " of shard \"" + printable(shard_) + "\"";
}

std::string Engine::endpoint() const {
  return printable(link_.endpoints().current());
}

std::string Engine::named() const {
  return "the broker" + whose() + " at " + endpoint();
}

void Engine::log(const std::string& line) {
  if (options_.log) options_.log(line);
}

}  // namespace lanemq::client
