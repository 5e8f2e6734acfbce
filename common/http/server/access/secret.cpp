// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/access/secret.hpp"

#include <cstddef>
#include <memory>
#include <stdexcept>

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <lanemq/words.hpp>

namespace lanemq::http {
namespace {

std::string hex_of(const unsigned char* bytes, std::size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(2 * size, '0');
  for (std::size_t i = 0; i < size; ++i) {
    text[2 * i] = kDigits[bytes[i] >> 4];
    text[2 * i + 1] = kDigits[bytes[i] & 15];
  }
  return text;
}

constexpr std::string_view kBearer = "bearer ";

std::string_view secret_of(const HttpRequest& request) {
  const std::string_view value = request.headers.get("authorization");
  const bool bearer = value.size() > kBearer.size() && begins_with_word(value, kBearer);
  return bearer ? value.substr(kBearer.size()) : request.headers.get("x-api-key");
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  // Looking up the algorithm costs more than the hash, so it is done once.
  static const std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> kSha256(
      EVP_MD_fetch(nullptr, "SHA256", nullptr), EVP_MD_free);
  thread_local const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                                     EVP_MD_CTX_free);
  if (!kSha256 || !context || EVP_DigestInit_ex2(context.get(), kSha256.get(), nullptr) != 1 ||
      EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context.get(), digest, &size) != 1)
    throw std::runtime_error("libcrypto makes no SHA-256");
  return hex_of(digest, size);
}

std::string fresh_secret() {
  unsigned char random[24];
  if (RAND_priv_bytes(random, sizeof random) != 1)
    throw std::runtime_error("the system gives no random bytes");
  return "lanemq-" + hex_of(random, sizeof random);
}

const std::string& secret_hash_of(const HttpRequest& request) {
  if (!request.secret_hash) {
    const std::string_view secret = secret_of(request);
    request.secret_hash = secret.empty() ? std::string() : sha256_hex(secret);
  }
  return *request.secret_hash;
}

}  // namespace lanemq::http
