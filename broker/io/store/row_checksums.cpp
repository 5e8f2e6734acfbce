// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/row_checksums.hpp"

#include <xxhash.h>

namespace lanemq::io {
namespace {

std::int64_t hash(std::string_view bytes, std::uint64_t seed) {
  return static_cast<std::int64_t>(XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed));
}

}  // namespace

std::int64_t state_checksum(std::uint64_t number, std::string_view state) {
  return hash(state, number);
}

std::int64_t job_checksum(std::string_view record, std::string_view body, std::size_t body_bytes) {
  return hash(body, static_cast<std::uint64_t>(hash(record, body_bytes)));
}

std::int64_t body_checksum(std::string_view body) {
  return hash(body, 0);
}

std::int64_t result_checksum(std::uint64_t number, std::string_view record, std::string_view body,
                             std::size_t apart_bytes) {
  const std::int64_t sum = hash(body, static_cast<std::uint64_t>(hash(record, number)));
  // An older version's sum, where the body is in the row.
  return apart_bytes == 0 ? sum : hash({}, static_cast<std::uint64_t>(sum) + apart_bytes);
}

std::int64_t note_checksum(std::string_view name, std::string_view record) {
  return hash(record, static_cast<std::uint64_t>(hash(name, 0)));
}

}  // namespace lanemq::io
