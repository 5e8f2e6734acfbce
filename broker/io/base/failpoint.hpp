// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lanemq::io {

// The moments at which tests crash the broker: X(name, text, when).
#define LANEMQ_FAILPOINT_TABLE(X)                                                                \
  X(store_before_write, "store.before_write", "a transaction has begun, nothing is written")     \
  X(store_mid_batch, "store.mid_batch", "one write of a transaction is done, others may follow") \
  X(store_after_commit, "store.after_commit", "committed; the loop has not been told")           \
  X(store_in_checkpoint, "store.in_checkpoint", "the log is about to be written to the file")    \
  X(loop_after_dispatch, "loop.after_dispatch", "a turn has sent to workers, jobs among it")     \
  X(loop_after_result, "loop.after_result", "an outcome was taken and is not committed")         \
  X(loop_before_reply, "loop.before_reply", "committed; what depends on it has not been sent")   \
  X(move_begun, "move.begun", "of --move: the target is kept from brokers, no row has come")     \
  X(move_rows_in, "move.rows_in", "the target has all rows; the source knows nothing of it")     \
  X(move_decided, "move.decided", "the source is kept from brokers, too")                        \
  X(move_arrived, "move.arrived", "the target may be served; the source has its rows still")     \
  X(move_left, "move.left", "the source may be served; the target remembers the move")

enum class Failpoint : std::uint8_t {
#define LANEMQ_FAILPOINT_ENUMERATOR(name, text, when) name,
  LANEMQ_FAILPOINT_TABLE(LANEMQ_FAILPOINT_ENUMERATOR)
#undef LANEMQ_FAILPOINT_ENUMERATOR
};

constexpr std::string_view name_of(Failpoint point) {
  constexpr std::string_view kNames[] = {
#define LANEMQ_FAILPOINT_NAME(name, text, when) text,
      LANEMQ_FAILPOINT_TABLE(LANEMQ_FAILPOINT_NAME)
#undef LANEMQ_FAILPOINT_NAME
  };
  return kNames[static_cast<std::size_t>(point)];
}

/// Tells that this moment has come. Does nothing; a test program replaces this weak definition by one that
/// stops the process, or waits. Called from any thread.
void reached(Failpoint point);

}  // namespace lanemq::io
