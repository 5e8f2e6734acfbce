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
#include <lanemq/messages.hpp>

namespace lanemq::client {

using TimePoint = std::chrono::steady_clock::time_point;

/// What a request asks for, and so which replies end it.
enum class RequestKind : unsigned char { submit, stream, leave, fetch, status, cancel, stats, ping, admin };

/// How a request ended: the value fits its kind, except that a fetch ends with JobDone or JobStatus.
using Outcome = Reply<std::variant<JobDone, JobAccepted, JobStatus, BrokerStats, BrokerPong, AdminDocument>>;
using Handler = std::function<void(Outcome&&)>;
using ChunkHandler = std::function<void(JobChunk)>;

/// A request as it goes over the wire, any number of times with the same bytes.
struct Request {
  std::uint64_t ref = 0;  ///< unique in the session and not 0, which is the session's own
  RequestKind kind = RequestKind::ping;
  std::string id{};            ///< the job's, where there is one
  std::string header{};        ///< encoded; holds a small body
  Blob body{};                 ///< a frame of its own; owns its bytes; empty: there is none
  std::size_t body_bytes = 0;  ///< of the job's body, wherever it travels
  BatchItem item{};            ///< of a job that may go in a batch: its map in the header, body behind it
  TimePoint asked{};
  std::optional<TimePoint> deadline{};
  Handler handler{};  ///< never called here

