// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/client.hpp>
#include <lanemq/codec.hpp>
#include <lanemq/end_times.hpp>
#include <lanemq/endpoints.hpp>
#include <lanemq/messages.hpp>

#include "client/library/probes.hpp"

namespace lanemq::client {

using TimePoint = std::chrono::steady_clock::time_point;

/// The kind of a request, which decides which replies end it.
enum class RequestKind : unsigned char {
  submit,
  stream,
  leave,
  fetch,
  status,
  cancel,
  stats,
  ping,
  spend,
  admin,
  watch
};

/// How a request ended: a value of its kind; a fetch ends with JobDone or JobStatus.
using Outcome =
    Reply<std::variant<JobDone, JobAccepted, JobStatus, BrokerStats, BrokerPong, BrokerSpent, AdminDocument>>;
using Handler = std::function<void(Outcome&&)>;
using ChunkHandler = std::function<void(JobChunk)>;
using ChangeHandler = std::function<void(JobChange)>;

/// A request for the wire, sent any number of times with the same bytes.
struct Request {
  std::uint64_t ref = 0;  ///< unique in the session; 0 is the session's own
  RequestKind kind = RequestKind::ping;
  std::string id{};            ///< the job's, if any
  std::string header{};        ///< encoded; holds a small body
  Blob body{};                 ///< sent as a frame of its own; owns its bytes; empty: none
  std::size_t body_bytes = 0;  ///< of the job's body, in the header or not
  BatchItem item{};            ///< of a job that may go in a batch: its map in the header
  TimePoint asked{};
  std::optional<TimePoint> deadline{};
  Handler handler{};        ///< the session does not call it
  bool takes_place = true;  ///< its end gives back the place that the desk gave it, and its body's room

  // Which of several shards it is for:
  std::string service{}, client{};  ///< of a job, where they are known
  std::string shard{};              ///< the one that is asked; empty: the caller named none
  int moves = 0;                    ///< how often a broker has sent it to another shard

  // Of a stream:
  std::shared_ptr<const ChunkHandler> on_chunk{};  ///< the session does not call it
  bool takes_at_once = true;
  /// The first piece wanted of an earlier job; empty: this request is the submit.
  std::optional<std::int64_t> from_seq{};

  std::shared_ptr<const ChangeHandler> on_change{};  ///< of a watch; the session does not call it
};

/// A piece of a stream, or a change that a watch tells of, and its reader. After a reader that takes at once
/// call seen().
struct Arrived {
  std::uint64_t ref = 0;
  bool takes_at_once = true;
  std::shared_ptr<const ChunkHandler> on_chunk{};
  JobChunk chunk{};
  std::size_t freed_bytes = 0;                       ///< of the request's body, which is not needed any more
  std::shared_ptr<const ChangeHandler> on_change{};  ///< set where it is a change
  JobChange change{};
};

/// A request that has ended, and its handler.
struct Finished {
  Handler handler{};
  Outcome outcome{};
  std::size_t body_bytes = 0;  ///< of the request
  bool takes_place = true;     ///< likewise
};

/// A submit that the broker has not taken, since it belongs to another shard.
struct Moved {
  Request request{};
  std::string shard{};
  std::vector<std::string> endpoints{};  ///< of that shard's brokers
};

/// What a broker says of the shards: which one it owns, the tenant of this client's key, and all of them as
/// in its pong (decode_shards). All empty: it has none.
struct ClusterWord {
  std::string shard{}, tenant{}, shards{};
  bool operator==(const ClusterWord&) const = default;
};

/// The next message, perhaps of several requests; views are valid until the next call that tells the session
/// something.
struct Outgoing {
  std::string_view header;
  const Blob* body = nullptr;  ///< null: none
};

/// One client's side of the protocol, without a socket and a clock.
///
/// It is told the caller's requests, received messages and events of the connection, and returns messages to
/// send, when to reconnect, and which requests have ended. It keeps requests until they end, and sends them
/// again on each new connection. Not thread-safe.
class Session {
 public:
  static constexpr std::chrono::milliseconds kPingAfter =
      end_times::ping_after;  ///< of silence, before a ping
  static constexpr std::chrono::milliseconds kReopenAfter =
      end_times::reopen_after;  ///< of silence, before a new connection
  /// The same where there are other endpoints, until the first word of this one.
  static constexpr std::chrono::milliseconds kFirstPingAfter = end_times::first_ping_after,
                                             kFirstWordWithin = end_times::first_word_within;
  /// What a reader has taken is reported at a quarter of a window, or after this time.
  static constexpr std::chrono::milliseconds kSeenAfter = end_times::seen_after;
  /// `seen` messages due within this time are sent together.
  static constexpr std::chrono::milliseconds kSeenTogether{50};
  static constexpr std::size_t kSeenChunks = limits::stream_chunks_max / 4;
  static constexpr std::size_t kSeenBytes = limits::stream_bytes_max / 4;
  /// The pause between two fetches of a stream.
  static constexpr std::chrono::milliseconds kFetchPause = end_times::fetch_pause;
  static constexpr std::chrono::milliseconds kFetchWait =
      end_times::fetch_wait_max;  ///< the protocol's bound
  /// Watches are renewed so often: a broker lets go of one that it does not hear of for 30 s.
  static constexpr std::chrono::milliseconds kRenewEvery = end_times::renew_every;
  /// Changes that a watch confirms together.
  static constexpr std::int64_t kChangesConfirmed = limits::watch_events_max / 4;
  /// So many ends of a stream in a row without the pieces before them end it as `gone`.
  static constexpr int kEndsWithoutPiecesMax = end_times::ends_without_pieces_max;
  /// So many connections in a row that end without a message make the largest body the suspect: a broker cuts
  /// off a peer whose frame exceeds its limit, without an answer.
  static constexpr int kFruitlessMax = end_times::fruitless_max;

