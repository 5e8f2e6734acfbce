// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::worker {

/// A secret that webhooks are signed with. Must not be logged.
class HookSecret {
 public:
  static constexpr std::size_t kBytesMin = 24, kBytesMax = 64;

  /// Reads `whsec_` and base64 of kBytesMin to kBytesMax bytes; the prefix may be left out. Throws
  /// settings::UsageError, which holds nothing of the secret.
  explicit HookSecret(std::string_view text);

  /// HMAC-SHA256 of the text under this secret, as base64.
  std::string sign(std::string_view text) const;

 private:
  std::string bytes_;
};

/// A message that is to be signed.
struct HookMessage {
  std::string_view id;         ///< the same for each time that the message is sent
  std::int64_t timestamp = 0;  ///< of this time: seconds since 1970
  std::string_view body;
};

/// The value of `webhook-signature` by the Standard Webhooks specification 1.0.0: a `v1,` signature of
/// `id.timestamp.body` for each secret, in their order, with spaces between them.
std::string hook_signature(const std::vector<HookSecret>& secrets, const HookMessage& message);

}  // namespace lanemq::worker
