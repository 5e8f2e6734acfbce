// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/connection_table.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace lanemq::io {
namespace {

AddressOwner address(std::uint8_t number) {
  AddressOwner owner{};
  owner.back() = number;
  return owner;
}

std::uint64_t nothing(int) {
  return 0;
}

TEST(ConnectionTable, the_oldest_that_has_said_nothing_gives_way_when_all_places_are_taken) {
  ConnectionTable table({.connections_max = 3, .per_address_max = 3});
  for (const int descriptor : {10, 11, 12})
    EXPECT_FALSE(table.accepted(descriptor, address(static_cast<std::uint8_t>(descriptor)), nothing));
  table.heard(10, 30);
  const auto closed = table.accepted(13, address(13), nothing);
  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->descriptor, 11);
  EXPECT_FALSE(closed->is_new);
  EXPECT_FALSE(closed->of_address);
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.silent(), 2u);
}

TEST(ConnectionTable, who_has_sent_least_gives_way) {
  ConnectionTable table({.connections_max = 3, .per_address_max = 3});
  for (const int descriptor : {10, 11, 12})
    EXPECT_FALSE(table.accepted(descriptor, address(1), nothing));
  const auto sent = [](int descriptor) -> std::uint64_t { return descriptor == 12 ? 0 : 64; };
  EXPECT_EQ(table.accepted(13, address(2), sent)->descriptor, 12);
}

TEST(ConnectionTable, who_shakes_hands_stays_however_many_come_that_send_nothing) {
  constexpr std::size_t kPlaces = 40;
  ConnectionTable table({.connections_max = kPlaces, .per_address_max = kPlaces});
  constexpr int kHonest = 3;
  const auto sent = [](int descriptor) -> std::uint64_t { return descriptor == kHonest ? 64 : 0; };
  for (int descriptor = 0; descriptor < static_cast<int>(kPlaces); ++descriptor)
    EXPECT_FALSE(table.accepted(descriptor, address(1), sent));
  std::vector<bool> went(kPlaces);
  for (int i = 0, descriptor = kPlaces; i < 100000; ++i) {
    descriptor = table.accepted(descriptor, address(2), sent)->descriptor;  // free for the next one
    ASSERT_NE(descriptor, kHonest) << i;
    if (descriptor < static_cast<int>(kPlaces)) went[static_cast<std::size_t>(descriptor)] = true;
  }
  EXPECT_EQ(std::count(went.begin(), went.end(), true), static_cast<std::ptrdiff_t>(kPlaces - 1));
  EXPECT_EQ(table.size(), kPlaces);
  EXPECT_EQ(table.silent(), kPlaces);
}

TEST(ConnectionTable, a_new_one_is_refused_where_all_have_spoken) {
  ConnectionTable table({.connections_max = 2, .per_address_max = 2});
  for (const int descriptor : {10, 11}) {
    EXPECT_FALSE(table.accepted(descriptor, address(1), nothing));
    table.heard(descriptor, 30);
  }
  const auto closed = table.accepted(12, address(2), nothing);
  ASSERT_TRUE(closed);
  EXPECT_TRUE(closed->is_new);
  EXPECT_EQ(closed->descriptor, 12);
  EXPECT_EQ(table.size(), 2u);
  table.ended(12);  // the system tells of its end, too
  EXPECT_EQ(table.size(), 2u);
  table.ended(10);
  EXPECT_FALSE(table.accepted(13, address(2), nothing));
}

TEST(ConnectionTable, an_address_that_has_its_share_takes_places_from_itself_alone) {
  ConnectionTable table({.connections_max = 100, .per_address_max = 2});
  EXPECT_FALSE(table.accepted(9, address(2), nothing));
  for (const int descriptor : {10, 11})
    EXPECT_FALSE(table.accepted(descriptor, address(1), nothing));
  const auto closed = table.accepted(12, address(1), nothing);
  ASSERT_TRUE(closed);
  EXPECT_TRUE(closed->of_address);
  EXPECT_EQ(closed->descriptor, 10);
  table.heard(11, 30);
  table.heard(12, 30);
  EXPECT_TRUE(table.accepted(13, address(1), nothing)->is_new);
  EXPECT_FALSE(table.accepted(14, address(2), nothing));
  EXPECT_EQ(table.size(), 4u);
}

TEST(ConnectionTable, a_descriptor_that_is_used_again_is_a_new_connection) {
  ConnectionTable table({.connections_max = 2, .per_address_max = 2});
  EXPECT_FALSE(table.accepted(10, address(1), nothing));
  table.heard(10, 30);
  EXPECT_FALSE(table.accepted(10, address(2), nothing));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.silent(), 1u);
}

constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

/// A look at one connection; whether it has to go.
bool goes(ConnectionTable& table, int descriptor, std::uint64_t bytes) {
  table.received(descriptor, bytes);
  const std::vector<int> gone = table.too_much();
  return std::find(gone.begin(), gone.end(), descriptor) != gone.end();
}