  /// `now`: when the first connection was begun. `batch_max` over 1: jobs that wait together go in batches of
  /// up to so many, where the connection's broker accepts them.
  /// `endpoints`: how many there are; a new connection goes to the next one. `shard`: whose broker is wanted;
  /// a broker that names another one is left. Empty: any.
  explicit Session(TimePoint now, std::size_t batch_max = 0, std::size_t endpoints = 1,
                   std::string shard = {});

  void begin(Request&& request, TimePoint now);

  /// Since when requests wait without a word from any broker; empty: none waits, or not for kPingAfter yet.
  std::optional<TimePoint> silent_since(TimePoint now) const {
    if (pending_.empty() || now - unheard_since_ < kPingAfter) return std::nullopt;
    return unheard_since_;
  }

  /// A message from the broker. A body that is kept is copied, unless it owns its bytes.
  void heard(const wire::ClientReply& reply, const Blob& body, TimePoint now);
  /// A message that could not be decoded. It proves nothing: the peer may be no broker.
  void heard_nonsense();

  /// A handshake has succeeded. Where the last connection had ended before its handshake this is libzmq's
  /// next try on the same socket: it is the new one that was due.
  void connected();
  /// The connection is gone. A new one is due at once, or after a pause if the last ones were fruitless.
  void disconnected(TimePoint now);
  /// Nobody listens where the connection is to be made. Where there are several endpoints a new one is due at
  /// once, or after a pause behind a round of all; so it is with one that is `named`: its address may be
  /// another by then. Else the connection's own retries go on.
  void found_nobody(TimePoint now, bool named = false);

  /// Ends what is overdue; decides on pings and new connections.
  void advance(TimePoint now);
  /// When advance() has work at the latest; empty: nothing is pending.
  std::optional<TimePoint> next_wakeup() const;

  /// Where brokers are, as the connection's one has said since the last call; empty: it has said nothing.
  std::vector<std::string> take_told() { return std::exchange(told_, {}); }
  /// What the broker says of shards, where that has changed since the last call.
  std::optional<ClusterWord> take_word();
  bool has_word() const { return word_is_new_; }
  /// Whether a broker has said what it says of shards, be it nothing.
  bool has_spoken() const { return has_spoken_; }
  /// The submits that it has not taken since the last call, and that it says belong to other shards.
  std::vector<Moved> take_moved() { return std::exchange(moved_, {}); }
  bool has_moved() const { return !moved_.empty(); }
  /// Forgets a request, whose handler is not called. Nothing happens where it is not pending.
  void drop(std::uint64_t ref);

  /// As in the constructor, from now on.
  void set_endpoints(std::size_t count) { endpoints_ = count; }

