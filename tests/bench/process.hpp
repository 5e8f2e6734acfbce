// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/mman.h>
#include <sys/types.h>

namespace lanemq::bench {

using Seconds = std::chrono::duration<double>;

/// Ends the whole benchmark with its text on stderr: a refusal, a malformed message, a silent or dead
/// process.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Nanoseconds of the machine's monotonic clock; comparable between the processes of one run.
std::uint64_t now_ns();

/// A broker that runs as a child and has said where it listens.
struct BrokerProcess {
  pid_t pid = 0;
  std::string clients;  ///< endpoint
  std::string workers;  ///< endpoint
};

/// The child processes of one run. Every one of them ends with this object, and with the driver, however that
/// ends.
///
/// While an object of this class waits, a child that dies or fails ends the wait with a Failure that names
/// it. To be used from one thread only; it blocks SIGCHLD in it, so that waiting costs no polling.
class Children {
 public:
  Children();
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// Starts a program and waits until it has printed `ready clients=EP workers=EP`. What it writes to stderr
  /// is kept and shown if it fails.
  BrokerProcess start_broker(const std::vector<std::string>& command);
  /// Runs `body` in a child. When it returns the child ends well; when it throws the text goes to stderr.
  pid_t fork_end(const std::string& name, const std::function<void()>& body);

  /// Waits until `done()`, asking every millisecond: for preparations, not for what is measured.
  void wait_until(const std::string& what, const std::function<bool()>& done, Seconds timeout);
  /// Waits until a forked end has ended well.
  void wait_for_end(pid_t pid, Seconds timeout);
  /// CPU time that the forked ends which still run have used, in seconds.
  double cpu_seconds_of_ends() const;
  /// Lets the time pass.
  void rest(Seconds duration);

 private:
  struct Child {
    pid_t pid = 0;
    std::string name;
    bool ended = false;
    int stdout_fd = -1;  ///< held open, so that a broker's write finds a reader; -1 for forked ends
    int stderr_fd = -1;  ///< an anonymous file with what a broker said; -1 for forked ends
  };

  void enter_child(pid_t parent) const;
  [[noreturn]] void run_program(pid_t parent, const std::vector<std::string>& command, int out,
                                int err) const;
  BrokerProcess read_ready_line(const Child& broker);
  void sleep_until_child_or(std::uint64_t deadline_ns);
  void reap();
  void close_all();
  static std::string last_words(const Child& child);

  sigset_t mask_before_{};
  std::vector<Child> children_;
};

/// An object that this process and those it forks see alike. T must work between processes: atomics and plain
/// data.
template <class T>
class Shared {
 public:
  Shared() {
    void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Failure("no shared memory for the benchmark's counters");
    object_ = new (memory) T();
  }
  ~Shared() {
    object_->~T();
    munmap(object_, sizeof(T));
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  T* object_ = nullptr;
};

/// Keeps this thread, and every process that it starts meanwhile, on one CPU: the lowest that it may use.
class PinnedToOneCpu {
 public:
  PinnedToOneCpu();
  ~PinnedToOneCpu();
  PinnedToOneCpu(const PinnedToOneCpu&) = delete;
  PinnedToOneCpu& operator=(const PinnedToOneCpu&) = delete;

 private:
  cpu_set_t before_{};
};

/// CPU time that a process has used, in seconds.
double cpu_seconds_of(pid_t pid);
/// Resident memory of a process in bytes, read until it stands still (for a second at most).
double settled_rss_of(Children& children, pid_t pid);

/// Tells how much of the machine was used by others since this object was made.
class OthersMeter {
 public:
  OthersMeter();
  /// Cores used by processes that are not ours. Requires: our children have ended, else they count as others.
  double cores() const;

 private:
  std::uint64_t began_ns_;
  double machine_before_;
  double ours_before_;
};

}  // namespace lanemq::bench