TEST(ConnectionTable, who_sends_whole_messages_is_never_cut) {
  ConnectionTable table({.message_bytes_max = kMiB, .receiving_bytes_max = kMiB});
  EXPECT_FALSE(table.accepted(10, address(1), nothing));
  std::uint64_t bytes = 300;  // of the handshake
  for (int look = 0; look < 1000; ++look) {
    bytes += 900 * kKiB;
    table.heard(10, 900 * kKiB);
    EXPECT_FALSE(goes(table, 10, bytes)) << look;
  }
  EXPECT_EQ(table.receiving_bytes(), 0u);
  EXPECT_FALSE(goes(table, 10, bytes)) << "when it has stopped";
}

TEST(ConnectionTable, messages_that_wait_to_be_read_are_not_cut) {
  ConnectionTable table({.message_bytes_max = kMiB, .receiving_bytes_max = kMiB});
  EXPECT_FALSE(table.accepted(10, address(1), nothing));
  std::uint64_t bytes = 50 * kMiB;
  for (std::uint64_t read = 0; read < bytes; read += 10 * kKiB) {
    table.heard(10, 10 * kKiB);
    EXPECT_FALSE(goes(table, 10, bytes));
  }
  EXPECT_EQ(table.receiving_bytes(), 0u);
}

TEST(ConnectionTable, who_sends_more_than_a_message_and_no_message_is_cut) {
  ConnectionTable table({.message_bytes_max = kMiB, .receiving_bytes_max = 1024 * kMiB});
  EXPECT_FALSE(table.accepted(10, address(1), nothing));
  table.heard(10, 1000);
  EXPECT_FALSE(goes(table, 10, 1000));
  EXPECT_FALSE(goes(table, 10, 1000 + kMiB));
  EXPECT_EQ(table.receiving_bytes(), kMiB);
  EXPECT_TRUE(goes(table, 10, 1001 + kMiB));
  table.ended(10);
  EXPECT_EQ(table.receiving_bytes(), 0u);
}

TEST(ConnectionTable, a_burst_that_stops_in_mid_message_counts) {
  ConnectionTable table({.message_bytes_max = 64 * kMiB, .receiving_bytes_max = 20 * kMiB});
  for (const int descriptor : {10, 11, 12})
    EXPECT_FALSE(table.accepted(descriptor, address(1), nothing));
  table.heard(10, 30);
  EXPECT_FALSE(goes(table, 10, 12 * kMiB));
  EXPECT_FALSE(goes(table, 11, 7 * kMiB));
  EXPECT_FALSE(goes(table, 12, 4 * kMiB)) << "others have more";
  EXPECT_EQ(table.receiving_bytes() / kMiB, 22u);
  EXPECT_TRUE(goes(table, 10, 12 * kMiB)) << "although it has stopped";
}

TEST(ConnectionTable, who_sends_slowly_what_is_no_message_is_cut_as_well) {
  ConnectionTable table({.message_bytes_max = kMiB, .receiving_bytes_max = 1024 * kMiB});
  EXPECT_FALSE(table.accepted(10, address(1), nothing));
  table.heard(10, 30);
  std::uint64_t bytes = 30;
  while (bytes < 4 * kMiB && !goes(table, 10, bytes))
    bytes += 10 * kKiB;
  EXPECT_LT(bytes, 2 * kMiB);
}

TEST(ConnectionTable, where_all_send_too_much_those_with_the_most_go) {
  ConnectionTable table({.message_bytes_max = 10 * kMiB, .receiving_bytes_max = 10 * kMiB});
  for (const int descriptor : {10, 11, 12, 13}) {
    EXPECT_FALSE(table.accepted(descriptor, address(1), nothing));
    table.received(descriptor, static_cast<std::uint64_t>(descriptor - 8) * kMiB);  // 2, 3, 4 and 5
  }
  EXPECT_EQ(table.too_much(), std::vector<int>{13});
  table.received(10, 9 * kMiB);
  EXPECT_EQ(table.too_much(), (std::vector<int>{10, 13}));
}

TEST(ConnectionTable, what_is_no_message_is_forgotten_as_long_as_messages_come) {
  ConnectionTable table({.message_bytes_max = kMiB, .receiving_bytes_max = kMiB});
  EXPECT_FALSE(table.accepted(10, address(1), nothing));
  std::uint64_t bytes = 0;
  for (int look = 0; look < 1000; ++look) {
    bytes += 10 * kKiB + 100;  // of heartbeats
    table.heard(10, 100);
    ASSERT_FALSE(goes(table, 10, bytes)) << look;
  }
  EXPECT_EQ(table.receiving_bytes(), 0u);
}

TEST(ConnectionTable, connections_are_gone_through_in_order) {
  ConnectionTable table({});
  for (const int descriptor : {7, 3, 9})
    EXPECT_FALSE(table.accepted(descriptor, address(1), nothing));
  table.ended(7);
  EXPECT_EQ(table.next(-1), 3);
  EXPECT_EQ(table.next(3), 9);
  EXPECT_EQ(table.next(9), std::nullopt);
}

}  // namespace
}  // namespace lanemq::io