  /// Whether the connection is to be replaced now. What the old one has received is to be heard before.
  bool reopen_is_due(TimePoint now) const { return reopen_at_ && *reopen_at_ <= now; }
  /// Why it is due, or was the last time.
  enum class Reason : unsigned char {
    silence,    ///< the connection is gone, or the broker silent
    unmet,      ///< it ended before the handshake: libzmq tries again on the same socket, too
    not_owner,  ///< the broker may not own its store
    nobody,     ///< nobody listens there
    round,      ///< nobody serves at any of the endpoints
  };
  Reason reason() const { return reason_; }
  /// True, once per decision: replace the connection now. All pending requests are then sent on it, in their
  /// order.
  bool take_reopen(TimePoint now);
  /// The new connection could not be begun: it is due again after a second.
  void reopen_failed(TimePoint now);

  /// The next message to send; empty: none. The same until sent() is called.
  std::optional<Outgoing> next_send();
  void sent(TimePoint now);

  /// A stream's reader has taken all pieces up to `seq`. Ignored for ended streams. True: there is more to
  /// send, or next_wakeup() is earlier than before.
  bool seen(std::uint64_t ref, std::int64_t seq, TimePoint now);
  /// The same for all readers of the job that do not take at once.
  bool seen(const std::string& id, std::int64_t seq, TimePoint now);

  /// Ends all pending requests with the local error `cancelled`.
  void close();
  /// Ends all pending requests with that error, each with its own id.
  void end_all(const ClientError& why);

  /// Replaces `out` by the pieces that came, in order within each stream. To be delivered before what
  /// take_finished() returns.
  void take_arrived(std::vector<Arrived>& out);
  /// Replaces `out` by the requests that have ended, in the order of their ends.
  void take_finished(std::vector<Finished>& out);

  std::size_t pending() const { return pending_.size(); }
  /// Connections in a row that were lost without a message.
  int lost() const { return lost_; }
  const ClientCounters& counters() const { return counters_; }

 private:
  /// The state of a stream. All numbers are of pieces.
  struct Stream {
    std::int64_t first = 0;           ///< the first piece wanted
    std::int64_t next = 0;            ///< the next piece to come
    std::int64_t taken = 0;           ///< the reader has all before it
    std::int64_t said = 0;            ///< the broker knows that the reader has all before it
    std::deque<std::size_t> sizes{};  ///< bytes of each piece, from `said` on
    std::size_t unsaid_bytes = 0;     ///< bytes that the reader has taken, unreported
    bool by_fetch = false;            ///< last asked for with a fetch, not the submit
    bool seen_due = false;
    std::optional<TimePoint> seen_at{}, fetch_at{};  ///< when at the latest
    std::optional<TimePoint> heard_at{};
    int ends_without_pieces = 0;
  };
  /// The state of a watch. All numbers are of changes.
  struct Following {
    std::int64_t next = 0;  ///< the next one to come
    std::int64_t said = 0;  ///< the broker knows that all before it have come
    bool begun = false;     ///< on this connection
    bool again = false;     ///< on an earlier one
    bool seen_due = false;
  };
  struct Pending {
    Request request;
    std::optional<TimePoint> sent_at{};  ///< the last time; empty: never
    TimePoint probed_at{};               ///< when its job was asked for
    std::unique_ptr<Stream> stream{};    ///< for kind stream
    std::unique_ptr<Following> watch{};  ///< for kind watch

    /// Since when nothing was heard of its job; empty: it waits for none, or was not sent yet.
    std::optional<TimePoint> waits_since() const;
  };
  using Table = std::unordered_map<std::uint64_t, Pending>;

