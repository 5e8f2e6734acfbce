// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include <lanemq/blob.hpp>
#include <lanemq/messages.hpp>

#include "broker/core/base/identity.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/outbox.hpp"

namespace lanemq::core {

struct Drawn;

// Events that the broker handles. Views and pointers are valid during handle() alone; the core copies what it
// keeps. It adopts a body that owns its bytes, and copies a borrowed one.

/// Where a request came from: the connection's address and the frames in front of the header.
struct Origin {
  std::string_view address;
  std::string_view envelope;     ///< packed; the answer carries it back
  bool one_answer = false;       ///< a REQ: exactly one answer, ever
  Grouping* grouping = nullptr;  ///< of the connection, where it is at hand
  Peer peer = Peer::client;      ///< the socket that the request came by, and its answers leave by
  /// By its key; null: the broker asks for none. Ids and client of the request are in its space already.
  const Identity* identity = nullptr;
};

struct Submitted {
  Origin from;
  const wire::Submit* fields;
  Blob body;
};
struct CancelAsked {
  Origin from;
  const wire::Cancel* fields;
};
struct StatusAsked {
  Origin from;
  const wire::StatusQuery* fields;
};
struct FetchAsked {
  Origin from;
  const wire::Fetch* fields;
};

/// A client or an operator follows jobs. Requires: the fields have a ref.
struct WatchAsked {
  Origin from;
  const wire::Watch* fields;
};

/// An operator asks for something, or wants something changed.
struct AdminAsked {
  Origin from;
  const wire::AdminQuery* fields;
  const OptionEditor* edit = nullptr;  ///< applies a changed setting; null: settings cannot be changed
};

/// A gateway asks for a share of what a key may use.
struct SpendAsked {
  Origin from;
  const wire::Spend* fields;
};

/// A client has taken chunks of a stream, or events of a watch.
struct SeenSaid {
  Origin from;
  const wire::Seen* fields;
};

struct WorkerReady {
  std::string_view address;
  const wire::Ready* fields;
  const Identity* identity = nullptr;  ///< as in Origin
  bool watched = false;  ///< WorkerDisconnected would say so if its process ended: it runs on this machine
};
struct ChunkReported {
  std::string_view address;
  const wire::Chunk* fields;
  Blob body;
};
struct ProgressReported {
  std::string_view address;
  const wire::Progress* fields;
};
struct OutcomeReported {
  std::string_view address;
  const wire::Outcome* fields;
  Blob body;
};
struct FailureReported {
  std::string_view address;
  const wire::Failure* fields;
  Blob body;
};
struct HeartbeatHeard {
  std::string_view address;
  const wire::Heartbeat* fields;
};
struct WorkerLeaving {
  std::string_view address;
};
/// A worker sent a message that was not understood or needs no answer. It proves that the worker lives.
struct WorkerHeard {
  std::string_view address;
};
/// A worker does not read what it is sent: treated as if it were gone.
struct WorkerUnreachable {
  std::string_view address;
};
/// The transport says that nobody is at this address any more: the worker died, or only its connection did.
struct WorkerDisconnected {
  /// The state of the worker's process, as the system tells it.
  enum class Process : std::uint8_t { unknown, lives, ended };
  std::string_view address;
  Process process = Process::unknown;
};
/// The transport says that nobody is at this address any more.
struct ClientUnreachable {
  std::string_view address;
};
/// A key is void, or allows something else: its connections are treated as gone. Connections that may go on
/// report so with their next message.
struct KeyRevoked {
  std::string_view name;
};
/// No more work: what is queued is refused, what runs may finish.
struct DrainAsked {};

/// The store has read back the body of a job; none: the store does not have it, and should.
struct BodyRead {
  std::uint64_t number;
  std::optional<Blob> body;
};

/// The store has read back a result; no record: the store does not have it any more.
struct ResultRead {
  std::uint64_t number;
  std::optional<std::string_view> record;
  Blob body;
};

/// The disk has no more room for new jobs, or has again.
struct StoreFull {
  bool full;
};

/// More writes wait for the store's disk than may, or few enough again. Meanwhile what would add to them is
/// refused.
struct StoreBehind {
  bool behind;
};

/// The store's disk has stood still for a while, or goes on. Meanwhile durable jobs are not handed over:
/// their offers would wait for the disk and hold places that other jobs can use.
struct StoreStalled {
  bool stalled;
};

/// Another broker may own the store by now, or it is sure again that none does. Meanwhile nothing is handed
/// over and no job is taken: peers that ask are told to look for the owner. Running jobs go on, and their
/// workers are kept. No peer's time runs: when it is over the silence of each begins anew.
struct StoreAway {
  bool away;
};

/// The store cannot promise now what durable jobs are told (as when nothing replicates it, or its files are
/// gone), or can again. Meanwhile no new one is taken.
struct StoreUnsafe {
  bool unsafe;
};

/// The bank has answered the draw of a shared budget, or nobody knows whether it was done. A view.
struct BankAnswered {
  std::size_t budget;            ///< its place among the configured ones
  const Drawn* drawn = nullptr;  ///< null: the outcome is unknown
};

/// A hand-over that was committed did not leave: it came too late for what the bank had granted.
struct HandoverVoid {
  std::uint64_t job;
  std::uint32_t attempt;
};

/// The broker's process stood still for so long, stopped or starved: silence of peers in that time does not
/// count.
struct StoodStill {
  Duration how_long;
};

/// The configuration was read again. Its lanes (by place: their names stay), limits and keys of budgets (by
/// name) and clients count from now on, for queued jobs too.
struct OptionsChanged {
  const Options* options;
};

using Event =
    std::variant<Submitted, ClientUnreachable, CancelAsked, StatusAsked, FetchAsked, SeenSaid, SpendAsked,
                 WatchAsked, AdminAsked, WorkerReady, ChunkReported, ProgressReported, OutcomeReported,
                 FailureReported, HeartbeatHeard, WorkerLeaving, WorkerHeard, WorkerUnreachable,
                 WorkerDisconnected, KeyRevoked, DrainAsked, OptionsChanged, BodyRead, ResultRead, StoreFull,
                 StoreBehind, StoreStalled, StoreAway, StoreUnsafe, BankAnswered, HandoverVoid, StoodStill>;

}  // namespace lanemq::core
