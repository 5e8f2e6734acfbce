// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/asked_again.hpp"

#include "common/http/server/access/secret.hpp"

namespace lanemq::gateway {
namespace {

constexpr std::size_t kIdempotencyKeyBytesMax = 256;
constexpr std::size_t kAskedDigits = 32;  ///< of its hash

}  // namespace

tl::expected<AskedAgain, ApiError> read_asked_again(const HttpRequest& request) {
  const std::string_view key = request.headers.get("idempotency-key");
  if (key.size() > kIdempotencyKeyBytesMax)
    return wrong("Idempotency-Key has over " + std::to_string(kIdempotencyKeyBytesMax) + " bytes",
                 "idempotency-key");
  const std::string_view retries = request.headers.get("x-stainless-retry-count");
  return AskedAgain{.idempotency_key = std::string(key),
                    .sdk_retries = !retries.empty(),
                    .is_retry = !retries.empty() && retries != "0"};
}

std::string name_of_asked(std::string_view caller, std::string_view what) {
  return sha256_hex(std::to_string(caller.size()) + " " + std::string(caller) + std::string(what))
      .substr(0, kAskedDigits);
}

}  // namespace lanemq::gateway
