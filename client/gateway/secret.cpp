// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/secret.hpp"

#include <fstream>
#include <iterator>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <lanemq/text.hpp>

namespace lanemq::gateway {
namespace {

constexpr std::string_view kVariable = "env:", kFile = "file:", kCredential = "credential:";
constexpr std::size_t kSecretBytesMax = std::size_t{4} * 1024;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(kSecretBytesMax + 1, '\0');
  if (!file || (!file.read(content.data(), static_cast<std::streamsize>(content.size())) && !file.eof()))
    throw UsageError("file " + printable(path) + " cannot be read");
  content.resize(static_cast<std::size_t>(file.gcount()));
  if (content.size() > kSecretBytesMax)
    throw UsageError("file " + printable(path) + " has over " + std::to_string(kSecretBytesMax) + " bytes");
  while (!content.empty() && (content.back() == '\n' || content.back() == '\r'))
    content.pop_back();
  return content;
}

}  // namespace

std::string read_secret(const std::string& source, const Environment& environment) {
  std::string secret;
  if (source.starts_with(kVariable)) {
    const char* value = environment(source.substr(kVariable.size()));
    if (value) secret = value;
  } else if (source.starts_with(kFile)) {
    secret = read_file(source.substr(kFile.size()));
  } else if (source.starts_with(kCredential)) {
    const std::string name = source.substr(kCredential.size());
    const char* directory = environment("CREDENTIALS_DIRECTORY");
    if (name.empty() || name.find('/') != std::string::npos || !directory)
      throw UsageError(
          "a credential is named without a path, and needs CREDENTIALS_DIRECTORY, which systemd sets for a "
          "unit "
          "with LoadCredential=");
    secret = read_file(std::string(directory) + "/" + name);
  } else {
    throw UsageError("must be env:VARIABLE, file:PATH or credential:NAME, never the secret itself");
  }
  if (secret.empty()) throw UsageError(printable(source, 128) + " is empty or not set");
  return secret;
}

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(std::size_t{2} * size);
  for (unsigned int i = 0; i < size; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

bool equal_in_constant_time(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace lanemq::gateway
