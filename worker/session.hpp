// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <lanemq/codec.hpp>
#include <lanemq/worker.hpp>

#include "worker/completion.hpp"
#include "worker/large_outcomes.hpp"

namespace lanemq::worker {

/// Outcomes kept for the case that the broker did not get them. When there are more, the oldest goes: the
/// broker then misses the job in the inventory and has it done again, so nothing is lost.
inline constexpr std::size_t kOutcomesMax = 2048;
inline constexpr std::size_t kOutcomeBytesMax =
    std::size_t{512} * 1024 * 1024;  ///< the same, in bytes of their bodies
/// Leases in one inventory: as many as a worker may hold, which fits a header.
inline constexpr std::size_t kInventoryMax = limits::capacity_max;
/// Jobs and outcomes that go in one message, where the broker takes batches: more gain nothing.
inline constexpr std::size_t kBatchMax = 16;
/// Heartbeat intervals without a word from the broker after which the connection is given up.
inline constexpr int kSilentIntervals = 3;
/// What is asked of the messages to people in failures.
inline constexpr std::size_t kMessageBytesMax = 1024;

/// Messages on their way to the broker, oldest first: encoded headers in one buffer, each with the body that
/// follows in a frame of its own, if any. Outcomes that follow each other make a batch, where those are
/// taken.
///
/// Bounded by the session: at most one message a lease, an outcome, a heartbeat and a window of chunks a
/// stream, as the worker does not read while something is unsent.
class Outbox {
 public:
  struct Message {
    std::string_view header;  ///< valid until the next push or front
    const Blob* body;         ///< null: no further frame
  };

  bool empty() const { return next_ == entries_.size(); }
  /// The oldest message. Requires: !empty().
  Message front() const;
  void pop();
  void clear();

  /// Appends a message. `body` goes into the header when it is small, else into a frame of its own.
  template <class WireMessage>
  void push(const WireMessage& message, const Blob& body = {});
  /// From now on up to `items` outcomes go in one message; 0 and 1: each alone.
  void set_batch_max(std::size_t items) { batch_max_ = items; }

 private:
  struct Entry {
    std::size_t begin = 0, end = 0;  ///< of the header, where it is no batch
    Blob body{};
    std::optional<Batch> batch{};
  };
  Buffer headers_;  ///< and the items of batches
  mutable Buffer assembled_;
  std::vector<Entry> entries_;
  std::size_t next_ = 0, batch_max_ = 0;
};

/// What the session wants done; in order.
struct StartJob {
  wire::Lease lease;
  std::size_t service;                 ///< index into SessionOptions::services
  std::shared_ptr<StreamGate> gate{};  ///< of a job that asks for a stream
};
struct CancelJob {
  wire::Lease lease;
  std::size_t service;
};
/// The handler was told to wait and may go on.
struct ResumeJob {
  wire::Lease lease;
  std::size_t service;
};
struct Reconnect {};  ///< make a new connection, then call connected()
struct Welcomed {};   ///< the broker has taken the worker in
struct Left {};       ///< nothing remains to be done; send what is unsent and end
struct Refused {};    ///< the broker said no; refusal() tells why

using Effect = std::variant<StartJob, CancelJob, ResumeJob, Reconnect, Welcomed, Left, Refused>;
using Effects = std::vector<Effect>;

struct SessionOptions {
  std::vector<std::string> services, lanes;
  std::string name, version;
  std::string process;  ///< which one it runs in (lanemq/process_name.hpp); empty: not said
  std::size_t capacity = 1;
  std::size_t body_bytes_max = limits::body_bytes_max;
};

/// What happened, for the log.
struct SessionCounters {
  std::uint64_t started = 0, succeeded = 0, failed = 0, released = 0, cancelled = 0;
  std::uint64_t stale = 0;             ///< outcomes that came too late
  std::uint64_t duplicates = 0;        ///< offers of a lease already held
  std::uint64_t outcomes_dropped = 0;  ///< never acknowledged, over kOutcomesMax or kOutcomeBytesMax
};

/// A worker's side of the protocol as a state machine: ready, welcome, jobs, heartbeats, reconnect, drain.
///
/// Pure: it is told what arrived and what time it is, fills its outbox and says what is to be done. It knows
/// which leases are running and which outcomes the broker has not yet acknowledged; those are said again
/// after every loss of the connection or of the broker. Not thread-safe.
class Session {
 public:
  /// Requires: at least one service, 1 <= capacity <= limits::capacity_max.
  explicit Session(SessionOptions options);

