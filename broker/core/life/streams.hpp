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

/// Brings streamed answers from workers to readers. Where a job's last owner stops reading, After says that
/// the job is to be cancelled; the caller does it.
class Streams {
 public:
  enum class After : std::uint8_t { goes_on, cancel };

  Streams(State& state, Journal& journal, Results& results, Answers& answers)
      : state_(state), journal_(journal), results_(results), answers_(answers) {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// Takes the next chunk of the job's stream. Requires: `seq` is that chunk, and within the window.
  [[nodiscard]] After take_chunk(Job& job, std::int64_t seq, const Blob& body, TimePoint now);
  /// The stream is alive: if its client stated no timeout, its lane's begins anew.
  void let_go_on(Job& job, TimePoint now);
  /// With a heartbeat: tells the worker of windows that grew by less than half, which a large chunk may wait
  /// for.
  void say_windows(Worker& worker, TimePoint now);

  /// The reader of a stream, and its first chunk.
  struct Reading {
    Origin from;
    wire::Raw ref;
    std::int64_t from_seq = 0;
    TimePoint until = kNever;
    bool waits = false, joined = false;
  };
  /// Sends the kept chunks from there on, then each that comes. Requires: that chunk is kept, or not there
  /// yet.
  StreamReader& add_reader(Job& job, const Reading& reading, TimePoint now);
  /// A client confirms what it has taken.
  void take_seen(const SeenSaid& event, TimePoint now);
  /// A reader's timer has fired: that of its fetch, or that of its silence.
  [[nodiscard]] After check_reader(StreamReader& reader, TimePoint now);
  /// A fetch has read for as long as it wanted: answers with the job's state.
  void end_reading(StreamReader& reader, TimePoint now);
  /// A reader or connection has come or gone: the window follows the readers that are left.
  void readers_changed(Job& job, TimePoint now);

  /// Tells all readers how the job ended.
  void say_end(Job& job, const Terminal& how);
  void remove_readers(Job& job);
  /// Takes the kept chunks from a job that ends; null: none.
  std::unique_ptr<AnswerStream> take_answer(Job& job);

 private:
  enum class Worth : std::uint8_t { half, any };

  static bool has_live_reader(const AnswerStream& stream);
  static Origin origin_of(const StreamReader& reader);
  void make_room_in(AnswerStream& stream, TimePoint now);
  void say_window(Job& job, TimePoint now, Worth worth = Worth::half);
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
