// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <utility>

namespace lanemq {

/// Immutable bytes with a type-erased owner: a body in a network buffer can be kept and lent on without a
/// copy, and without knowing the buffer's type.
///
/// A Blob borrows its bytes, which must then outlive it, or shares their ownership. Copies share. Distinct
/// Blobs may be used from different threads; one Blob is not synchronised.
class Blob {
 public:
  Blob() = default;

  /// Bytes that another object keeps alive; nothing is copied.
  static Blob borrow(std::string_view bytes) { return Blob(nullptr, bytes); }
  /// A private copy of the bytes.
  static Blob copy(std::string_view bytes);
  /// Bytes inside something that `owner` keeps alive. Requires: owner is not null.
  static Blob own(std::shared_ptr<const void> owner, std::string_view bytes) {
    return Blob(std::move(owner), bytes);
  }

  std::string_view bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Whether the bytes live as long as this Blob or a copy of it.
  bool owns() const { return owner_ != nullptr || bytes_.empty(); }
  /// The owner; null for borrowed bytes.
  const std::shared_ptr<const void>& owner() const { return owner_; }
  /// This Blob if it owns its bytes, else a copy that does.
  Blob owned() const { return owns() ? *this : copy(bytes_); }

 private:
  Blob(std::shared_ptr<const void> owner, std::string_view bytes) : owner_(std::move(owner)), bytes_(bytes) {}

  std::shared_ptr<const void> owner_;
  std::string_view bytes_;
};

}  // namespace lanemq
