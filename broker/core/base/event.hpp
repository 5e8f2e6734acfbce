// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include <lanemq/blob.hpp>
#include <lanemq/messages.hpp>

#include "broker/core/base/options.hpp"
#include "broker/core/base/outbox.hpp"

namespace lanemq::core {

// What can happen to the broker. All views and pointers are good for the call of handle() alone; the core
// copies what it keeps. A body that owns its bytes is adopted, a borrowed one is copied.

/// Where a request came from: the connection's address and the frames in front of the header.
struct Origin {
  std::string_view address;
  std::string_view envelope;     ///< packed; the answer carries it back
  bool one_answer = false;       ///< a REQ: exactly one answer, ever
  Grouping* grouping = nullptr;  ///< of the connection, where it is at hand
  Peer peer = Peer::client;      ///< by which socket it came, and its answers go
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

/// An operator asks for something, or wants something changed.
struct AdminAsked {
  Origin from;
  const wire::AdminQuery* fields;
  const OptionEditor* edit = nullptr;  ///< what changes settings; null: nothing does
};

/// A client has taken chunks of a stream.
struct SeenSaid {
  Origin from;
  const wire::Seen* fields;
};

struct WorkerReady {
  std::string_view address;
  const wire::Ready* fields;
};
struct ChunkReported {
  std::string_view address;
  const wire::Chunk* fields;
  Blob body;
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
/// A message that was not understood, or one of no consequence: it counts as life.
struct WorkerHeard {
  std::string_view address;
};
/// A worker does not read what it is sent: it is as good as gone.
struct WorkerUnreachable {
  std::string_view address;
};
/// The transport says that nobody is at this address any more: the worker died, or only its connection did.
struct WorkerDisconnected {
  /// What the system knows of its process.
  enum class Process : std::uint8_t { unknown, lives, ended };
  std::string_view address;
  Process process = Process::unknown;
};
/// The transport says that nobody is at this address any more.
struct ClientUnreachable {
  std::string_view address;
};
/// No more work: what is queued is refused, what runs may finish.
struct DrainAsked {};

/// The body of a job has been read back from the store; none: it is not there, and should be.
struct BodyRead {
  std::uint64_t number;
  std::optional<Blob> body;
};

/// A result has been read back from the store; no record: it is not there any more.
struct ResultRead {
  std::uint64_t number;
  std::optional<std::string_view> record;
  Blob body;
};

/// The disk has no more room for new jobs, or has again.
struct StoreFull {
  bool full;
};

/// More waits for the store's disk than may, or again less: what would have to wait as well is refused.
struct StoreBehind {
  bool behind;
};

/// The store's disk has stood still for a while, or goes on. Meanwhile durable jobs are not handed over:
/// their offers would wait for it, and hold places that others can use.
struct StoreStalled {
  bool stalled;
};

/// The broker stood still for so long, stopped or starved: nobody's silence in that time counts.
struct StoodStill {
  Duration how_long;
};

/// The configuration was read again. What it says of lanes (by place: their names stay), of the limits and
/// keys of budgets (by name) and of clients counts from now on, for what is queued too.
struct OptionsChanged {
  const Options* options;
};

using Event =
    std::variant<Submitted, ClientUnreachable, CancelAsked, StatusAsked, FetchAsked, SeenSaid, AdminAsked,
                 WorkerReady, ChunkReported, OutcomeReported, FailureReported, HeartbeatHeard, WorkerLeaving,
                 WorkerHeard, WorkerUnreachable, WorkerDisconnected, DrainAsked, OptionsChanged, BodyRead,
                 ResultRead, StoreFull, StoreBehind, StoreStalled, StoodStill>;

}  // namespace lanemq::core
