// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/id_index.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

/// Hashes of which many share a part and a home, and some differ in nothing else.
std::uint64_t hash_of(std::uint8_t byte) {
  return std::uint64_t{byte & 3u} << 59 | std::uint64_t{(byte >> 2) & 7u} << 43 | std::uint64_t{byte} << 19;
}

TEST(IdIndex, finds_what_was_inserted_and_nothing_else) {
  const bool holds = rc::check([](const std::vector<std::pair<std::uint8_t, std::uint8_t>>& steps) {
    IdIndex index;
    std::set<std::pair<std::uint64_t, IdIndex::Place>> model;
    for (const auto& [byte, place] : steps) {
      const std::pair entry(hash_of(byte), IdIndex::Place{place});
      if (model.contains(entry)) {
        RC_ASSERT(index.erase(entry.first, entry.second));
        model.erase(entry);
      } else {
        RC_ASSERT(!index.erase(entry.first, entry.second));
        index.insert(entry.first, entry.second);
        model.insert(entry);
      }
      RC_ASSERT(index.size() == model.size());
      for (const auto& [hash, known] : model) {
        const IdIndex::Place wanted = known;
        RC_ASSERT(index.find(hash, [&](IdIndex::Place found) { return found == wanted; }) == wanted);
      }
      RC_ASSERT(index.find(hash_of(byte), [](IdIndex::Place) { return false; }) == IdIndex::kNone);
    }
  });
  EXPECT_TRUE(holds);
}

TEST(IdIndex, asks_of_a_place_only_where_the_hash_is_the_same) {
  IdIndex index;
  std::uint64_t hash = 1;
  for (IdIndex::Place place = 0; place < 100'000; ++place)
    index.insert(hash = hash * 6364136223846793005u + 1442695040888963407u, place);
  std::size_t asked = 0;
  hash = 1;
  for (IdIndex::Place place = 0; place < 100'000; ++place) {
    hash = hash * 6364136223846793005u + 1442695040888963407u;
    const auto is_it = [&](IdIndex::Place found) {
      ++asked;
      return found == place;
    };
    ASSERT_EQ(index.find(hash, is_it), place);
    ASSERT_EQ(index.find(~hash, is_it), IdIndex::kNone);
  }
  EXPECT_LT(asked, 100'010u);
}

}  // namespace
}  // namespace lanemq::core
