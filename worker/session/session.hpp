// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lanemq/codec.hpp>
#include <lanemq/end_times.hpp>
#include <lanemq/worker.hpp>

#include "worker/session/completion.hpp"
#include "worker/session/large_outcomes.hpp"

namespace lanemq::worker {

/// Outcomes kept until they are acknowledged. Beyond this the oldest is dropped: the broker then misses the
/// job in the inventory and runs it again, so nothing is lost.
inline constexpr std::size_t kOutcomesMax = end_times::outcomes_max;
inline constexpr std::size_t kOutcomeBytesMax =
    end_times::outcome_bytes_max;  ///< the same in bytes of their bodies
/// Leases in one inventory: as many as a worker may hold; that fits a header.
inline constexpr std::size_t kInventoryMax = limits::capacity_max;
/// Jobs or outcomes in one message, where the broker accepts batches; more gain nothing.
inline constexpr std::size_t kBatchMax = 16;
/// After so many heartbeat intervals without a message the worker gives the connection up.
inline constexpr int kSilentIntervals = end_times::silent_intervals;
/// The same before the first `welcome`, when no interval is known: a wrong endpoint is reported soon.
inline constexpr std::chrono::milliseconds kFirstWordWithin = end_times::worker_first_word_within;
/// A job's progress is sent at most so often; of words in between the last one.
inline constexpr std::chrono::milliseconds kProgressEvery = end_times::progress_every;
/// Bytes of a failure's message to people. The broker puts a code and a reason in front, and 4096 have to
/// hold all of it.
inline constexpr std::size_t kMessageBytesMax = 3840;

/// Messages to the broker, oldest first: encoded headers in one buffer, each with the body of a following
/// frame, if any. Consecutive outcomes make a batch, where the broker accepts batches.
///
/// Bounded by the session: one message per lease, an outcome, a heartbeat, and a window of chunks per stream,
/// since the worker does not read while messages are unsent.
class Outbox {
 public:
  struct Message {
    std::string_view header;  ///< valid until the next push or front
    const Blob* body;         ///< null: no body frame
  };

  bool empty() const { return next_ == entries_.size(); }
  /// The oldest message. Requires: !empty().
  Message front() const;
  void pop();
  void clear();

  /// Appends a message; a small `body` goes into the header, any other into a frame of its own.
  template <class WireMessage>
  void push(const WireMessage& message, const Blob& body = {});
  /// Sets how many outcomes may share a message; 0 and 1: each goes alone.
  void set_batch_max(std::size_t items) { batch_max_ = items; }

 private:
  struct Entry {
    std::size_t begin = 0, end = 0;  ///< of the header; unused for a batch
    Blob body{};
    std::optional<Batch> batch{};
  };
  Buffer headers_;  ///< also holds the items of batches
  mutable Buffer assembled_;
  std::vector<Entry> entries_;
  std::size_t next_ = 0, batch_max_ = 0;
};

/// What the session wants the worker to do, in order.
struct StartJob {
  wire::Lease lease;
  std::size_t service;                 ///< index into SessionOptions::services
  std::shared_ptr<StreamGate> gate{};  ///< for a job that asks for a stream
};
struct CancelJob {
  wire::Lease lease;
  std::size_t service;
};
/// A handler that was told to wait may go on.
struct ResumeJob {
  wire::Lease lease;
  std::size_t service;
};
struct Reconnect {};  ///< make a new connection, then call connected()
/// The broker has accepted the worker, and says where else one may go on in its place.
struct Welcomed {
  std::vector<std::string> endpoints{};
};
/// The broker said which shards there are, as msgpack (lanemq/shards.hpp): in front of Welcomed, and whenever
/// it confirms a `ready`.
struct ShardsTold {
  std::string shards{};
};
struct Left {};  ///< all is done: send what is unsent, and end
/// The broker refused the worker; refusal() says why. `ever`: it would refuse the same again.
struct Refused {
  bool ever = false;
};

using Effect = std::variant<StartJob, CancelJob, ResumeJob, Reconnect, ShardsTold, Welcomed, Left, Refused>;
using Effects = std::vector<Effect>;

struct SessionOptions {
  std::vector<std::string> services, lanes;
  std::string name, version;
  std::string process;  ///< the worker's process (lanemq/process_name.hpp); empty: not sent
  std::size_t capacity = 1;
  std::size_t body_bytes_max = limits::body_bytes_max;
  std::string shard{};  ///< the only one whose brokers it serves; empty: that of who welcomes it
};

/// Figures for the log.
struct SessionCounters {
  std::uint64_t started = 0, succeeded = 0, failed = 0, released = 0, cancelled = 0;
  std::uint64_t stale = 0;             ///< outcomes that came too late
  std::uint64_t duplicates = 0;        ///< offers of a lease that is held already
  std::uint64_t outcomes_dropped = 0;  ///< never acknowledged, dropped over kOutcomesMax or kOutcomeBytesMax

