// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::fuzz {

/// Who says something to whom: each direction has its own operations.
enum class Direction : unsigned char {
  client_to_broker,
  broker_to_client,
  worker_to_broker,
  broker_to_worker
};
inline constexpr Direction kDirections[] = {Direction::client_to_broker, Direction::broker_to_client,
                                            Direction::worker_to_broker, Direction::broker_to_worker};
std::string_view name_of(Direction direction);

/// Headers to start from: one of each operation with few fields and with all of them, and hand-made ones that
/// break one rule each. In a fixed order.
std::vector<std::string> seed_frames(Direction direction);

/// A number that the environment gives by that name, as LANEMQ_FUZZ_FRAMES and LANEMQ_FUZZ_SEED.
std::uint64_t from_environment(const char* name, std::uint64_t fallback);

/// Changes frames at random, the same way for the same seed.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : state_(seed) {}

  /// One of `seeds` with up to three changes, or (one time in sixteen) of random bytes
  /// behind the start of a header. At most `kFrameBytesMax` long. Requires: seeds is not empty.
  std::string next(const std::vector<std::string>& seeds);

  /// A number below `bound`. Requires: bound > 0.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(draw() % bound); }

  static constexpr std::size_t kFrameBytesMax = 64 * 1024;

 private:
  std::uint64_t draw();
  void change(std::string& frame, const std::vector<std::string>& seeds);
  std::string random_frame();

  std::uint64_t state_;
};

/// Decodes the frame as `direction` does and checks what must hold whatever the bytes are; aborts with a
/// message if it does not. Returns whether the frame was well-formed.
bool check_frame(Direction direction, std::string_view frame);

}  // namespace lanemq::fuzz
