// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/codec.hpp>

#include "broker/core/base/grouping.hpp"
#include "broker/core/base/identity.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/base/writes.hpp"

namespace lanemq::core {

enum class Peer : std::uint8_t { client, worker, admin };
inline constexpr std::size_t kPeers = 3;

/// One message to send. Its bytes are in the outbox, but for a large body.
struct Send {
  static constexpr std::uint32_t kAlone = 0xFFFFFFFF;

  Peer peer;
  std::uint32_t address_begin, envelope_begin, header_begin, end;  ///< in Outbox::bytes
  std::uint32_t batch = kAlone;  ///< which of the outbox's batches is its header
  bool waits = false;            ///< until all that was written up to this turn is on disk
  /// A hand-over of that job that may leave only if SharedBudgets::leaves() says so; 0: any message may.
  std::uint64_t checked_job = 0;
  std::uint32_t checked_attempt = 0;
  Blob body;  ///< a frame of its own after the header; empty: none
};

/// Something that an operator may want to read in a log.
struct Notice {
  enum class Kind : std::uint8_t {
    worker_ready,
    worker_returned,
    worker_left,
    worker_lost,
    upstream_opened,
    upstream_closed,
    key_spent,
    key_back,
    upstream_word_bounded,
    service_without_worker,
    job_stalled,
    webhook_refused,
    changed_by_operator
  };
  Kind kind;
  std::string worker{}, session{};
  /// Jobs that the worker holds, held, or may hold (worker_ready); or that are queued for the service.
  std::size_t jobs = 0;
  std::string service{};  ///< whose upstream it is, or whose jobs wait
  /// service_without_worker: the first lane that no worker takes, where workers offer the service; `how` is
  /// "draining" where some take it and drain.
  std::string lane{};
  std::string model{};  ///< upstream_opened, upstream_closed: it is about that one alone; empty: about all
  std::int64_t retry_ms = 0;  ///< upstream_opened, key_spent: when it is tried again
  std::string key{};          ///< key_spent, key_back: its name
  std::string code{};  ///< key_spent: how the upstream refused it; webhook_refused: of `how`, which says why
  /// changed_by_operator: the verb of the op admin, of what, and how.
  std::string verb{}, what{}, name{}, how{};  ///< job_stalled, webhook_refused: `name` is the job's id
  std::string by{};                           ///< changed_by_operator: who, for the adapter to fill in
  std::uint64_t number = 0;                   ///< job_stalled: the job's, as workers know it
  std::int64_t attempt = 0;                   ///< job_stalled
  std::int64_t for_ms = 0;  ///< service_without_worker: since it was noticed; job_stalled: its silence
  std::int64_t said = 0, bound = 0;  ///< upstream_word_bounded: as the upstream said, and as it counts
};

/// The reason for which a job with a `trace` waited, for followers of the trace: from its acceptance, or
/// since it went back to its queue, to its hand-over or end.
struct Wait {
  std::string trace;  ///< as its submit said, msgpack
  std::string job{}, service{}, lane{}, model{};
  std::int64_t attempt = 0;  ///< that began when the wait was over; 0: none did yet
  TimePoint since{}, until{};
  std::optional<TimePoint> budget_since{};  ///< from when on budgets kept it waiting
  std::string_view end{};  ///< the code it was refused or ended with; empty: it was handed over
  std::string limiter{};   ///< of a refusal, as its answer says
};

/// A body, or a result, that the loop is to read from the store.
struct BodyWanted {
  std::uint64_t number = 0;
  bool awaited = false;    ///< a worker or a reader waits for it; else it is read ahead
  bool of_result = false;  ///< a result: its record is read, too
};

/// The effects of a turn. Messages to one peer keep their order, and are batched for peers that take batches.
/// Messages about durable jobs wait for the commit; others do not. Owns everything that it names, so that its
/// sends can wait for its writes while later turns go on.
///
/// Messages are encoded here rather than by the adapter: the bytes of a turn lie in one block that is used
/// again, and nothing points into records that may be gone when they are sent.
class Outbox {
 public:
  bool empty() const {
    return sends.empty() && notices.empty() && waits.empty() && writes.empty() && reads.empty();
  }
  void clear() {
    clear_sends();
    notices.clear();
    waits.clear();
    writes.clear();
    reads.clear();
  }
  void clear_sends() {
    bytes.clear();
    sends.clear();
    batches_.clear();
    closed_before_.fill(0);
    ++turn_;
  }
  /// Moves the sends to an empty outbox, where they can wait while later turns go on.
  void move_sends(Outbox& to) {
    std::swap(bytes, to.bytes);
    std::swap(sends, to.sends);
    std::swap(batches_, to.batches_);
    clear_sends();
  }
  std::string_view address(const Send& send) const { return part(send.address_begin, send.envelope_begin); }
  std::string_view envelope(const Send& send) const { return part(send.envelope_begin, send.header_begin); }
  /// The view is valid until the next call.
  std::string_view header(const Send& send) const {
    if (send.batch == Send::kAlone) return part(send.header_begin, send.end);
    assembled_.clear();
    batches_[send.batch].write(bytes, assembled_);
    return assembled_.view();
  }
  /// Bytes in memory, without large bodies: the sends share those with a kept result or with a write.
  std::size_t held_bytes() const { return bytes.size() + sends.size() * sizeof(Send); }
  /// How many messages the send carries: more than one in a batch.
  std::size_t items(const Send& send) const {
    return send.batch == Send::kAlone ? 1 : batches_[send.batch].items();
  }

