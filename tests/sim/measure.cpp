// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/measure.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace lanemq::sim {
namespace {

// The simulator has one thread.
int depth = 0;
std::int64_t held = 0;

}  // namespace

InCore::InCore() {
  ++depth;
}

InCore::~InCore() {
  --depth;
}

std::int64_t core_bytes() {
  return held;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

/// Stands before each block.
struct alignas(16) Head {
  std::size_t size;      // what was asked for; 0 where it is not the core's
  std::uint32_t before;  // bytes from the beginning of what malloc gave to the block
};

void* allocate(std::size_t size, std::size_t alignment) {
  const std::size_t before = std::max(alignment, sizeof(Head));
  void* const begin =
      alignment > sizeof(Head)
          ? std::aligned_alloc(alignment, (before + size + alignment - 1) / alignment * alignment)
          : std::malloc(before + size);
  if (begin == nullptr) throw std::bad_alloc();
  char* const block = static_cast<char*>(begin) + before;
  const std::size_t counted = depth > 0 ? size : 0;
  ::new (block - sizeof(Head)) Head{counted, static_cast<std::uint32_t>(before)};
  held += static_cast<std::int64_t>(counted);
  return block;
}

void release(void* block) {
  if (block == nullptr) return;
  char* const place = static_cast<char*>(block);
  const Head head = *reinterpret_cast<Head*>(place - sizeof(Head));
  held -= static_cast<std::int64_t>(head.size);
  std::free(place - head.before);
}

}  // namespace

#endif

}  // namespace lanemq::sim

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void* operator new(std::size_t size) {
  return lanemq::sim::allocate(size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return lanemq::sim::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept {
  lanemq::sim::release(block);
}
void operator delete(void* block, std::size_t) noexcept {
  lanemq::sim::release(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
  lanemq::sim::release(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  lanemq::sim::release(block);
}

#endif
