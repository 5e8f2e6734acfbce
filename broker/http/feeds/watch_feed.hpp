// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <zmq.hpp>

#include "broker/http/access/operator_link.hpp"
#include "common/http/server/base/loop.hpp"
#include "common/http/server/base/responder.hpp"
#include "common/zmq/message.hpp"

namespace lanemq::admin {

/// The readers of `/v1/watch`: server-sent events, one for each change of a job that a reader follows. Each
/// is a watch of an operator, the protocol's op, over a connection of its own: so a flood of events leaves
/// the room of other questions alone. An event counts as taken when the system has accepted its bytes, so
/// that a slow reader gets gaps and costs limits::watch_events_max events at the most.
///
/// Belongs to the thread of `loop`, which outlives it.
class WatchFeed {
 public:
  static constexpr std::size_t kReadersMax = 32;

  /// `endpoint`: where the broker's loop listens to operators of its own process.
  WatchFeed(zmq::context_t& context, const std::string& endpoint, http::Loop& loop);
  ~WatchFeed();
  WatchFeed(const WatchFeed&) = delete;
  WatchFeed& operator=(const WatchFeed&) = delete;

  bool full() const { return readers_.size() >= kReadersMax; }
  std::size_t size() const { return readers_.size(); }
  /// Begins a watch, and answers when the broker has. `question`: the op `watch` with what is followed.
  /// `last_event`: where the reader was cut off; empty: it was not. Requires: !full(), and the responder was
  /// not answered.
  void add(Question question, std::string last_event, http::ResponderPtr responder);

 private:
  struct Reader {
    Question question;
    std::string last_event;
    http::ResponderPtr responder;
    http::Loop::TimePoint asked_at;
    bool begun = false;
    std::int64_t next = 0;               ///< the number of the event that comes next
    std::int64_t taken = -1, told = -1;  ///< events that the system has, and that the broker was told of
  };
  using Readers = std::map<std::uint64_t, std::shared_ptr<Reader>>;

  bool say(const Question& question, std::uint64_t ref);
  void say_seen(std::uint64_t ref, Reader& reader);
  void read();
  void take(std::string_view header);
  void begin(Reader& reader);
  void compare(Reader& reader, std::int64_t next);
  void write_event(std::uint64_t ref, const std::shared_ptr<Reader>& reader, Json event);
  void end(std::uint64_t ref, Json error);
  void forget(std::uint64_t ref);
  void renew_later();
  void renew();

  http::Loop& loop_;
  zmq::socket_t socket_;
  socket::Message incoming_;
  Readers readers_;
  std::uint64_t last_ref_ = 0;
  std::unique_ptr<http::Loop::Timer> timer_;
  std::unique_ptr<http::Loop::Watch> watch_;
  const std::shared_ptr<WatchFeed*> alive_ = std::make_shared<WatchFeed*>(this);
};

}  // namespace lanemq::admin