  /// A number for each of the send's messages. The numbers rise in the order in which messages were added,
  /// over all peers.
  std::vector<std::size_t> order(const Send& send) const {
    if (send.batch == Send::kAlone) return {send.address_begin};
    return batches_[send.batch].places(bytes);
  }

  /// Appends a message with its body: inside the header when it is small, else as a frame that shares it.
  /// `grouping` is the peer's; null where it is not at hand: later messages of this socket then join no
  /// earlier batch, so that the order holds.
  ///
  /// Clients of a tenant are told ids as they know them, without the tenant's space.
  template <class Message>
  void add(Peer peer, std::string_view address, std::string_view envelope, const Message& message,
           const Blob& body = {}, Grouping* grouping = nullptr) {
    if constexpr (requires { message.id.front(); })
      if (peer == Peer::client && !message.id.empty() && message.id.front() == kSpaceMark) {
        Message own = message;
        own.id = own_name(message.id);
        return add_as_is(peer, address, envelope, own, body, grouping);
      }
    add_as_is(peer, address, envelope, message, body, grouping);
  }

  /// Appends a hand-over that is asked about when it leaves, alone: it joins no batch.
  template <class Message>
  void add_checked(std::string_view address, const Message& message, const Blob& body) {
    add_as_is(Peer::worker, address, {}, message, body, nullptr);
    sends.back().checked_job = message.job;
    sends.back().checked_attempt = static_cast<std::uint32_t>(message.attempt);
  }

  /// While it lives, messages that are added wait for the commit, or do not.
  class Waiting {
   public:
    Waiting(Outbox& outbox, bool waits) : outbox_(outbox), before_(outbox.waits_) { outbox.waits_ = waits; }
    ~Waiting() { outbox_.waits_ = before_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Outbox& outbox_;
    bool before_;
  };

  std::vector<Send> sends;
  std::vector<Notice> notices;
  std::vector<Wait> waits;  ///< none without Options::tells_waits
  Writes writes;            ///< to be committed before what waits is sent
  std::vector<BodyWanted> reads;
  Buffer bytes;

 private:
  template <class Message>
  void add_as_is(Peer peer, std::string_view address, std::string_view envelope, const Message& message,
                 const Blob& body, Grouping* grouping) {
    if (grouping == nullptr) {
      closed_before_[static_cast<std::size_t>(peer)] = static_cast<std::uint32_t>(sends.size()) + 1;
    } else if (grouping->max > 1) {
      if (can_be_batched<Message>() && body.size() <= limits::inline_bytes_max)
        return add_to_batch(peer, address, envelope, message, body, *grouping);
      grouping->turn_ = 0;
    }
    Send send = begin(peer, address, envelope);
    if (body.empty()) {
      encode(message, bytes);
    } else if (body.size() <= limits::inline_bytes_max) {
      encode(message, body.bytes(), bytes);
    } else {
      encode(message, bytes);
      send.body = body.owned();
    }
    send.end = here();
    sends.push_back(std::move(send));
  }

  template <class Message>
  void add_to_batch(Peer peer, std::string_view address, std::string_view envelope, const Message& message,
                    const Blob& body, Grouping& grouping) {
    const BatchItem item = write_item(message, bytes);
    if (grouping.turn_ == turn_ && grouping.send_ >= closed_before_[static_cast<std::size_t>(peer)]) {
      const Send& open = sends[grouping.send_];
      if (open.waits == waits_ && this->envelope(open) == envelope &&
          batches_[open.batch].add(item, body.bytes(), grouping.max, bytes))
        return;
    }
    const auto batch = static_cast<std::uint32_t>(batches_.size());
    batches_.emplace_back(item, body.bytes(), bytes);
    Send send = begin(peer, address, envelope);
    send.batch = batch;
    send.end = here();
    grouping.turn_ = turn_;
    grouping.send_ = static_cast<std::uint32_t>(sends.size());
    sends.push_back(std::move(send));
  }

  Send begin(Peer peer, std::string_view address, std::string_view envelope) {
    Send send{.peer = peer,
              .address_begin = here(),
              .envelope_begin = 0,
              .header_begin = 0,
              .end = 0,
              .waits = waits_,
              .body = {}};
    bytes.write(address.data(), address.size());
    send.envelope_begin = here();
    bytes.write(envelope.data(), envelope.size());
    send.header_begin = here();
    return send;
  }

  std::uint32_t here() const { return static_cast<std::uint32_t>(bytes.size()); }
  std::string_view part(std::uint32_t begin, std::uint32_t end) const {
    return bytes.view().substr(begin, end - begin);
  }

  bool waits_ = false;
  std::vector<Batch> batches_;
  mutable Buffer assembled_;
  std::uint64_t turn_ = 1;
  std::array<std::uint32_t, kPeers> closed_before_{};  // by Peer: sends before that place take nothing more
};

}  // namespace lanemq::core
