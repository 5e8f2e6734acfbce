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
  /// Throws as Link does. `options` and `desk` outlive this.
  Engine(const ClientOptions& options, RequestDesk& desk);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Takes a request; the next process() sends it. Handlers may call it.
  void begin(Request request);
  /// The readers of a job that do not confirm at once have taken all pieces up to `seq`. Handlers may call
  /// it. True: next_wakeup() is earlier than before.
  bool seen(const std::string& id, std::int64_t seq);
  /// Has the next process() call the handler with an error.
  void refuse(Handler handler, ClientError error);

  /// Sends and receives what it can without waiting, and calls handlers; sends what those ask for, too. Much
  /// work takes several calls: then next_wakeup() has come already.
  void process();
  /// When process() must be called at the latest; a past time: at once. Empty: only when fd() is readable.
  std::optional<TimePoint> next_wakeup() const;
  /// Readable, level-triggered, when process() has work. Never changes.
  int fd() const { return link_.fd(); }

  /// Ends all pending requests with the local error `cancelled`, and calls their handlers; what those ask for
  /// stays pending.
  void close();

  const ClientCounters& counters() const { return session_.counters(); }

 private:
  enum class Sent : unsigned char { nothing, something, no_room };

  Sent send(TimePoint now);
  std::size_t receive();
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
  std::string endpoint() const;
  void log(const std::string& line);

  const ClientOptions& options_;
  RequestDesk& desk_;
  Link link_;
  Session session_;
  Decoder decoder_;
  Items<wire::ClientReply> replies_;
  Received received_;
  std::vector<Arrived> arrived_;
  std::vector<Finished> finished_;
  std::vector<Finished> refused_;
  bool asked_ = false;    ///< something was asked since the last send
  bool more_ = false;     ///< the last process() stopped at its bound
  bool new_link_ = true;  ///< its descriptor reports events only after it was asked for them
  bool heard_ = false;    ///< a broker has answered on this link
  bool told_silence_ = false, told_stranger_ = false;
};

}  // namespace lanemq::client
