// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/broker/io/store_workload.hpp"

#include "broker/io/store/open/open_store.hpp"

namespace lanemq::test {
namespace {

using Random = std::mt19937_64;

std::size_t up_to(Random& random, std::size_t most) {
  return std::uniform_int_distribution<std::size_t>(0, most)(random);
}

std::string text(Random& random, std::size_t most) {
  return std::string(up_to(random, most), static_cast<char>('a' + up_to(random, 25)));
}

/// Most bodies are small, some are apart, a few span many pages.
std::string body(Random& random) {
  const std::size_t kind = up_to(random, 9);
  return text(random, kind < 7 ? 200 : kind < 9 ? 3000 : 20'000);
}

template <class Map>
std::uint64_t any_of(const Map& map, Random& random) {
  return std::next(map.begin(), static_cast<std::ptrdiff_t>(up_to(random, map.size() - 1)))->first;
}

/// One write that the content allows.
void add_write(Turn& turn, const StoreContent& content, std::uint64_t& next_number, Random& random) {
  const std::size_t kind = content.jobs.empty() ? 0 : up_to(random, 7);
  if (kind <= 2)
    turn.insert_job(++next_number, {text(random, 40), text(random, 300), body(random)});
  else if (kind == 3)
    turn.update_job(any_of(content.jobs, random), text(random, 60));
  else if (kind == 4)
    turn.rename_job(any_of(content.jobs, random), ++next_number, text(random, 60));
  else if (kind == 5)
    turn.erase_job(any_of(content.jobs, random));
  else if (kind == 6 || content.results.empty())
    turn.insert_result(++next_number, {text(random, 100), body(random)});
  else
    turn.erase_result(any_of(content.results, random));
}

}  // namespace

Workload::Workload(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::uint64_t next_number = 0;
  after.emplace_back();
  for (std::size_t number = 1; number <= count; ++number) {
    Turn turn;
    StoreContent content = after.back();
    for (std::size_t left = 1 + up_to(random, 3); left > 0; --left) {
      Turn write;
      add_write(write, content, next_number, random);
      write.apply(content);
      turn.append(write);
    }
    Turn note;
    note.put_note("turn", std::to_string(number));
    note.apply(content);
    turn.append(note);
    turns.push_back(std::move(turn));
    after.push_back(std::move(content));
  }
}

std::size_t turns_in(const StoreContent& content, const Workload& workload) {
  const auto note = content.notes.find("turn");
  const std::size_t turns = note == content.notes.end() ? 0 : std::stoull(note->second);
  return turns < workload.after.size() && content == workload.after[turns] ? turns : std::string::npos;
}

Result<std::unique_ptr<io::Store>> open_on(FaultyDisk& disk) {
  return io::open_store({.specification = "sqlite:store",
                         .reserve_bytes = 64 << 10,
                         .checkpoint_pages = 20,
                         .vfs = disk.vfs(),
                         .disk = &disk});
}

Result<std::size_t> turns_on(const FaultyDisk::Files& files, const Workload& workload) {
  FaultyDisk disk(files);
  const auto store = open_on(disk);
  if (!store) return tl::unexpected(store.error());
  const auto content = content_of(**store);
  if (!content) return tl::unexpected(content.error());
  return turns_in(*content, workload);
}

}  // namespace lanemq::test
