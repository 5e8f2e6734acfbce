// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "tests/sim/world.hpp"

namespace lanemq::sim {

/// A client: submits, asks, cancels, repeats itself, loses its connection and asks again, or vanishes.
class SimClient {
 public:
  SimClient(Stage& stage, int number);

  /// A new connection; everything unanswered that has an id is asked again.
  void reconnect();
  /// Gone, with all that it asked; another one takes its place.
  void vanish();
  /// The broker is told that nobody is there any more, which is wrong.
  void seem_gone() { stage_.host.take_for_gone(link_); }
  /// Asks again until everything is answered.
  void settle();
  std::size_t pending() const { return pending_.size(); }

 private:
  struct Pending {
    Task task;
    bool fetched = false;   ///< asked for with a fetch, since it was submitted before
    bool reads = false;     ///< it is to get the answer's chunks
    bool silent = false;    ///< and never says that it has taken them
    std::int64_t from = 0;  ///< the first chunk that it asked for
    std::int64_t next = 0;  ///< the one that comes next
  };

  void connect();
  void think();
  void act();
  Task new_task();
  void draw_texts(Task& task);
  static void fill_header(Task& task);
  static wire::Submit message_of(const Task& task);
  void submit(const Task& task, bool remember);
  void fetch(const Task& task);
  void fetch(const Task& task, std::int64_t from_seq);
  void ask_again(const Pending& asked);
  void submit_again(bool conflicts);
  void ask();
  void heard(const std::string& header, const std::string& body);
  void heard_one(const wire::ClientReply& reply, std::string_view body);
  void heard_chunk(const wire::ChunkReply& chunk, std::string_view body);
  void say_seen(std::uint64_t ref);
  void heard_result(std::uint64_t ref, std::string_view answer, std::int64_t chunks);
  std::string some_id();
  template <class Message>
  void say(const Message& message, std::string_view body = {});

  Stage& stage_;
  bool is_req_;
  std::string envelope_;            ///< of a REQ
  std::size_t favourite_lane_ = 0;  // of the moment: lanes are busy and idle by turns
  Link link_;
  Decoder decoder_;
  std::map<std::uint64_t, Pending> pending_;  // by ref
};

}  // namespace lanemq::sim
