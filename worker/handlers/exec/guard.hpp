// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace lanemq::worker {

// The processes between a worker and the programs that it runs:
//
//   lanemq-worker ── lanemq-keeper ─┬─ lanemq-guard ── program ── what it starts
//                                   └─ lanemq-guard ── program ── …
//
// A guard runs one program at a time. It is the program's parent and the subreaper of all that comes from it,
// so that a process which leaves its group or its session is still found: it becomes the guard's child when
// its own parent ends. When the program has ended the guard kills what is left of it, reaps it, and only then
// reports the end. A program's end is so the end of all its processes.
//
// Why not from the worker itself: nothing of a process that is killed with SIGKILL can run any more.
// PR_SET_PDEATHSIG reaches the children alone, and a group is left by setsid(). A guard sees the worker's end
// by its socket, and does the killing. Programs are started by vfork() from a small process with one thread:
// neither the worker's memory nor its loop has a part in it.
//
// Who kills a guard or the keeper is seen as well. A program has PR_SET_PDEATHSIG for its guard, and what
// else the guard had falls to the keeper, which kills it; guards end with their keeper. Only a program that
// kills both gets away. It runs as the worker's user: whoever runs strangers' programs needs a container.
//
// Both are forks of the worker without exec, and call async-signal-safe functions alone, since the worker has
// threads. They keep no descriptor of it, blank their copy of its environment, and nobody may look into them.

/// Bytes of a request, its strings included.
inline constexpr std::size_t kGuardRequestBytesMax = std::size_t{128} * 1024;
/// Words of a command line, and variables.
inline constexpr std::size_t kGuardTextsMax = 512;
/// Guards of a worker.
inline constexpr std::size_t kGuardsMax = 4096;

/// What a worker tells a guard, in one message. Behind it stand, each with a NUL at its end: the program's
/// path, its working directory (empty: the worker's), its arguments, its variables.
struct GuardRequest {
  enum class What : std::uint32_t {
    start,  ///< with three descriptors: the program's stdin, stdout and stderr
    signal  ///< to the program's group; ignored when it has ended
  };
  What what = What::start;
  std::int32_t signal = 0;
  std::uint32_t arguments = 0, variables = 0;
  std::uint64_t memory_max = 0;  ///< bytes of data (RLIMIT_DATA); 0: no limit
  std::uint64_t files_max = 0;   ///< open files; 0: the worker's limit
};

/// What a guard reports: one for each start.
struct GuardReport {
  enum class What : std::uint32_t { ended, not_started };
  /// What could not be done.
  enum class Step : std::uint32_t { request, process, directory, limits, program };
  What what = What::ended;
  Step step = Step::request;
  std::int32_t status = 0;  ///< as waitpid() gives it; an errno where it was not started
};

/// Runs the keeper, in a fork of the worker. It makes a guard for each socket that comes through `socket`,
/// and ends when its other end is closed, after all guards. Never returns.
[[noreturn]] void keep_guards(int socket);

/// Why this system cannot keep guards: they read /proc/thread-self/children. Null: it can.
const char* why_no_guards();

}  // namespace lanemq::worker
