// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lanemq/client.hpp>
#include <lanemq/codec.hpp>

#include "client/library/link.hpp"
#include "client/library/request_desk.hpp"
#include "client/library/session.hpp"

namespace lanemq::client {

/// A client's input and output, in turns: moves messages between link and session, and answers to their
/// callers. Has no thread: its owner calls process() when fd() is readable or next_wakeup() has come. Not
/// thread-safe.
class Engine {
 public:
  /// Throws as Link does. `options` and `desk` outlive this. `shard`: as Session's.
  Engine(const ClientOptions& options, RequestDesk& desk, const std::string& shard = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Takes a request; the next process() sends it. Handlers may call it.
  void begin(Request&& request);
  /// The readers of a job that do not confirm at once have taken all pieces up to `seq`. Handlers may call
  /// it. True: next_wakeup() is earlier than before.
  bool seen(const std::string& id, std::int64_t seq);
  /// Has the next process() call the handler with that.
  void end(Handler handler, Outcome outcome);
  /// Forgets a request, whose handler is not called. Handlers may call it.
  void drop(std::uint64_t ref) { session_.drop(ref); }

  /// Sends and receives what it can without waiting, and calls handlers; sends what those ask for, too. Much
  /// work takes several calls: then next_wakeup() has come already.
  void process();
  /// When process() must be called at the latest; a past time: at once. Empty: only when fd() is readable.
  std::optional<TimePoint> next_wakeup() const;
  /// Readable, level-triggered, when process() has work. Never changes.
  int fd() const { return link_.fd(); }
  /// Has fd() be readable while that of another engine is. Throws as Link does.
  void join(const Engine& other) { link_.join(other.fd()); }
  void leave(const Engine& other) { link_.leave(other.fd()); }

  /// Goes to these endpoints, too.
  void learn(const std::vector<std::string>& endpoints) { session_.set_endpoints(link_.learn(endpoints)); }
  /// The broker is not to be looked for there.
  void forget(const std::vector<std::string>& endpoints) { session_.set_endpoints(link_.forget(endpoints)); }
  /// As Session's.
  std::optional<ClusterWord> take_word() { return session_.take_word(); }
  bool has_word() const { return session_.has_word(); }
  bool has_spoken() const { return session_.has_spoken(); }
  std::vector<Moved> take_moved() { return session_.take_moved(); }
  bool has_moved() const { return session_.has_moved(); }
  std::size_t pending() const { return session_.pending(); }

  /// Ends all pending requests with the local error `cancelled`, and calls their handlers; what those ask for
  /// stays pending.
  void close();

  const ClientCounters& counters() const { return session_.counters(); }
  /// As ClientCounters has it; empty: there is none.
  std::optional<BrokerSilence> silence() const;
  bool is_silent() const;
  /// Whether a broker has answered on the present connection, and is not silent.
  bool answers() const { return counters().answers && !is_silent(); }

 private:
  enum class Sent : unsigned char { nothing, something, no_room };

  Sent send(TimePoint now);
  std::size_t receive();
  void read_all();
  void hear(Received& received, TimePoint now);
  void hear_nonsense(const std::string& why);
  void tell_stranger(const std::string& why);
  void refuse_all(const std::string& why);
  void watch_link();
  void reopen(TimePoint now);
  void tell_reopen();
  void tell();
  template <class Call>
  void call_back(Call call);
  void tell_if_heard_again();
  std::string whose() const;
  std::string endpoint() const;
  void log(const std::string& line);

  std::string named() const;

  const ClientOptions& options_;
  const std::string shard_;  ///< empty: any
  RequestDesk& desk_;
  Link link_;
  Session session_;
  Decoder decoder_;
  Items<wire::ClientReply> replies_;
  Received received_;
  std::vector<Arrived> arrived_;
  std::vector<Finished> finished_;
  std::vector<Finished> ended_;  ///< without a session
  bool asked_ = false;           ///< something was asked since the last send
  bool more_ = false;            ///< the last process() stopped at its bound
  bool new_link_ = true;         ///< its descriptor reports events only after it was asked for them
  bool heard_ = false;           ///< a broker has answered on this link
  bool told_silence_ = false, told_stranger_ = false;
};

}  // namespace lanemq::client
