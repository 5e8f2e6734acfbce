// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/core/base/event.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/jobs/job.hpp"

namespace lanemq::core {

class Admission;
class Answers;
struct Connection;
class JobLife;
class Journal;
class Lane;
class Results;
struct State;
class Streams;
struct Webhook;
class Webhooks;

/// Handles the requests of clients.
class ClientDesk {
 public:
  ClientDesk(State& state, Journal& journal, Results& results, Answers& answers, Streams& streams,
             JobLife& life, Admission& admission, Webhooks& webhooks)
      : state_(state),
        journal_(journal),
        results_(results),
        answers_(answers),
        streams_(streams),
        life_(life),
        admission_(admission),
        webhooks_(webhooks) {}
  ClientDesk(const ClientDesk&) = delete;
  ClientDesk& operator=(const ClientDesk&) = delete;

  void on(const Submitted& event, TimePoint now);
  void on(const CancelAsked& event, TimePoint now);
  void on(const StatusAsked& event, TimePoint now);
  void on(const FetchAsked& event, TimePoint now);
  void on(const SeenSaid& event, TimePoint now);
  void on(const SpendAsked& event, TimePoint now);
  void on(const ClientUnreachable& event, TimePoint now);
  void on(const KeyRevoked& event, TimePoint now);
  /// Makes the jobs that tell of ends, as far as any are owed, and admits them like any others. True: one was
  /// made.
  bool make_webhooks(TimePoint now);
  /// The connection of a request that was handled, if it is remembered, has shown that key.
  void note_key(const Origin& from);

 private:
  bool same_content(const Record& known, const Submitted& event, const Lane& lane) const;
  bool make(const Webhook& webhook, TimePoint now);
  void lose(Connection& connection, TimePoint now);
  void join(Record& known, const Submitted& event, ReplyMode mode, TimePoint now);

  State& state_;
  Journal& journal_;
  Results& results_;
  Answers& answers_;
  Streams& streams_;
  JobLife& life_;
  Admission& admission_;
  Webhooks& webhooks_;
};

}  // namespace lanemq::core
