// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of every fuzzer as files: make_corpus FOLDER -> FOLDER/client_to_broker/00 and so on.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/frames.hpp"
#include "tests/fuzz/heavy_shapes.hpp"
#include "tests/fuzz/streams.hpp"
#include "tests/fuzz/texts.hpp"
#include "tests/http/shapes.hpp"

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
  constexpr std::size_t kFuzzerBytes = 4096;  // as long as scripts/fuzz lets an input be
  for (const Direction direction : kDirections) {
    std::vector<std::string> seeds = seed_frames(direction);
    if (direction == Direction::client_to_broker)
      for (HeavyShape& shape : heavy_shapes(kFuzzerBytes))
        seeds.push_back(std::move(shape.frame));
    if (!write_seeds(folder / name_of(direction), seeds)) return 3;
  }
  std::vector<std::string> requests;
  for (const lanemq::http::test::Shape& shape : lanemq::http::test::read_shapes(LANEMQ_HTTP_SHAPES))
    if (shape.bytes.size() <= kFuzzerBytes) requests.push_back(shape.bytes);
  if (!write_seeds(folder / "http", requests)) return 3;
  const bool written =
      write_seeds(folder / "events", event_seeds()) && write_seeds(folder / "request", request_seeds()) &&
      write_seeds(folder / "url", url_seeds()) && write_seeds(folder / "path", path_seeds()) &&
      write_seeds(folder / "terminal", terminal_seeds());
  return written ? 0 : 3;
}