  SessionCounters& operator+=(const SessionCounters& other);
};

/// A worker's side of the protocol as a state machine: ready, welcome, jobs, heartbeats, reconnect, drain.
///
/// Pure: it is told messages and times, fills its outbox, and returns what the worker is to do. It knows the
/// running leases and the outcomes that the broker has not acknowledged; it sends those again after each loss
/// of the connection or the broker. Not thread-safe.
///
/// Job numbers are those of one shard. So what the session holds goes to brokers of that shard alone, and
/// only when they have said that they are: another one might take a lease for one of its own.
class Session {
 public:
  /// Requires: at least one service, 1 <= capacity <= limits::capacity_max.
  explicit Session(SessionOptions options);

  /// A new connection exists or is being made: drops unsent messages, greets the broker, and sends the
  /// inventory.
  void connected(TimePoint now);
  /// Nobody listens where the connection is to be made: Reconnect is due at `again`, unless it is due before.
  void found_nobody(TimePoint again);
  /// Handles a command of the broker. Keeps no views of it.
  void receive(const wire::WorkerCommand& command, TimePoint now, Effects& effects);
  /// The broker sent something unreadable, which proves that it lives.
  void heard(TimePoint now) { heard_at_ = now; }
  /// It was the hand-over of that job, which ends with a failure.
  void refuse_unreadable(wire::Lease lease, std::string_view why);
  /// A piece of a job's streamed answer. Ignored for unknown and unwanted leases. A piece that cannot be sent
  /// fails its job.
  void chunk(StreamPiece piece, TimePoint now, Effects& effects);
  /// How far a job is. Ignored for unknown leases and for those that nobody wants.
  void progress(ProgressWord word, TimePoint now);
  /// A job is over; its outcome is sent behind its pieces. Ignored for unknown leases.
  void finish(wire::Lease lease, JobOutcome outcome, TimePoint now, Effects& effects);
  /// Takes no more jobs; leaves when the last one is over, at `deadline` in any case.
  void drain(TimePoint deadline, TimePoint now, Effects& effects);
  /// Leaves now; the broker gives running jobs to other workers.
  void leave(TimePoint now, Effects& effects);
  /// Does what is due by now: words and large outcomes that waited, heartbeats, a silent broker, the end of a
  /// drain. Also to be called after receive().
  void advance(TimePoint now, Effects& effects);
  /// Changes how many jobs the session takes, 0..SessionOptions::capacity: more at once, and fewer once the
  /// broker has confirmed it, since offers may be under way until then. Not while it drains.
  void set_capacity(std::size_t capacity);
  /// When advance() has work next.
  TimePoint next_wakeup() const;

  Outbox& outbox() { return outbox_; }
  /// Jobs whose outcomes the broker waits for.
  std::size_t running() const { return running_; }
  std::size_t outcomes() const { return outcomes_; }
  /// So many jobs may run at once, whatever comes: further offers are handed back.
  std::size_t places() const { return leaving_ ? running_ : std::max(taken_max_, running_); }
  /// What the broker was last told that the session takes.
  std::size_t capacity() const { return capacity_; }
  /// The most jobs that ran at once since the last call.
  std::size_t take_peak() { return std::exchange(peak_, running_); }
  std::size_t answer_bytes_max() const { return answer_bytes_max_; }
  /// The lane of jobs that name none, as the broker says; empty: it has not said.
  const std::string& default_lane() const { return default_lane_; }
  const std::string& broker_session() const { return broker_session_; }
  /// The shard, from its broker; empty: there are none, or none has welcomed the session yet.
  const std::string& shard() const { return shard_; }
  /// Whether the broker has welcomed the worker by this connection.
  bool serves() const { return state_ == State::serving; }
  /// Whether all is done: it said Left.
  bool has_left() const { return state_ == State::left; }
  bool is_leaving() const { return leaving_; }
  /// The broker's reason for refusing the worker.
  const std::string& refusal() const { return refusal_; }
  const SessionCounters& counters() const { return counters_; }

 private:
  enum class State : unsigned char { unconnected, greeting, serving, parting, left };

  /// A streamed answer: the pieces that the broker has not confirmed as taken, which are sent again after a
  /// reconnect. Bounded by the gate.
  struct Stream {
    std::shared_ptr<StreamGate> gate;
    std::deque<Blob> kept;
    std::int64_t first = 0;                ///< number of the first kept piece
    std::size_t sent = 0, sent_bytes = 0;  ///< of the kept pieces, by this connection; at most a window
    std::size_t kept_bytes = 0;
    std::optional<JobOutcome> outcome;  ///< sent after all pieces
    bool unwanted = false;              ///< nobody wants more pieces

    bool has_unsent() const { return sent < kept.size(); }
    /// Sends nothing more; what is on its way arrives.
    void stop();
  };

  /// The last word of a job's progress.
  struct Word {
    JobProgress said;
    TimePoint sent_at{};
    bool unsent = false;  ///< it came too soon behind the one before
  };

