// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "broker/core/base/event.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/jobs/kept_result.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

class Answers;
class Journal;
class Results;
struct State;

/// Answers that come piece by piece: from the worker that makes them to whoever reads them. A job whose last
/// owner has stopped reading is to be cancelled: that is said, and for the caller to do.
class Streams {
 public:
  enum class After : std::uint8_t { goes_on, cancel };

  Streams(State& state, Journal& journal, Results& results, Answers& answers)
      : state_(state), journal_(journal), results_(results), answers_(answers) {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// The next chunk of the job's stream has come. Requires: it is that, and within the window.
  [[nodiscard]] After take_chunk(Job& job, std::int64_t seq, const Blob& body, TimePoint now);
  /// Its stream is alive: where its client stated no time, it has its lane's anew.
  void let_go_on(Job& job, TimePoint now);
  /// With a heartbeat the worker is told the rest of how far it may go on: less than half of a window may be
  /// what a large chunk waits for.
  void say_windows(Worker& worker);

  /// Who reads a stream from where on.
  struct Reading {
    Origin from;
    wire::Raw ref;
    std::int64_t from_seq = 0;
    TimePoint until = kNever;
    bool waits = false, joined = false;
  };
  /// Sends what is kept from there on, and from then on what comes. Requires: that chunk is kept, or not
  /// there yet.
  StreamReader& add_reader(Job& job, const Reading& reading, TimePoint now);
  /// A client says what it has taken.
  void take_seen(const SeenSaid& event, TimePoint now);
  /// A reader's time may be over: that of its fetch, or that of its silence.
  [[nodiscard]] After check_reader(StreamReader& reader, TimePoint now);
  /// A fetch has read for as long as it wanted: it is told how far the job is.
  void end_reading(StreamReader& reader, TimePoint now);
  /// A reader has left, or a connection is gone or back: where nobody reads, nobody has to be waited for.
  void readers_changed(Job& job);

  /// All readers are told that and how the job has ended.
  void say_end(Job& job, const Terminal& how);
  void remove_readers(Job& job);
  /// Takes from a job that ends what is kept of its streamed answer; null for nothing.
  std::unique_ptr<AnswerStream> take_answer(Job& job);

 private:
  enum class Worth : std::uint8_t { half, any };

  static bool has_live_reader(const AnswerStream& stream);
  static Origin origin_of(const StreamReader& reader);
  void make_room_in(AnswerStream& stream, TimePoint now);
  void say_window(Job& job, Worth worth = Worth::half);
  void send_chunk(StreamReader& reader, std::int64_t seq, TimePoint now);
  void remove_reader(StreamReader& reader);
  void refuse_readers_before(Job& job, std::int64_t first);
  After let_go_of_far_behind(Job& job, TimePoint now);
  After cut_off(StreamReader& reader, const std::string& why, TimePoint now);
  void take_seen(StreamReader& reader, std::int64_t seq, TimePoint now);

  State& state_;
  Journal& journal_;
  Results& results_;
  Answers& answers_;
};

}  // namespace lanemq::core
