// SPDX-License-Identifier: Apache-2.0
// For lanemq-broker-failing: LANEMQ_TEST_FAILPOINT=NAME:N kills the process, as kill -9 does, when it passes
// that failpoint for the N-th time. LANEMQ_TEST_DISK_STALLS=FILE: while there is such a file, the disk stands
// still.
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <sqlite3.h>
#include <unistd.h>

#include "broker/io/base/failpoint.hpp"
#include "tests/support/eventually.hpp"

namespace lanemq::io {
namespace {

struct Wanted {
  std::string_view name;
  long passing = 0;
};

Wanted read_wanted() {
  const char* const value = std::getenv("LANEMQ_TEST_FAILPOINT");
  if (value == nullptr) return {};
  const std::string_view text = value;
  const std::size_t colon = text.rfind(':');
  Wanted wanted{.name = text.substr(0, colon)};
  const char* const end = text.data() + text.size();
  const bool is_number = colon != std::string_view::npos &&
                         std::from_chars(text.data() + colon + 1, end, wanted.passing).ptr == end;
  bool known = false;
#define LANEMQ_FAILPOINT_KNOWN(point, name_text, when) known = known || wanted.name == name_text;
  LANEMQ_FAILPOINT_TABLE(LANEMQ_FAILPOINT_KNOWN)
#undef LANEMQ_FAILPOINT_KNOWN
  if (known && is_number && wanted.passing > 0) return wanted;
  std::fprintf(stderr, "LANEMQ_TEST_FAILPOINT is NAME:N with a failpoint's name, not \"%s\"\n", value);
  std::abort();
}

void kill_this_process() {
  ::kill(::getpid(), SIGKILL);
  ::pause();  // until it has come
}

/// In the middle of a checkpoint is after some pages of it: whoever asks for that gets the write of the
/// third.
ssize_t write_and_count(int file, const void* bytes, size_t count, off_t at) {
  static std::atomic<int> writes{0};
  if (++writes == 3) kill_this_process();
  return ::pwrite(file, bytes, count, at);
}

void kill_in_the_middle() {
  sqlite3_vfs* const vfs = sqlite3_vfs_find(nullptr);
  for (const char* call : {"pwrite", "pwrite64"})
    vfs->xSetSystemCall(vfs, call, reinterpret_cast<sqlite3_syscall_ptr>(&write_and_count));
}

void wait_for_disk() {
  static const char* const file = std::getenv("LANEMQ_TEST_DISK_STALLS");
  while (file != nullptr && ::access(file, F_OK) == 0)
    test::pause_between_looks(std::chrono::milliseconds(2));
}

}  // namespace

void reached(Failpoint point) {
  if (point == Failpoint::store_before_write) wait_for_disk();
  static const Wanted wanted = read_wanted();
  static std::atomic<long> passed{0};
  if (name_of(point) != wanted.name || ++passed != wanted.passing) return;
  if (point == Failpoint::store_in_checkpoint)
    kill_in_the_middle();
  else
    kill_this_process();
}

}  // namespace lanemq::io
