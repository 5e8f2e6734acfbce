// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of every direction as files: make_corpus FOLDER -> FOLDER/client_to_broker/00 and so on.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/frames.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  for (const lanemq::fuzz::Direction direction : lanemq::fuzz::kDirections) {
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / lanemq::fuzz::name_of(direction);
    std::filesystem::create_directories(folder);
    int number = 0;
    for (const std::string& frame : lanemq::fuzz::seed_frames(direction)) {
      std::ofstream file(folder / (number < 10 ? "0" + std::to_string(number) : std::to_string(number)),
                         std::ios::binary);
      file.write(frame.data(), static_cast<std::streamsize>(frame.size()));
      if (!file.flush()) {
        std::fprintf(stderr, "cannot write to %s\n", folder.c_str());
        return 3;
      }
      ++number;
    }
  }
  return 0;
}
