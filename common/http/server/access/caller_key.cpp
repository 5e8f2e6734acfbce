// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/access/caller_key.hpp"

#include <lanemq/text.hpp>

#include "common/http/server/access/secret.hpp"
#include "common/settings/option_reader.hpp"
#include "common/settings/secrets/secret_source.hpp"

namespace lanemq::http {
namespace {

constexpr std::size_t kSecretBytesMin = 16;

}  // namespace

std::string parse_hash(const std::string& text) {
  if (text.size() != 64 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw settings::UsageError("must be 64 hexadecimal digits in lower case");
  return text;
}

std::string hash_of_key(const SaidSecret& said, const settings::Environment& environment) {
  if (said.secret.empty() == said.sha256.empty())
    throw settings::UsageError("key \"" + printable(said.name) + "\" needs either secret or sha256");
  if (said.secret.empty()) return said.sha256;
  std::string hash;
  settings::about("secret of key \"" + printable(said.name) + '"', [&] {
    const std::string secret = settings::read_secret(said.secret, environment);
    if (secret.size() < kSecretBytesMin)
      throw settings::UsageError("it must have " + std::to_string(kSecretBytesMin) +
                                 " bytes or more, so that nobody guesses it; " + std::string(said.maker) +
                                 " prints a new one");
    hash = sha256_hex(secret);
  });
  return hash;
}

std::string new_key_table(std::string_view block, const std::string& secret, std::string_view rest) {
  const std::string hash = sha256_hex(secret);
  return "[[" + std::string(block) + "]]\nname = \"key-" + hash.substr(0, 6) +
         "\"   # in logs and metrics: give it a name of your own\nsha256 = \"" + hash + "\"\n" +
         std::string(rest);
}

}  // namespace lanemq::http
