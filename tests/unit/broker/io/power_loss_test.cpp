// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/broker/io/store_workload.hpp"

namespace lanemq {
namespace {

using test::FaultyDisk;
using test::Workload;

/// What a disk may hold after a loss of power, and what was committed before.
struct Image {
  FaultyDisk::Files files;
  std::size_t committed;
};

constexpr std::uint64_t kWorkloads = 16;
constexpr std::size_t kTurns = 24;
constexpr int kImagesPerSync = 4;

/// Runs a workload to its end, and loses power at every sync, in several ways.
std::vector<Image> images_of(Workload& workload, std::uint64_t seed) {
  std::vector<Image> images;
  FaultyDisk::Random random(seed);         // the store's thread's
  FaultyDisk::Random random_pauses(seed);  // this one's
  FaultyDisk disk;
  const io::Store* running = nullptr;
  disk.before_sync([&] {
    for (int image = 0; image < kImagesPerSync; ++image)
      images.push_back({.files = disk.files_after_power_loss(random),
                        .committed = running == nullptr ? 0 : running->committed()});
  });
  auto store = test::open_on(disk);
  EXPECT_TRUE(store.has_value());
  running = store->get();
  for (test::Turn& turn : workload.turns) {
    (*store)->submit(turn.writes());
    // Several turns in one commit, now and then.
    if (random_pauses() % 2 == 0) (*store)->flush();
  }
  (*store)->flush();
  EXPECT_EQ((*store)->committed(), workload.turns.size());
  store->reset();
  return images;
}

TEST(PowerLoss, loses_nothing_that_was_committed_and_invents_nothing) {
  std::size_t images_seen = 0, more_than_committed = 0;
  for (std::uint64_t seed = 1; seed <= kWorkloads; ++seed) {
    Workload workload(seed, kTurns);
    for (const Image& image : images_of(workload, seed)) {
      ++images_seen;
      const auto turns = test::turns_on(image.files, workload);

      ASSERT_TRUE(turns.has_value()) << "seed " << seed << ": " << turns.error().message;
      ASSERT_NE(*turns, std::string::npos) << "seed " << seed << ": a content that no turn has made";
      ASSERT_GE(*turns, image.committed) << "seed " << seed;
      more_than_committed += *turns > image.committed;
    }
  }
  EXPECT_GE(images_seen, 2000u);
  // Whoever was not told may find that it happened all the same.
  EXPECT_GT(more_than_committed, 0u);
  RecordProperty("images", static_cast<int>(images_seen));
}

TEST(PowerLoss, takes_nothing_of_what_was_synced) {
  FaultyDisk disk;
  {
    const auto store = test::open_on(disk);
    Workload workload(1, 5);
    for (test::Turn& turn : workload.turns)
      (*store)->submit(turn.writes());
    (*store)->flush();
  }
  FaultyDisk::Random random(1);

  EXPECT_EQ(disk.files_after_power_loss(random), disk.files()) << "everything was synced at the end";
}

}  // namespace
}  // namespace lanemq
