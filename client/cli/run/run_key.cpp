// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/run_key.hpp"

#include <charconv>
#include <memory>
#include <system_error>

#include <xxhash.h>

#include "common/ids/hex.hpp"
#include "common/ids/ulid.hpp"

namespace lanemq::cli {
namespace {

constexpr std::string_view kIdStart = "run-";
constexpr std::size_t kHexDigits = 16;  // of hex()

/// The number that hex() wrote; empty for another text.
std::optional<std::uint64_t> number_of_hex(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size() || hex(number) != text) return std::nullopt;
  return number;
}

RunKey key_of(XXH128_hash_t hash) {
  return {hash.high64, hash.low64};
}

/// A hash of several parts and their lengths, so that moving a border between parts changes it.
class PartHash {
 public:
  PartHash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }
  void add(std::string_view part) {
    const std::uint64_t size = part.size();
    XXH3_128bits_update(state_.get(), &size, sizeof size);
    XXH3_128bits_update(state_.get(), part.data(), part.size());
  }
  RunKey digest() const { return key_of(XXH3_128bits_digest(state_.get())); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace

RunKey key_of_custom_id(std::string_view custom_id) {
  return key_of(XXH3_128bits(custom_id.data(), custom_id.size()));
}

RunKey key_of_line(std::uint64_t number) {
  PartHash hash;
  hash.add(std::to_string(number));
  return hash.digest();
}

std::uint64_t request_hash(const RunTarget& target, std::string_view path, std::string_view body) {
  PartHash hash;
  for (const std::string_view part : {target.service, target.model, path, body})
    hash.add(part);
  return hash.digest().low;
}

std::string to_text(const RunKey& key) {
  return hex(key.high) + hex(key.low);
}

RunKey key_from_text(std::string_view text) {
  if (text.size() != 2 * kHexDigits) return {};
  const std::optional<std::uint64_t> high = number_of_hex(text.substr(0, kHexDigits));
  const std::optional<std::uint64_t> low = number_of_hex(text.substr(kHexDigits));
  return high && low ? RunKey{*high, *low} : RunKey{};
}

std::string run_job_id(const RunJob& job) {
  PartHash hash;
  for (const std::string_view part : {job.salt, job.lane})
    hash.add(part);
  hash.add(to_text(job.key));
  return std::string(kIdStart) + hex(hash.digest().low) + "-" + hex(job.request) + "-" +
         std::to_string(job.attempt);
}

std::optional<std::uint64_t> request_in(std::string_view job_id) {
  constexpr std::size_t kJob = kIdStart.size(), kRequest = kJob + kHexDigits + 1,
                        kEnd = kRequest + kHexDigits;
  if (job_id.size() <= kEnd || !job_id.starts_with(kIdStart) || job_id[kRequest - 1] != '-' ||
      job_id[kEnd] != '-' || !number_of_hex(job_id.substr(kJob, kHexDigits)))
    return std::nullopt;
  return number_of_hex(job_id.substr(kRequest, kHexDigits));
}

std::string new_salt() {
  std::string salt;
  for (const unsigned char byte : system_entropy())
    salt += hex(byte).substr(14);
  return salt;
}

}  // namespace lanemq::cli
