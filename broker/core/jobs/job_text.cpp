// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/job_text.hpp"

#include <lanemq/limits.hpp>

#include "broker/core/base/check.hpp"

namespace lanemq::core {

JobText::Mask JobText::mask_of(const Parts& parts) {
  unsigned mask = 0;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].empty()) mask |= 1U << i;
  return static_cast<Mask>(mask);
}

std::size_t JobText::bytes_of(const Parts& parts) {
  std::size_t bytes = 0;
  for (const std::string_view part : parts)
    bytes += part.empty() ? 0 : sizeof(std::uint16_t) + part.size();
  return bytes;
}

void JobText::write(const Parts& parts, char* to) {
  char* text = to + count(mask_of(parts)) * sizeof(std::uint16_t);
  std::size_t end = 0;
  for (const std::string_view part : parts) {
    if (part.empty()) continue;
    std::memcpy(text + end, part.data(), part.size());
    end += part.size();
    LANEMQ_CHECK(end <= kBytesMax);
    const auto stored = static_cast<std::uint16_t>(end);
    std::memcpy(to, &stored, sizeof stored);
    to += sizeof stored;
  }
}

std::size_t JobText::tail_bytes(const Contents& contents) {
  const std::size_t texts = bytes_of(contents.parts);
  return (contents.body_hash ? sizeof(std::uint64_t) : 0) + (contents.expected ? sizeof(Expected) : 0) +
         (texts > kInlineBytes ? sizeof(char*) : texts);
}

void JobText::fill(const Contents& contents) {
  LANEMQ_CHECK(parts_ == 0 && !has_hash_ && !has_expected_);
  has_hash_ = contents.body_hash.has_value();
  has_expected_ = contents.expected.has_value();
  if (has_hash_) std::memcpy(tail(), &*contents.body_hash, sizeof(std::uint64_t));
  if (has_expected_) set_expected(*contents.expected);
  parts_ = mask_of(contents.parts) & ((1U << kParts) - 1);
  const std::size_t bytes = bytes_of(contents.parts);
  apart_ = bytes > kInlineBytes;
  if (!apart_) return write(contents.parts, tail() + texts_at());
  char* const block = std::make_unique_for_overwrite<char[]>(bytes).release();
  std::memcpy(tail() + texts_at(), &block, sizeof block);
  write(contents.parts, block);
}

void JobText::clear() {
  if (apart_) delete[] block();
  parts_ = 0;
  apart_ = has_hash_ = has_expected_ = false;
}

void JobText::keep_names() {
  std::array<char, 2 * limits::name_bytes_max> names;
  Parts kept{};
  std::size_t end = 0;
  for (const Part part : {model, client}) {
    const std::string_view text = get(part);
    LANEMQ_CHECK(end + text.size() <= names.size());
    if (!text.empty()) std::memcpy(names.data() + end, text.data(), text.size());
    kept[part] = {names.data() + end, text.size()};
    end += text.size();
  }
  const bool was_apart = apart_;
  clear();
  if (end == 0) return;
  parts_ = mask_of(kept) & ((1U << kParts) - 1);
  apart_ = was_apart;
  if (!apart_) return write(kept, tail());
  // The room behind the record is for their address alone.
  char* const block = std::make_unique_for_overwrite<char[]>(bytes_of(kept)).release();
  std::memcpy(tail(), &block, sizeof block);
  write(kept, block);
}

std::optional<std::uint64_t> JobText::body_hash() const {
  if (!has_hash_) return std::nullopt;
  std::uint64_t hash = 0;
  std::memcpy(&hash, tail(), sizeof hash);
  return hash;
}

Expected JobText::expected() const {
  Expected expected;
  std::memcpy(&expected, tail() + expected_at(), sizeof expected);
  return expected;
}

void JobText::set_expected(const Expected& expected) {
  LANEMQ_CHECK(has_expected_);
  std::memcpy(tail() + expected_at(), &expected, sizeof expected);
}

}  // namespace lanemq::core
