// SPDX-License-Identifier: Apache-2.0
#include "common/log/line_writer.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "common/signals/signals_blocked.hpp"

namespace lanemq::log {
namespace {

using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;

std::uint64_t lines_in(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Whether the descriptor takes something within that time; -1: it may take for ever. An error is found by
/// the write.
bool is_writable(int descriptor, int within_ms) {
  pollfd writable{.fd = descriptor, .events = POLLOUT, .revents = 0};
  int ready = 0;
  do
    ready = poll(&writable, 1, within_ms);
  while (ready < 0 && errno == EINTR);
  return ready != 0;
}

/// Returns what was not written: empty, or what an error, or a reader beyond `patience_ms`, has left.
std::string_view write_all(int descriptor, std::string_view text, int patience_ms) {
  const bool waits = patience_ms < 0;
  while (!text.empty()) {
    // A pipe that is writable takes so much at once. Who else writes to it may be faster.
    if (!waits && !is_writable(descriptor, patience_ms)) return text;
    const std::size_t count = waits ? text.size() : std::min<std::size_t>(text.size(), PIPE_BUF);
    const auto written = ::write(descriptor, text.data(), count);
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno == EAGAIN && waits)  // another owner has said O_NONBLOCK
      is_writable(descriptor, -1);
    else if (errno != EINTR)
      return text;
  }
  return text;
}

}  // namespace

struct LineWriter::State {
  const int descriptor;
  const std::function<void(std::uint64_t)> tell_left_out;

  std::mutex mutex;  // of all that follows
  std::condition_variable work, done;
  std::string waiting;
  std::uint64_t left_out = 0;  ///< lines that nobody was told of
  bool runs = false;           ///< there is a thread that takes lines
  bool ends = false;           ///< it ends when nothing waits
  bool busy = false;           ///< it has lines that are not written
  std::thread thread;
  Clock::time_point patient_at{};

  bool settled() const { return waiting.empty() && !busy; }

  void run() {
    Lock lock(mutex);
    std::string text;
    while (true) {
      work.wait(lock, [this] { return !waiting.empty() || ends; });
      if (waiting.empty()) return;
      text.clear();
      text.swap(waiting);
      busy = true;
      lock.unlock();
      const std::string_view rest = write_all(descriptor, text, -1);
      lock.lock();
      busy = false;
      left_out += lines_in(rest);
      if (rest.empty() && left_out > 0 && waiting.size() < kWaitingBytesMax / 2) tell(lock);
      if (settled()) done.notify_all();
    }
  }

  void tell(Lock& lock) {
    const std::uint64_t lines = std::exchange(left_out, 0);
    lock.unlock();
    if (tell_left_out) tell_left_out(lines);
    lock.lock();
  }

  bool wait_settled(Lock& lock, std::chrono::milliseconds within) {
    return done.wait_for(lock, within, [this] { return settled(); });
  }
};

LineWriter::LineWriter(int descriptor, std::function<void(std::uint64_t lines)> tell_left_out)
    : state_(new State{.descriptor = descriptor, .tell_left_out = std::move(tell_left_out)}) {}

void LineWriter::write(std::string_view line) {
  State& state = *state_;
  const Lock lock(state.mutex);
  if (!state.runs) {
    const int patience = state.left_out > 0 ? 0 : static_cast<int>(kPatience.count());
    state.left_out += lines_in(write_all(state.descriptor, line, patience));
  } else if (state.waiting.size() + line.size() > kWaitingBytesMax) {
    ++state.left_out;
  } else {
    state.waiting += line;
    state.work.notify_one();
  }
}

bool LineWriter::settle() {
  State& state = *state_;
  Lock lock(state.mutex);
  if (!state.runs || state.settled()) return true;
  if (Clock::now() < state.patient_at) return false;
  const bool settled = state.wait_settled(lock, kPatience);
  if (!settled) state.patient_at = Clock::now() + kImpatientFor;
  return settled;
}

void LineWriter::start() {
  State& state = *state_;
  const Lock lock(state.mutex);
  if (std::exchange(state.runs, true)) return;
  state.ends = false;
  const SignalsBlocked meanwhile;  // signals are for the program's own threads
  // A thread that was given up keeps what it shares.
  state.thread = std::thread([kept = state_] { kept->run(); });
  pthread_setname_np(state.thread.native_handle(), "lanemq-log");
}

void LineWriter::stop() {
  State& state = *state_;
  Lock lock(state.mutex);
  if (!std::exchange(state.runs, false)) return;
  const bool settled = state.wait_settled(lock, kLastLinesMax);
  state.ends = true;
  state.work.notify_one();
  std::thread thread = std::move(state.thread);
  lock.unlock();
  settled ? thread.join() : thread.detach();
}

}  // namespace lanemq::log
