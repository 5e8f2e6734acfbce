// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/webhook/hook_signature.hpp"

#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "common/json/base64.hpp"
#include "common/settings/usage_error.hpp"

namespace lanemq::worker {

HookSecret::HookSecret(std::string_view text) {
  constexpr std::string_view kPrefix = "whsec_";
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  std::optional<std::string> bytes = from_base64(text);
  if (!bytes || bytes->size() < kBytesMin || bytes->size() > kBytesMax)
    throw settings::UsageError("is no secret of a webhook, which is whsec_ and base64 of " +
                               std::to_string(kBytesMin) + ".." + std::to_string(kBytesMax) +
                               " bytes; make one with: echo whsec_$(openssl rand -base64 32)");
  bytes_ = std::move(*bytes);
}

std::string HookSecret::sign(std::string_view text) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (!HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()),
            reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size))
    throw std::runtime_error("OpenSSL has no HMAC-SHA256");
  return to_base64({reinterpret_cast<const char*>(digest.data()), size});
}

std::string hook_signature(const std::vector<HookSecret>& secrets, const HookMessage& message) {
  std::string text;
  text.reserve(message.id.size() + message.body.size() + 32);
  text.append(message.id).append(".").append(std::to_string(message.timestamp)).append(".");
  text.append(message.body);
  std::string signature;
  for (const HookSecret& secret : secrets)
    signature.append(signature.empty() ? "v1," : " v1,").append(secret.sign(text));
  return signature;
}

}  // namespace lanemq::worker