  void collect();
  void note_life(TimePoint now);
  Table::iterator find(wire::Raw ref, std::string_view id);
  Table::iterator oldest(RequestKind kind);
  /// Whether what came answers a request of that kind; else it is counted as dropped.
  bool answers(Table::iterator at, RequestKind kind);
  void untie(Table::iterator at);
  Request take_out(Table::iterator at);
  void finish(Table::iterator at, Outcome outcome);
  void answer(Table::iterator at, Outcome outcome);
  static std::string take_id(Table::iterator at);
  void expire(TimePoint now);
  bool awaits_first_word() const { return endpoints_ > 1 && !heard_here_; }
  TimePoint ping_at() const {
    return std::max(quiet_since_, pinged_) + (awaits_first_word() ? kFirstPingAfter : kPingAfter);
  }
  TimePoint silent_at() const {
    return quiet_since_ + (awaits_first_word() ? kFirstWordWithin : kReopenAfter);
  }
  void look_for_owner(const wire::ErrorReply& reply, TimePoint now);
  void reopen_at(TimePoint time, Reason reason) {
    reopen_at_ = time;
    reason_ = reason;
    counters_.answers = false;
  }
  /// Whether it is the submit of a job of which nothing was heard.
  static bool is_unheard_submit(const Pending& pending);
  void move(Table::iterator at, const wire::ErrorReply& reply);
  void leave_wrong_shard(TimePoint now);
  void note_cluster(const wire::Pong& reply);
  const std::string& shard() const { return shard_wanted_.empty() ? word_.shard : shard_wanted_; }
  bool blame_largest_body();
  void probe(TimePoint now);
  void probed(const wire::StatusReply& reply, TimePoint now);
  bool seen(Table::iterator at, std::int64_t seq, TimePoint now);
  void expire_streams(TimePoint now);
  void fetch_stream(Table::iterator at);
  void fetch_stream_later(Table::iterator at, TimePoint now);
  bool fetched_for_pieces(Table::iterator at, std::int64_t chunks);
  bool show_seen();
  Outgoing show_fetch(const Pending& pending);
  void said_all(Stream& stream);

  void on(const wire::Accepted& reply, const Blob& body, TimePoint now);
  void on(const wire::ChunkReply& reply, const Blob& body, TimePoint now);
  void on(const wire::JobResult& reply, const Blob& body, TimePoint now);
  void on(const wire::ErrorReply& reply, const Blob& body, TimePoint now);
  void on(const wire::StatusReply& reply, const Blob& body, TimePoint now);
  void on(const wire::StatsReply& reply, const Blob& body, TimePoint now);
  void on(const wire::Pong& reply, const Blob& body, TimePoint now);
  void on(const wire::Spent& reply, const Blob& body, TimePoint now);
  void on(const wire::AdminReply& reply, const Blob& body, TimePoint now);
  void on(const wire::Watching& reply, const Blob& body, TimePoint now);
  void on(const wire::JobEvent& reply, const Blob& body, TimePoint now);
  void watch_again(Table::iterator at);
  void renew_watches(TimePoint now);

  Table pending_;
  std::set<std::pair<TimePoint, std::uint64_t>> deadlines_;
  std::deque<std::uint64_t> to_send_;   ///< refs; those no longer pending are skipped
  std::vector<std::uint64_t> sending_;  ///< of these the ones in next_send()'s message
  std::size_t sending_from_ = 0;        ///< entries of to_send_ that they are from
  const std::size_t batch_max_;
  std::size_t broker_batch_ = 0;     ///< as this connection's broker accepts
  bool broker_batch_asked_ = false;  ///< asked on this connection
  Buffer items_, batch_;
  std::vector<Finished> finished_;

  std::unordered_multimap<std::string, std::uint64_t> streams_by_id_;  ///< streams that are not taken at once
  /// Refs with times; sorted, since each list has one delay. Entries may be out of date.
  std::deque<std::pair<TimePoint, std::uint64_t>> seen_timers_, fetch_timers_;
  std::deque<std::uint64_t> seens_;  ///< refs; those no longer pending are skipped
  Buffer stream_header_;             ///< of the seen or fetch in next_send()
  std::vector<Arrived> arrived_;

  std::optional<TimePoint> renew_at_;  ///< set while there are watches

  enum class Next : unsigned char { request, ping, probe, seen };
  Next next_ = Next::request;  ///< the kind of message in next_send()
  std::string ping_header_;
  bool ping_due_ = false;
  Probes probes_;

  TimePoint quiet_since_;  ///< the last message, or since when one is expected
  TimePoint pinged_;
  TimePoint unheard_since_;  ///< as quiet_since_, but a new connection is no word
  std::size_t endpoints_;
  EndpointRounds rounds_;
  bool heard_here_ = false;  ///< a word by this connection
  std::optional<TimePoint> reopen_at_;
  Reason reason_ = Reason::silence;  ///< of reopen_at_
  bool connected_ = false;
  int fruitless_ = 0;  ///< connections in a row that were made and lost without a message
  int lost_ = 0;       ///< the same, with those that were never made
  ClientCounters counters_;
  std::vector<std::string> told_;  ///< endpoints

  const std::string shard_wanted_;  ///< empty: any
  ClusterWord word_;
  bool word_is_new_ = false, has_spoken_ = false;
  std::vector<Moved> moved_;
};

}  // namespace lanemq::client
