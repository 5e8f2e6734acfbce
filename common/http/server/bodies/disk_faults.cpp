// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/bodies/disk_faults.hpp"

#include <csignal>
#include <cstdint>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

namespace lanemq::http {
namespace {

thread_local volatile std::sig_atomic_t watched = 0, faulted = 0;
std::uintptr_t page_bytes = 0;  ///< set before the handler

/// Maps a page of zeros where the disk gives none, so that the reader goes on. Elsewhere restores the
/// default, and the repeated instruction raises the signal again.
void on_bus_error(int /*signal*/, siginfo_t* info, void* /*context*/) {
  void* const page =
      reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(info->si_addr) & ~(page_bytes - 1));
  const bool mended = watched != 0 && ::mmap(page, page_bytes, PROT_READ,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  if (!mended) {
    std::signal(SIGBUS, SIG_DFL);
    return;
  }
  faulted = 1;
}

void install() {
  page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

DiskFaults::DiskFaults() {
  static std::once_flag once;
  std::call_once(once, install);
  faulted = 0;
  watched = 1;
}

DiskFaults::~DiskFaults() {
  watched = 0;
}

bool DiskFaults::happened() const {
  return faulted != 0;
}

}  // namespace lanemq::http
