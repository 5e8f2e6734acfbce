// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>

#include "tests/fuzz/frames.hpp"

namespace lanemq::fuzz {
namespace {

/// The first bytes of msgpack's formats, and the ends of their ranges.
constexpr unsigned char kLeads[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1,
                                    0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB,
                                    0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD8,
                                    0xD9, 0xDA, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF, 0xE0, 0xFF};

/// Keys and values that mean something somewhere.
constexpr std::string_view kWords[] = {"\xA7service",
                                       "\xA2id",
                                       "\xA3ref",
                                       "\xA3job",
                                       "\xA7"
                                       "attempt",
                                       "\xA4jobs",
                                       "\xA5usage",
                                       "\xA6limits",
                                       "\xA4"
                                       "cost",
                                       "\xA4meta",
                                       "\xA5trace",
                                       "\xA3x-q",
                                       "\xC0",
                                       "\x90",
                                       "\x80",
                                       "\xC4\x01z",
                                       "\x92\x01\x02"};

}  // namespace

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : std::strtoull(value, nullptr, 0);
}

std::uint64_t Mutator::draw() {
  // splitmix64: short, and the same on every machine.
  std::uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

std::string Mutator::next(const std::vector<std::string>& seeds) {
  if (below(16) == 0) return random_frame();
  std::string frame = seeds[below(seeds.size())];
  for (std::size_t changes = below(4); changes > 0; --changes)
    change(frame, seeds);
  if (frame.size() > kFrameBytesMax) frame.resize(kFrameBytesMax);
  return frame;
}

std::string Mutator::random_frame() {
  std::string frame(below(2) == 0 ? "\x93\xA4LMQ1" : "\x94\xA4LMQ1");
  if (below(8) == 0) frame.clear();
  for (std::size_t left = below(below(8) == 0 ? 4096 : 64); left > 0; --left)
    frame += static_cast<char>(below(3) == 0 ? kLeads[below(std::size(kLeads))] : below(256));
  return frame;
}

void Mutator::change(std::string& frame, const std::vector<std::string>& seeds) {
  const std::size_t at = below(frame.size() + 1);
  const std::size_t length = std::min(below(16) + 1, frame.size() - at);
  switch (below(9)) {
    case 0:
      if (length > 0) frame[at] = static_cast<char>(frame[at] ^ (1 << below(8)));
      return;
    case 1:
      if (length > 0) frame[at] = static_cast<char>(kLeads[below(std::size(kLeads))]);
      return;
    case 2:
      frame.insert(at, 1, static_cast<char>(kLeads[below(std::size(kLeads))]));
      return;
    case 3:
      frame.erase(at, length);
      return;
    case 4:
      frame.insert(at, frame.substr(at, length));
      return;
    case 5:
      frame.resize(at);
      return;
    case 6:
      frame.insert(at, kWords[below(std::size(kWords))]);
      return;
    case 7:
      frame.insert(at, below(64) == 0 ? 20000 : below(300), static_cast<char>(below(256)));
      return;
    default: {
      const std::string& other = seeds[below(seeds.size())];
      frame = frame.substr(0, at) + other.substr(std::min(at, other.size()));
      return;
    }
  }
}

}  // namespace lanemq::fuzz
