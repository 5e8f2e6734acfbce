// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/run_key.hpp"

#include <memory>

#include <xxhash.h>

#include "common/ids/hex.hpp"
#include "common/ids/ulid.hpp"

namespace lanemq::cli {
namespace {

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

RunKey key_of_line(std::uint64_t number, std::string_view input_hash) {
  PartHash hash;
  hash.add(std::to_string(number));
  hash.add(input_hash);
  return hash.digest();
}

std::string input_hash(std::string_view body) {
  return hex(XXH3_64bits(body.data(), body.size()));
}

std::string to_text(const RunKey& key) {
  return hex(key.high) + hex(key.low);
}

RunKey key_from_text(std::string_view text) {
  if (text.size() != 32) return {};
  std::uint64_t halves[2] = {};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool letter = c >= 'a' && c <= 'f';
    if (!letter && (c < '0' || c > '9')) return {};
    halves[i / 16] = halves[i / 16] << 4 | static_cast<std::uint64_t>(letter ? c - 'a' + 10 : c - '0');
  }
  return {halves[0], halves[1]};
}

std::string run_job_id(const RunJob& job) {
  PartHash hash;
  for (const std::string_view part : {job.salt, job.service, job.lane, job.model, job.body})
    hash.add(part);
  hash.add(to_text(job.key));
  if (!job.path.empty()) hash.add(job.path);
  return "run-" + to_text(hash.digest()) + "-" + std::to_string(job.attempt);
}

std::string new_salt() {
  std::string salt;
  for (const unsigned char byte : system_entropy())
    salt += hex(byte).substr(14);
  return salt;
}

}  // namespace lanemq::cli
