// SPDX-License-Identifier: Apache-2.0
//
// costs [NAME...]: walks the paths of tests/costs.toml, all or those that are named.
//
// For scripts/costs, which runs it under callgrind. Each path is set up and warmed up uncounted; then
// callgrind counts its operations and writes what it saw to a file of its own. For each of these files, in
// their order, a line is printed: the number of operations, a tab, the path's name.
#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>

#include <valgrind/callgrind.h>

#include "tests/costs/paths.hpp"

namespace {

using lanemq::costs::Path;

void count(const Path& path) {
  const std::function<void()> operation = path.make();
  for (int i = 0; i < path.times; ++i)
    operation();
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
  for (int i = 0; i < path.times; ++i)
    operation();
  CALLGRIND_DUMP_STATS_AT(path.name.c_str());
  CALLGRIND_STOP_INSTRUMENTATION;
  std::printf("%d\t%s\n", path.times, path.name.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lanemq::costs;
  const std::span<char*> wanted(argv + 1, static_cast<std::size_t>(argc - 1));
  for (const auto& paths : {wire_paths, core_paths, durable_paths, gateway_paths, worker_paths})
    for (const Path& path : paths())
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), path.name) != wanted.end()) count(path);
  return 0;
}