  // Of a stream.
  std::shared_ptr<const ChunkHandler> on_chunk{};  ///< never called here
  bool takes_at_once = true;
  /// The first piece wanted of a job that was submitted before; empty: the request is the submit.
  std::optional<std::int64_t> from_seq{};
};

/// A piece of a stream that came, and who is to be told. Who takes at once is to say so with seen().
struct Arrived {
  std::uint64_t ref = 0;
  bool takes_at_once = true;
  std::shared_ptr<const ChunkHandler> on_chunk{};
  JobChunk chunk{};
  std::size_t freed_bytes = 0;  ///< of the request's body, which is not needed any more
};

/// A request that is over, and what is to be told to whom.
struct Finished {
  Handler handler{};
  Outcome outcome{};
  std::size_t body_bytes = 0;  ///< of the request
};

/// What is to be sent next, of several requests perhaps; the views live until the session is told anything.
struct Outgoing {
  std::string_view header;
  const Blob* body = nullptr;  ///< null: there is none
};

/// One client's side of the conversation, without a socket and without a clock.
///
/// Told what the caller wants, what was heard and what happened to the connection, it says what is to be
/// sent, when to make a new connection and which requests are over. Requests are kept until they are over and
/// sent again on every new connection. Not thread-safe.
class Session {
 public:
  static constexpr std::chrono::milliseconds kPingAfter{1'000};  ///< silence before a ping is sent
  static constexpr std::chrono::milliseconds kReopenAfter{
      3'000};  ///< silence before a new connection is made
  /// An answer may be lost over a connection that lives (a broker drops what a slow reader leaves unread):
  /// where a job was sent so long ago, its state is asked for, one job at a time, and one that is over is
  /// sent again, which brings its answer.
  static constexpr std::chrono::milliseconds kProbeAfter{10'000};
  static constexpr std::chrono::milliseconds kProbeEvery{5'000};
  /// What a reader took is told to the broker when it is a quarter of a window, at the latest after this.
  static constexpr std::chrono::milliseconds kSeenAfter{250};
  /// `seen` messages due within this time of one another are sent together.
  static constexpr std::chrono::milliseconds kSeenTogether{50};
  static constexpr std::size_t kSeenChunks = limits::stream_chunks_max / 4;
  static constexpr std::size_t kSeenBytes = limits::stream_bytes_max / 4;
  /// A stream that is to be fetched again waits so long since it was asked for last.
  static constexpr std::chrono::milliseconds kFetchPause{1'000};
  static constexpr std::chrono::milliseconds kFetchWait{60'000};  ///< at most, by the protocol
  /// Ends of a stream in a row that came without the pieces before them, until it is given up as `gone`.
  static constexpr int kEndsWithoutPiecesMax = 3;
  /// Connections in a row that were made and lost without a word, before the largest body is blamed for it: a
  /// peer whose frame is over the broker's limit is cut off without an answer.
  static constexpr int kFruitlessMax = 6;

  /// `now` is when the first connection was begun. With `batch_max` over 1 jobs that wait together go in
  /// batches of up to so many, on each connection whose broker was asked and takes them.
  explicit Session(TimePoint now, std::size_t batch_max = 0);

  void begin(Request request, TimePoint now);

  /// A message from the broker with its body, which is copied if it is kept and does not own its bytes.
  void heard(const wire::ClientReply& reply, const Blob& body, TimePoint now);
  /// A message that could not be read: no sign of life, as whoever listens there may be no broker.
  void heard_nonsense();

  void connected();
  /// The connection is gone; a new one is due at once, or after a pause when the last ones came to nothing.
  void disconnected(TimePoint now);

  /// Ends what is overdue and decides on pings and on a new connection.
  void advance(TimePoint now);
  /// When advance() has something to do at the latest; empty: nothing is pending.
  std::optional<TimePoint> next_wakeup() const;

  /// True once per decision: make a new connection now, in the place of the old; everything pending is then
  /// sent on it, in the order of its asking.
  bool take_reopen(TimePoint now);
  /// The new connection could not even be begun: it is due again after a second.
  void reopen_failed(TimePoint now);

  /// What to send next; empty: nothing. Stays the same until sent() is called.
  std::optional<Outgoing> next_send();
  void sent(TimePoint now);

  /// The reader of a stream has taken all pieces up to `seq`. What is no stream any more is ignored. True:
  /// there is more to send, or next_wakeup() is earlier than it was.
  bool seen(std::uint64_t ref, std::int64_t seq, TimePoint now);
  /// The same for all readers of a job that do not take at once.
  bool seen(const std::string& id, std::int64_t seq, TimePoint now);

  /// Ends everything that is pending with the local error `cancelled`.
  void close();

  /// The pieces that came, each stream's in order; replaces the content of `out`. They are for their readers
  /// before what take_finished() gives.
  void take_arrived(std::vector<Arrived>& out);
  /// The requests that are over, in the order of their ending; replaces the content of `out`.
  void take_finished(std::vector<Finished>& out);

  std::size_t pending() const { return pending_.size(); }
  /// Connections in a row that were lost without a word.
  int lost() const { return lost_; }
  const ClientCounters& counters() const { return counters_; }

 private:
  /// How far a stream is. All numbers are of pieces.
  struct Stream {
    std::int64_t first = 0;           ///< the first one wanted
    std::int64_t next = 0;            ///< comes next
    std::int64_t taken = 0;           ///< the reader has all before
    std::int64_t said = 0;            ///< the broker knows that the reader has all before
    std::deque<std::size_t> sizes{};  ///< in bytes, from `said` on
    std::size_t unsaid_bytes = 0;     ///< of those that the reader has
    bool by_fetch = false;            ///< asked for with a fetch, else with the submit
    bool seen_due = false;
    std::optional<TimePoint> seen_at{}, fetch_at{};  ///< when to say or to ask at the latest
    std::optional<TimePoint> heard_at{};
    int ends_without_pieces = 0;
  };
  struct Pending {
    Request request;
    std::optional<TimePoint> sent_at{};  ///< the last time; empty: never
    std::unique_ptr<Stream> stream{};    ///< of kind stream
  };
  using Table = std::unordered_map<std::uint64_t, Pending>;

  void collect();
  void note_life(TimePoint now);
  Table::iterator find(wire::Raw ref, std::string_view id);
  Table::iterator oldest(RequestKind kind);
  void finish(Table::iterator at, Outcome outcome);
  void answer(Table::iterator at, Outcome outcome);
  static std::string take_id(Table::iterator at);
  void expire(TimePoint now);
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
  void on(const wire::AdminReply& reply, const Blob& body, TimePoint now);

  Table pending_;
  std::set<std::pair<TimePoint, std::uint64_t>> deadlines_;
  std::deque<std::uint64_t> to_send_;   ///< refs; those no longer pending are passed over
  std::vector<std::uint64_t> sending_;  ///< the first of them, which next_send() showed last
  std::size_t sending_from_ = 0;        ///< entries of to_send_ that they are taken from
  const std::size_t batch_max_;
  std::size_t broker_batch_ = 0;     ///< what this connection's broker takes
  bool broker_batch_asked_ = false;  ///< on this connection
  Buffer items_, batch_;
  std::vector<Finished> finished_;

  std::unordered_multimap<std::string, std::uint64_t> streams_by_id_;  ///< those that do not take at once
  /// Refs with what is due when; both in order, as each list has one delay. Entries may be out of date.
  std::deque<std::pair<TimePoint, std::uint64_t>> seen_timers_, fetch_timers_;
  std::deque<std::uint64_t> seens_;  ///< refs; those no longer pending are passed over
  Buffer stream_header_;             ///< of a seen or a fetch, which next_send() showed last
  std::vector<Arrived> arrived_;

  enum class Next : unsigned char { request, ping, probe, seen };
  Next next_ = Next::request;  ///< what next_send() showed last
  std::string ping_header_, probe_header_;
  bool ping_due_ = false, probe_due_ = false;
  std::uint64_t probed_ = 0;  ///< the request whose job was asked for last
  TimePoint probe_at_;

  TimePoint quiet_since_;  ///< the last word heard, or since when one is expected
  TimePoint pinged_;
  std::optional<TimePoint> reopen_at_;
  bool connected_ = false;
  int fruitless_ = 0;  ///< connections in a row that were made and lost without a word
  int lost_ = 0;       ///< the same, and those that came to no connection
  ClientCounters counters_;
};

}  // namespace lanemq::client
