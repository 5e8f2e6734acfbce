// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of every fuzzer as files: make_corpus FOLDER -> FOLDER/client_to_broker/00 and so on.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/frames.hpp"
#include "tests/fuzz/streams.hpp"

namespace {

bool write_seeds(const std::filesystem::path& folder, const std::vector<std::string>& seeds) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string& seed : seeds) {
    std::ofstream file(folder / (number < 10 ? "0" + std::to_string(number) : std::to_string(number)),
                       std::ios::binary);
    file.write(seed.data(), static_cast<std::streamsize>(seed.size()));
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write to %s\n", folder.c_str());
      return false;
    }
    ++number;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lanemq::fuzz;
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  for (const Direction direction : kDirections)
    if (!write_seeds(folder / name_of(direction), seed_frames(direction))) return 3;
  return write_seeds(folder / "events", event_seeds()) && write_seeds(folder / "request", request_seeds())
             ? 0
             : 3;
}