  /// A new connection stands or is being made: what was unsent is forgotten, the worker introduces itself and
  /// says what it holds.
  void connected(TimePoint now);
  /// The broker said `command`. Views in it are not kept.
  void receive(const wire::WorkerCommand& command, TimePoint now, Effects& effects);
  /// Something came from the broker that could not be read. It lives, at least.
  void heard(TimePoint now) { heard_at_ = now; }
  /// A piece of a started job's streamed answer. Unknown leases, and those that nobody wants to hear of, are
  /// ignored. A handler that hands in what cannot be sent has failed, and its job ends with it.
  void chunk(StreamPiece piece, TimePoint now, Effects& effects);
  /// A started job is over; said when its pieces have been. Unknown leases are ignored.
  void finish(wire::Lease lease, JobOutcome outcome, TimePoint now, Effects& effects);
  /// Take no more jobs; leave when the last one is over, or without them at `deadline`.
  void drain(TimePoint deadline, TimePoint now, Effects& effects);
  /// Leave now; what is running is the broker's to give to others.
  void leave(TimePoint now, Effects& effects);
  /// What is due by now: large outcomes that waited for others, heartbeats, giving up a silent broker, the
  /// end of a drain. To be called after what was received, too.
  void advance(TimePoint now, Effects& effects);
  /// When advance() has something to do next.
  TimePoint next_wakeup() const;

  Outbox& outbox() { return outbox_; }
  /// Jobs whose outcome the broker waits for.
  std::size_t running() const { return running_; }
  std::size_t outcomes() const { return outcomes_; }
  std::size_t answer_bytes_max() const { return answer_bytes_max_; }
  const std::string& broker_session() const { return broker_session_; }
  /// Why the broker said no, as it put it.
  const std::string& refusal() const { return refusal_; }
  const SessionCounters& counters() const { return counters_; }

 private:
  enum class State : unsigned char { unconnected, greeting, serving, parting, left };

  /// A streamed answer: what the broker has not said that it was taken, to be sent again should the
  /// connection break. Bounded by the gate.
  struct Stream {
    std::shared_ptr<StreamGate> gate;
    std::deque<Blob> kept;
    std::int64_t first = 0;                ///< the number of the first one kept
    std::size_t sent = 0, sent_bytes = 0;  ///< of those kept, over this connection; at most a window
    std::size_t kept_bytes = 0;
    std::optional<JobOutcome> outcome;  ///< waits until all are sent
    bool unwanted = false;              ///< no more pieces

    bool has_unsent() const { return sent < kept.size(); }
    /// Nothing more is sent but what is on its way.
    void stop();
  };

  /// What is known of a lease.
  struct Held {
    enum class Phase : unsigned char {
      running,     ///< in its handler, counted
      superseded,  ///< in its handler, but the broker has a newer attempt; its outcome still settles its
                   ///< usage
      dropped,     ///< in its handler, and nobody wants to hear of it
      finished,    ///< its outcome waits to be acknowledged
    };
    Phase phase = Phase::running;
    std::uint32_t service = 0;
    std::uint64_t order = 0;  ///< of finishing
    JobOutcome outcome;
    std::unique_ptr<Stream> stream{};
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

  void greet(TimePoint now);
  void say_ready(std::size_t capacity);
  void say_inventory(bool with_outcomes, TimePoint now);
  void say_outcome(const wire::Lease& lease, const JobOutcome& outcome);
  void say_chunks(const wire::Lease& lease, Stream& stream);
  void say_chunks_again(const wire::Lease& lease, Stream& stream);
  void say_outcomes_again(TimePoint now);
  void say_large(wire::Lease lease);
  void say_all_large(TimePoint now);
  void complete(Table::iterator place, JobOutcome outcome, TimePoint now, Effects& effects);
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
  bool told_to_drain_ = false;  ///< by the broker, until it says welcome again
  bool met_before_ = false;     ///< a broker may know leases of ours
  bool parted_again_ = false;   ///< the parting was repeated once for a broker that had forgotten us
  std::chrono::milliseconds heartbeat_{1000};
  std::size_t answer_bytes_max_;
  std::string session_;  ///< as the broker named it: to come back by
  std::string broker_session_, refusal_;

  TimePoint heard_at_{}, said_heartbeat_at_{}, heard_heartbeat_at_{};
  TimePoint reconnect_at_{};  ///< greeting: when the greeting counts as unheard
  TimePoint drain_deadline_{}, parting_until_{};

  Table table_;
  std::size_t running_ = 0, outcomes_ = 0, outcome_bytes_ = 0;
  std::uint64_t finished_ = 0;  ///< so far; the order of outcomes
  LargeOutcomes large_;
  SessionCounters counters_;
  Outbox outbox_;
};

}  // namespace lanemq::worker
