// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/job_slots.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

constexpr std::size_t kSmall = 144, kSlots = 20'000;

std::vector<void*> take(JobSlots& slots, std::size_t bytes, std::size_t count) {
  std::vector<void*> taken;
  for (std::size_t i = 0; i < count; ++i)
    taken.push_back(slots.take(bytes));
  return taken;
}

TEST(JobSlots, no_two_slots_overlap_whatever_is_given_back) {
  const bool holds = rc::check([](const std::vector<std::uint16_t>& steps) {
    struct Taken {
      unsigned char* slot;
      std::size_t bytes;
      unsigned char mark;
    };
    JobSlots slots(kSmall);
    std::vector<Taken> taken;
    unsigned char mark = 0;
    for (const std::uint16_t step : steps) {
      if (step % 3 == 0 && !taken.empty()) {
        slots.give_back(taken[step % taken.size()].slot);
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(step % taken.size()));
      } else {
        const std::size_t bytes = 1 + step % slots.slot_max();
        auto* const slot = static_cast<unsigned char*>(slots.take(bytes));
        RC_ASSERT(reinterpret_cast<std::uintptr_t>(slot) % alignof(std::max_align_t) == 0u);
        std::memset(slot, ++mark, bytes);
        taken.push_back({slot, bytes, mark});
      }
    }
    for (const Taken& one : taken)
      for (std::size_t i = 0; i < one.bytes; ++i)
        RC_ASSERT(one.slot[i] == one.mark);
  });
  EXPECT_TRUE(holds);
}

TEST(JobSlots, the_slot_given_back_last_is_the_next) {
  JobSlots slots(kSmall);
  const auto taken = take(slots, kSmall, 3);
  slots.give_back(taken[0]);
  slots.give_back(taken[2]);
  EXPECT_EQ(slots.take(kSmall), taken[2]);
  EXPECT_EQ(slots.take(kSmall), taken[0]);
}

TEST(JobSlots, cost_little_more_than_they_hold) {
  JobSlots slots(kSmall);
  take(slots, 272, kSlots);
  EXPECT_LE(slots.reserved(), kSlots * 276 + (std::size_t{1} << 20));
}

TEST(JobSlots, memory_of_one_size_serves_the_others_when_it_is_free) {
  JobSlots slots(kSmall);
  std::size_t most = 0;
  for (std::size_t bytes = kSmall; bytes <= slots.slot_max(); bytes += JobSlots::kStep) {
    for (void* slot : take(slots, bytes, kSlots))
      slots.give_back(slot);
    if (most == 0) most = slots.reserved() * slots.slot_max() / kSmall;
    EXPECT_LE(slots.reserved(), most + (std::size_t{2} << 20));
  }
}

TEST(JobSlots, a_free_slot_of_a_larger_size_is_taken_before_new_memory) {
  JobSlots slots(kSmall);
  const auto large = take(slots, slots.slot_max(), kSlots);
  const std::size_t before = slots.reserved();
  for (std::size_t i = 0; i < large.size(); i += 2)  // no chunk is empty
    slots.give_back(large[i]);
  take(slots, kSmall, kSlots / 2);
  EXPECT_LE(slots.reserved(), before + (std::size_t{1} << 20));
}

}  // namespace
}  // namespace lanemq::core
