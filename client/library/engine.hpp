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

/// A client's input and output, turn by turn: brings messages from the link to the session and back, and the
/// answers to their callers. Has neither a thread nor a place to sleep: whoever drives it calls process()
/// when fd() is readable or next_wakeup() has come. Not thread-safe: one thread at a time.
class Engine {
 public:
  /// Throws as Link. `options` and `desk` outlive this.
  Engine(const ClientOptions& options, RequestDesk& desk);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Takes a request, to be sent with the next process(). May be called by a handler.
  void begin(Request request);
  /// The readers of a job that do not take at once have all pieces up to `seq`. May be called by a handler.
  /// True: next_wakeup() is earlier than it was.
  bool seen(const std::string& id, std::int64_t seq);
  /// Has the handler told by the next process() of a request that was none.
  void refuse(Handler handler, ClientError error);

  /// Sends and receives what there is, as far as neither has to wait, and calls the handlers; what those ask
  /// for is sent, too. Much work is done over several calls: then next_wakeup() has come already.
  void process();
  /// When to call process() at the latest; a time that has passed: at once. Empty: only fd() tells.
  std::optional<TimePoint> next_wakeup() const;
  /// Readable, level by level, when process() has something to do. Stays the same.
  int fd() const { return link_.fd(); }

  /// Ends all that is pending with the local error `cancelled`, and tells the handlers; what they ask for
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
  void watch_link();
  void reopen(TimePoint now);
  void tell();
  template <class Call>
  void call_back(Call call);
  void tell_if_heard_again();
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
  bool asked_ = false;    ///< something was asked for since it was sent last
  bool more_ = false;     ///< the last process() stopped at its bound
  bool new_link_ = true;  ///< its descriptor tells events only once they were asked for
  bool heard_ = false;    ///< a broker, on this link
  bool told_silence_ = false, told_stranger_ = false;
};

}  // namespace lanemq::client
