// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "broker/core/base/amounts.hpp"

namespace lanemq::core {

/// The tokens that a job is expected to take of its budgets.
struct Expected {
  std::uint32_t input_tokens = 0, output_tokens = 0;
  std::uint32_t raw_input = 0;  ///< the input before its correction, to learn from

  Amounts amounts() const { return {.input_tokens = input_tokens, .output_tokens = output_tokens}; }
  bool is_estimated() const { return (input_tokens | output_tokens) != 0; }
  bool operator==(const Expected&) const = default;
};

/// A job's variable parts, packed in the memory behind this object: its holder leaves tail_bytes() there. So
/// a typical job needs no further allocation and pays for what it has. Parts larger than kInlineBytes stand
/// in a block apart. Two numbers that few jobs have stand before the texts.
class JobText {
 public:
  enum Part : std::uint8_t {
    id,
    envelope,
    ref,
    model,
    client,
    group,
    notify,
    meta,
    trace,
    extras,
    body,
    kParts
  };
  using Parts = std::array<std::string_view, kParts>;
  struct Contents {
    Parts parts{};
    std::optional<std::uint64_t> body_hash;  ///< where it cannot be computed from the body at hand
    std::optional<Expected> expected;
  };

  /// Most bytes behind the record.
  static constexpr std::size_t kInlineBytes = 256;
  static constexpr std::size_t kTailBytesMax = sizeof(std::uint64_t) + sizeof(Expected) + kInlineBytes;
  /// Most bytes of all parts together.
  static constexpr std::size_t kBytesMax = 0xFFFF;
  /// Larger bodies are kept in a Blob.
  static constexpr std::size_t kBodyBytesMax = 4096;

  JobText() = default;
  ~JobText() { clear(); }
  JobText(const JobText&) = delete;
  JobText& operator=(const JobText&) = delete;

  static std::size_t tail_bytes(const Contents& contents);
  /// Bytes of all parts together.
  static std::size_t bytes_of(const Parts& parts);
  /// Requires: nothing was filled in, the room behind it is tail_bytes(), and the parts have at most
  /// kBytesMax.
  void fill(const Contents& contents);
  /// Forgets everything.
  void clear();
  /// Forgets all but the model and the client.
  void keep_names();

  std::string_view get(Part part) const { return find(parts_, texts(), part); }
  /// Bytes of its parts.
  std::size_t size() const { return size_of(parts_, texts()); }

  std::optional<std::uint64_t> body_hash() const;
  bool has_expected() const { return has_expected_; }
  /// Requires: has_expected().
  Expected expected() const;
  void set_expected(const Expected& expected);

 private:
  /// How texts stand one behind the other: the end of each that is not empty, then the texts.
  using Mask = std::uint16_t;  ///< a bit for each part that is not empty
  static Mask mask_of(const Parts& parts);
  static void write(const Parts& parts, char* to);
  static std::size_t size_of(Mask mask, const char* texts) {
    return mask == 0 ? 0 : end_at(texts, count(mask) - 1);
  }
  static std::string_view find(Mask mask, const char* texts, Part part) {
    if ((mask >> part & 1) == 0) return {};
    const std::size_t place = count(mask & ((1U << part) - 1));
    const std::size_t begin = place == 0 ? 0 : end_at(texts, place - 1);
    return {texts + count(mask) * sizeof(std::uint16_t) + begin, end_at(texts, place) - begin};
  }

  /// The number of bits in a mask, from a table: texts are read some twenty times a job, and machines without
  /// an instruction for it need a dozen others each time.
  static constexpr std::array<std::uint8_t, std::size_t{1} << kParts> kCounts = [] {
    std::array<std::uint8_t, std::size_t{1} << kParts> counts{};
    for (std::size_t mask = 1; mask < counts.size(); ++mask)
      counts[mask] = static_cast<std::uint8_t>(counts[mask / 2] + mask % 2);
    return counts;
  }();
  static std::size_t count(std::uint32_t mask) { return kCounts[mask]; }
  static std::size_t end_at(const char* texts, std::size_t place) {
    std::uint16_t end = 0;
    std::memcpy(&end, texts + place * sizeof end, sizeof end);
    return end;
  }

  // Behind this object: the hash and the expected tokens, if any, then the texts or their address.
  const char* tail() const { return reinterpret_cast<const char*>(this + 1); }
  char* tail() { return reinterpret_cast<char*>(this + 1); }
  std::size_t expected_at() const { return has_hash_ ? sizeof(std::uint64_t) : 0; }
  std::size_t texts_at() const { return expected_at() + (has_expected_ ? sizeof(Expected) : 0); }
  const char* texts() const { return apart_ ? block() : tail() + texts_at(); }
  char* block() const {
    char* block = nullptr;
    std::memcpy(&block, tail() + texts_at(), sizeof block);
    return block;
  }

  Mask parts_ : kParts = 0;
  bool apart_ : 1 = false;
  bool has_hash_ : 1 = false;
  bool has_expected_ : 1 = false;
};
static_assert(sizeof(JobText) == 2);

}  // namespace lanemq::core
