// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>

#include "worker/handlers/exec/descriptor.hpp"
#include "worker/handlers/exec/guard.hpp"
#include "worker/handlers/redaction.hpp"

namespace lanemq::worker {

/// A program, and within which bounds it runs.
struct Program {
  std::string path;                    ///< absolute
  std::vector<std::string> arguments;  ///< the program's name first
  std::vector<std::string> variables;  ///< `NAME=VALUE`: all of its environment
  Redaction secrets{};                 ///< of its variables: what it says of them is hidden where it fails
  std::string directory{};             ///< where it runs; empty: where the worker does
  std::uint64_t memory_max = 0;        ///< bytes of data of each process; 0: no limit
  std::uint64_t files_max = 0;         ///< open files of each process; 0: the worker's limit
};

/// How a run has ended.
struct ChildEnd {
  bool started = true;
  bool guarded = true;       ///< false: its guard was killed, and nobody knows how the program ended
  std::string problem{};     ///< of one that was not started: what could not be done, and why
  int error = 0;             ///< of one that was not started: an errno
  int status = 0;            ///< of any other: as waitpid() gives it
  std::string last_words{};  ///< the end of its stderr, at most Child::kLastWordsMax bytes
};

class Child;

/// Hears of a run.
class ChildOwner {
 public:
  virtual ~ChildOwner() = default;
  /// A piece of the program's stdout. False: no more until Child::resume(). Must not destroy the child.
  virtual bool on_output(Child& child, std::string_view bytes) = 0;
  /// A piece of the program's stderr. Must not destroy the child.
  virtual void on_errors(Child& child, std::string_view bytes) {
    static_cast<void>(child), static_cast<void>(bytes);
  }
  /// The program and all that came from it have ended, and all its output was handed over. The last call; the
  /// owner may destroy the child.
  virtual void on_end(Child& child, ChildEnd end) = 0;
};

/// One run of a program: its stdin, stdout and stderr. Made by ProcessHost::start(), which must outlive it.
///
/// Destroyed before its end it kills all that it has started. Not thread-safe.
class Child {
 public:
  static constexpr std::size_t kLastWordsMax = 4096;

  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Appends to the program's stdin; flush() sends it. The caller bounds what is unsent.
  void write(Blob bytes);
  /// Sends what the pipe takes; the rest goes when the program has read.
  void flush();
  /// Closes stdin behind what was written.
  void close_input();
  /// Bytes that the program's stdin has not taken.
  std::size_t unsent() const { return input_.unsent; }
  /// Reads stdout on, after on_output() has returned false.
  void resume();
  /// Stdout counts no more; what still comes is thrown away.
  void discard_output() {
    output_.discards = true;
    resume();
  }
  /// Sends a signal to the program's group. What SIGKILL does not reach there ends with the program.
  void signal(int number);

 private:
  friend class ProcessHost;
  /// Reads of one event: the rest waits for the next turn.
  static constexpr std::size_t kReadsPerEvent = 4;
  /// Reads behind the program's end: twice what a pipe holds at the most. More can only come from a process
  /// that is none of the program's.
  static constexpr std::size_t kReadsAtEnd = 32;
  enum class Stream : unsigned char { input, output, errors };

  Child(class ProcessHost& host, std::uint64_t id, ChildOwner& owner) : host_(host), id_(id), owner_(owner) {}

  /// An end of a pipe.
  struct End {
    Descriptor descriptor{};
    bool watched = false;  ///< by the host's epoll descriptor
  };
  struct Input {
    End end{};
    std::deque<Blob> queue{};  ///< bounded by the caller
    std::size_t sent = 0;      ///< of the first one
    std::size_t unsent = 0;    ///< of all
    bool closes = false;       ///< behind them
  };
  struct Output {
    End end{};
    bool paused = false, discards = false;
  };
  struct Errors {
    End end{};
    std::string text{};  ///< the newest; at most twice kLastWordsMax
  };

  bool read_output(std::size_t reads_max);
  void read_errors(std::size_t reads_max);
  void end(const GuardReport& report);
  void end_without_report();
  void finish_if_read();
  void watch(End& end, Stream stream);
  void unwatch(End& end);
  static void close(End& end);

  ProcessHost& host_;
  const std::uint64_t id_;
  ChildOwner& owner_;
  std::uint64_t guard_ = 0;  ///< the host's number for it; 0: the program has ended
  Input input_;
  Output output_;
  Errors errors_;
  bool ended_ = false;
  ChildEnd result_;
};

}  // namespace lanemq::worker
