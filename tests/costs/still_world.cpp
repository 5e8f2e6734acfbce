// SPDX-License-Identifier: Apache-2.0
// A world in which each run finds the same: time goes on by a microsecond whenever it is asked for, and the
// system's random bytes are a row of numbers. The program's own functions stand before those of the C
// library.
#include <cstddef>
#include <cstdint>
#include <ctime>

#include <sys/random.h>

extern "C" {

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static std::int64_t asked = 0;
  const std::int64_t since = ++asked + (clock == CLOCK_REALTIME ? 1'700'000'000'000'000 : 1'000'000'000);
  now->tv_sec = since / 1'000'000;
  now->tv_nsec = since % 1'000'000 * 1000;
  return 0;
}

ssize_t getrandom(void* to, std::size_t size, unsigned) {
  static unsigned char next = 0;
  for (std::size_t i = 0; i < size; ++i)
    static_cast<unsigned char*>(to)[i] = next += 37;
  return static_cast<ssize_t>(size);
}

}  // extern "C"
