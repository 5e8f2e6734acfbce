// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

namespace lanemq::core {

/// The variable parts of a job, packed behind each other: in the record itself while they are small, so that
/// a typical job needs no allocation of its own, else in one block.
class JobText {
 public:
  /// Leaves the bytes in the record as they are: they are cold, and there is nothing to read in them.
  JobText() {}  // NOLINT(modernize-use-equals-default): a defaulted one would be zeroed

  enum Part : std::uint8_t { id, envelope, ref, model, client, meta, trace, extras, body, kParts };
  using Parts = std::array<std::string_view, kParts>;

  /// What fits into the record.
  static constexpr std::size_t kInlineBytes = 160;
  /// Bodies up to this are packed with the rest; larger ones are kept by their Blob.
  static constexpr std::size_t kBodyBytesMax = 4096;

  /// Replaces everything. The parts may point into this text. Requires: their sum is below 64 KiB.
  void assign(const Parts& parts);

  std::string_view get(Part part) const {
    const std::uint16_t begin = part == 0 ? std::uint16_t{0} : ends_[part - 1];
    return {data() + begin, static_cast<std::size_t>(ends_[part] - begin)};
  }
  std::size_t size() const { return ends_[kParts - 1]; }

 private:
  const char* data() const { return block_ ? block_.get() : inline_.data(); }

  std::array<std::uint16_t, kParts> ends_{};
  std::unique_ptr<char[]> block_;
  std::array<char, kInlineBytes> inline_;
};

}  // namespace lanemq::core
