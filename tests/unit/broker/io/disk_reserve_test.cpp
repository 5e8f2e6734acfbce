// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/sqlite/disk_reserve.hpp"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/faulty_disk.hpp"
#include "tests/support/temporary_directory.hpp"

namespace lanemq {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::string of(std::uint64_t bytes) {
  return std::string(bytes, '.');
}

TEST(DiskReserve, keeps_back_a_quarter_of_a_small_disk) {
  test::FaultyDisk disk;
  disk.set_capacity(16 * kMiB);

  const io::DiskReserve reserve(disk, "store", 64 * kMiB);

  EXPECT_TRUE(reserve.held());
  EXPECT_EQ(reserve.bytes(), 4 * kMiB);
  EXPECT_EQ(disk.file_bytes("store.reserve"), 4 * kMiB);
}

TEST(DiskReserve, is_as_large_on_a_disk_that_the_store_has_filled) {
  test::FaultyDisk disk(
      {{"store", of(10 * kMiB)}, {"store-wal", of(2 * kMiB)}, {"store.reserve", of(4 * kMiB)}});
  disk.set_capacity(16 * kMiB);

  const io::DiskReserve reserve(disk, "store", 64 * kMiB);

  EXPECT_TRUE(reserve.held());
  EXPECT_EQ(reserve.bytes(), 4 * kMiB);
  EXPECT_TRUE(reserve.is_low(*reserve.free_bytes()));
}

TEST(DiskReserve, is_held_again_only_when_as_much_is_left_besides) {
  test::FaultyDisk disk;
  disk.set_capacity(16 * kMiB);
  io::DiskReserve reserve(disk, "store", 2 * kMiB);
  reserve.release();
  EXPECT_FALSE(reserve.held());
  EXPECT_EQ(disk.file_bytes("store.reserve"), 0u);

  disk.allocate("other", 13 * kMiB);
  EXPECT_FALSE(reserve.hold());
  disk.allocate("other", 11 * kMiB);
  EXPECT_TRUE(reserve.hold());
  EXPECT_TRUE(reserve.has_again(*reserve.free_bytes()));
}

TEST(DiskReserve, keeps_nothing_back_where_nothing_is_wanted) {
  test::FaultyDisk disk({{"store.reserve", of(kMiB)}});

  io::DiskReserve reserve(disk, "store", 0);

  EXPECT_TRUE(reserve.hold());
  EXPECT_TRUE(disk.files().empty());
  EXPECT_FALSE(reserve.is_low(0));
}

TEST(Disk, makes_a_file_that_takes_its_room) {
  const test::TemporaryDirectory folder;
  io::Disk disk;
  const std::string path = folder.path("reserve");

  ASSERT_TRUE(disk.allocate(path, kMiB));
  EXPECT_EQ(disk.file_bytes(path), kMiB);
  ASSERT_TRUE(disk.allocate(path, kMiB / 2));
  EXPECT_EQ(disk.file_bytes(path), kMiB / 2);
  EXPECT_GT(disk.free_bytes(path).value_or(0), 0u);
  EXPECT_FALSE(disk.allocate(folder.path("no/folder"), kMiB));

  disk.remove(path);
  EXPECT_EQ(disk.file_bytes(path), 0u);
  EXPECT_EQ(disk.free_bytes(path), std::nullopt);
}

}  // namespace
}  // namespace lanemq