  /// What the session knows of a lease.
  struct Held {
    enum class Phase : unsigned char {
      running,     ///< its handler runs it; counted in running()
      superseded,  ///< in its handler, but the broker has a newer attempt; its outcome still settles its
                   ///< usage
      dropped,     ///< its handler runs it, and nobody wants its outcome
      finished,    ///< its outcome is not acknowledged
    };
    Phase phase = Phase::running;
    std::uint32_t service = 0;
    std::uint64_t order = 0;  ///< of finishing
    JobOutcome outcome;
    std::unique_ptr<Stream> stream{};
    std::unique_ptr<Word> word{};  ///< null: its handler has said none
    std::size_t bytes() const { return outcome.body.size() + (stream ? stream->kept_bytes : 0); }
  };
  struct ByJob {
    bool operator()(const wire::Lease& a, const wire::Lease& b) const {
      return a.job != b.job ? a.job < b.job : a.attempt < b.attempt;
    }
  };
  using Table = std::map<wire::Lease, Held, ByJob>;

  void on(const wire::Welcome& welcome, TimePoint now, Effects& effects);
  void on(const wire::JobOffer& offer, TimePoint now, Effects& effects);
  void on(const wire::Acked& acked, TimePoint now, Effects& effects);
  void on(const wire::CancelJob& cancel, TimePoint now, Effects& effects);
  void on(const wire::Window& window, TimePoint now, Effects& effects);
  void on(const wire::Heartbeat& heartbeat, TimePoint now, Effects& effects);
  void on(const wire::Drain& drain, TimePoint now, Effects& effects);
  void on(const wire::Bye& bye, TimePoint now, Effects& effects);
  void on(const wire::WorkerRefusal& refusal, TimePoint now, Effects& effects);

  void on_unread(Table::iterator place, const wire::WorkerRefusal& refusal, TimePoint now, Effects& effects);
  bool is_ours(std::string_view shard) const;
  void turn_from(std::string_view shard, TimePoint now, Effects& effects);
  void greet(TimePoint now);
  void say_what_it_holds(TimePoint now);
  /// Whether the broker has still to say that it is one of this shard.
  bool holds_back() const { return state_ == State::greeting && !shard_.empty(); }
  void say_ready(std::size_t capacity);
  void say_inventory(bool with_outcomes, TimePoint now);
  void say_outcome(const wire::Lease& lease, const JobOutcome& outcome);
  void say_word(const wire::Lease& lease, Word& word, TimePoint now);
  void say_words_due(TimePoint now);
  void say_chunks(const wire::Lease& lease, Stream& stream);
  void say_chunks_again(const wire::Lease& lease, Stream& stream);
  void say_outcomes_again(TimePoint now);
  void say_large(wire::Lease lease);
  void say_all_large(TimePoint now);
  void complete(Table::iterator place, JobOutcome outcome, TimePoint now, Effects& effects);
  void complete_streams(TimePoint now, Effects& effects);
  void fail(Table::iterator place, JobFailure failure, TimePoint now, Effects& effects);
  bool stop_stream(Table::iterator place, TimePoint now, Effects& effects);
  void part(TimePoint now, Effects& effects);
  void depart(Effects& effects);
  void reconnect_later(TimePoint now);
  void supersede_older(wire::Lease lease, TimePoint now, Effects& effects);
  void refuse(wire::Lease lease, JobFailure failure);
  void keep(Table::iterator place, JobOutcome outcome);
  void forget_outcome(Table::iterator place);
  void drop_oldest_outcome();
  void on_stale(wire::Lease lease, Effects& effects);
  std::optional<std::size_t> service_index(std::string_view name) const;
  TimePoint heartbeat_due() const;

  const SessionOptions options_;
  State state_ = State::unconnected;
  bool leaving_ = false;        ///< drain() was called
  bool told_to_drain_ = false;  ///< by the broker, until its next welcome
  bool met_before_ = false;     ///< a broker may know leases of this worker
  bool parted_again_ = false;   ///< `bye` was repeated once, for a broker that had forgotten the worker
  std::chrono::milliseconds heartbeat_{1000};
  std::size_t answer_bytes_max_;
  std::string session_;  ///< from the broker's welcome; names this worker after a reconnect
  std::string broker_session_, refusal_, default_lane_, shard_;

  TimePoint heard_at_{}, said_heartbeat_at_{}, heard_heartbeat_at_{};
  TimePoint reconnect_at_{};  ///< greeting: when it counts as unheard
  TimePoint drain_deadline_{}, parting_until_{};
  TimePoint words_due_ = TimePoint::max();  ///< the first word that is unsent

  std::size_t capacity_, taken_max_;        ///< as said; as taken, until that is confirmed
  std::size_t unconfirmed_ = 0, peak_ = 0;  ///< each `ready` on this connection is answered

  Table table_;
  std::size_t running_ = 0, outcomes_ = 0, outcome_bytes_ = 0;
  std::uint64_t finished_ = 0;  ///< so many; the order of outcomes
  LargeOutcomes large_;
  SessionCounters counters_;
  Outbox outbox_;
};

}  // namespace lanemq::worker
