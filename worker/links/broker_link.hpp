// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <poll.h>
#include <zmq.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/endpoints.hpp>
#include <lanemq/shards.hpp>
#include <lanemq/worker.hpp>

#include "common/zmq/address_look.hpp"
#include "common/zmq/message.hpp"
#include "worker/base/shard_lease.hpp"
#include "worker/links/connection_monitor.hpp"
#include "worker/session/session.hpp"

namespace lanemq::worker {

class LogLine;

/// The worker's end towards the broker of one shard: its session, and the socket, endpoints and monitor that
/// carry it.
///
/// Reads what the broker says into the session, sends what the session says, and makes connections anew. What
/// the session wants of handlers is the owner's: it carries effects() out after each command. One thread: the
/// loop's.
class BrokerLink {
 public:
  /// The descriptors that poll() is to watch for a link: the socket's, the monitor's and of its names' look.
  static constexpr std::size_t kDescriptors = 3;

  /// Who has the link: the worker's loop.
  class Owner {
   public:
    /// Does what effects() says and clears it. `offer`: the job in the message just read, if any, whose body
    /// is take_body().
    virtual void carry_out(BrokerLink& link, TimePoint now, const wire::JobOffer* offer) = 0;

   protected:
    ~Owner() = default;
  };

  /// Makes no connection yet. `context` and `options` outlive the link. `endpoints`: as
  /// WorkerOptions::broker. `place`: of its leases inside the worker.
  BrokerLink(zmq::context_t& context, const WorkerOptions& options, SessionOptions session,
             const std::string& endpoints, ShardPlace place);

  /// Makes the first connection and greets the broker. Throws std::invalid_argument for an endpoint that
  /// ZeroMQ does not take, std::runtime_error where the system refuses a socket.
  void open(TimePoint now);
  /// The session asked for it: connects to the next endpoint, and greets again.
  void reconnect(TimePoint now);
  /// The session was welcomed. Learns further endpoints.
  void welcomed(const Welcomed& welcomed);
  /// The broker refused the session: says so in the log, of the same reason once a minute.
  void refused(TimePoint now);
  /// Takes what the broker says of shards, and goes to those endpoints alone that are not another shard's.
  /// False: it has said that before, or it cannot be read.
  bool take_shards(const ShardsTold& told);
  /// Says which broker a line is about.
  LogLine& about(LogLine& line) const;

  Session& session() { return session_; }
  const Session& session() const { return session_; }
  Effects& effects() { return effects_; }
  ShardPlace place() const { return known_.place; }
  /// As the broker has said last; empty: there are none.
  const ShardMap& shards() const { return known_.shards; }

  // ---- the turn ---------------------------------------------------------------------------------------

  /// Whether the socket has a message, or room again where it was stuck. Costs a system call at times.
  bool ask_for_input();
  bool has_input() const { return state_.has_input; }
  /// Does what news of the connection ask for; false: nothing. Requires: the socket has no input.
  bool follow_connection();
  /// Fills in kDescriptors descriptors for poll().
  void watch(pollfd* polled);
  /// Takes what poll() said of them.
  void take_polled(const pollfd* polled);
  /// Reads a turn's messages, if there are any. Ends early when the session has left.
  void read(TimePoint now, Owner& owner);
  /// The body of the job being read. A body inside the header is copied, since the header also holds the
  /// offer's texts.
  Blob take_body();
  /// Sends the session's messages until the socket accepts no more.
  void flush();
  /// Sends what is unsent, and closes the socket behind it.
  void close();

 private:
  void open_socket();
  [[noreturn]] void refuse_endpoint(const std::string& endpoint, const std::string& reason) const;
  void read_message(TimePoint now, Owner& owner);
  void refuse_unreadable(const DecodeError& error, TimePoint now);
  void log_unreadable(std::string_view why);
  bool send(zmq::message_t& frame, zmq::send_flags flags);
  WhatIsThere look_there() const;
  void take_addresses();
  bool take_address();
  void find_next();
  bool meet_stranger();
  void say_stranger(ConnectionMonitor::Why why);
  void keep_to(const Shard& own);
  void introduce_again(TimePoint now);

  /// What is known of the broker.
  struct Known {
    const ShardPlace place;
    std::string told{};  ///< of shards, as it came
    ShardMap shards{};
    bool welcomed = false;
  };
  /// Lines of the log that are not said again and again.
  struct Said {
    std::optional<TimePoint> connecting_at{};  ///< since the last welcome
    std::string refusal{};
    TimePoint refusal_at{};
    std::optional<ConnectionMonitor::Why> stranger{};  ///< since the last welcome
  };
  /// The message being read.
  struct Incoming {
    explicit Incoming(std::size_t body_bytes_max) : decoder(body_bytes_max) {}
    socket::Message message{};
    Decoder decoder;
    Items<wire::WorkerCommand> commands{};
    std::string_view inside{};  ///< body inside the message's header
  };
  /// Where the broker may be.
  struct Where {
    explicit Where(const std::string& given) : endpoints(given) {}
    Endpoints endpoints;
    EndpointRounds rounds{};
    socket::AddressLook addresses{};
  };
  struct SocketState {
    bool has_input = false;       ///< it may have a message, or room again
    bool slow = false;            ///< strangers were met since a broker's welcome
    bool stirred = false;         ///< the monitor may have an event
    bool looked = false;          ///< a name may have been looked up
    bool awaits_address = false;  ///< the socket is connected once the present endpoint's name is looked up
    bool next_is_due = false;     ///< nobody listens here, and the next endpoint's turn has a time
    bool stuck = false;           ///< it accepts no more; the outbox has the rest
  };

  zmq::context_t& context_;
  const WorkerOptions& options_;
  Known known_;
  Where where_;
  Session session_;
  Effects effects_;
  zmq::socket_t socket_;
  ConnectionMonitor monitor_;  // behind socket_: it ends first
  Incoming in_;
  SocketState state_;
  Said said_;
};

}  // namespace lanemq::worker
