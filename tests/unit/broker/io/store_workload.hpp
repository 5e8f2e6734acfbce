// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/faulty_disk.hpp"
#include "tests/support/store_driver.hpp"

namespace lanemq::test {

/// Turns of every kind of write, by chance, and what a store holds after each: `after[t]` after the first t.
/// Each turn leaves its number in the note `turn`.
struct Workload {
  std::vector<Turn> turns;
  std::vector<StoreContent> after;

  Workload(std::uint64_t seed, std::size_t count);
};

/// How many turns a content has seen; npos: it is not what any number of them makes.
std::size_t turns_in(const StoreContent& content, const Workload& workload);

/// A store on a faulty disk, at the path `store`; checkpoints come often.
Result<std::unique_ptr<io::Store>> open_on(FaultyDisk& disk);

/// Opens what is on the disk and reads it: how many turns are there. An error is the store's.
Result<std::size_t> turns_on(const FaultyDisk::Files& files, const Workload& workload);

}  // namespace lanemq::test
