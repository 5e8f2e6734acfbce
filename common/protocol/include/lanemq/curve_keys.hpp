// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lanemq {

/// The characters of a key in Z85 (ZeroMQ RFC 32), public or secret.
inline constexpr std::size_t kCurveKeyChars = 40;

/// Whether a text is a key: 32 bytes in Z85.
bool is_curve_key(std::string_view text);

/// The keys of an encrypted connection to a broker (CurveZMQ, ZeroMQ RFC 26); `lanemq keygen` makes them.
/// Both or none; none: the connection is plain.
struct CurveKeys {
  std::string broker{};  ///< the broker's public key
  std::string secret{};  ///< the program's own secret key

  /// Why they cannot be used; empty: they can, or there are none. Names no secret.
  std::string why_unusable() const;
};

}  // namespace lanemq
