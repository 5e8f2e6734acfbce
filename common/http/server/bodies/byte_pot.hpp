// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace lanemq::http {

/// Bounds the bytes that are held for callers, in total and for each caller, so that none takes all the room.
/// Thread-safe.
class BytePot {
 public:
  /// A caller's share is this part of the whole.
  static constexpr std::size_t kShares = 4;

  enum class Over : unsigned char { nothing, all, share };

  /// The bytes held for one body or upload; its destructor gives them back.
  class Hold {
   public:
    Hold() = default;
    /// `holders`: in whose shares it counts, such as an address and a key; an empty name counts for nobody.
    Hold(std::shared_ptr<BytePot> pot, std::vector<std::string> holders);
    ~Hold() { give_back(); }
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    /// Takes so many more bytes, or none where that exceeds a bound. Requires: it has a pot.
    Over take(std::size_t bytes);
    void give_back() noexcept;
    std::size_t bytes() const { return bytes_; }

   private:
    std::shared_ptr<BytePot> pot_;
    std::vector<std::string> holders_;
    std::size_t bytes_ = 0;
  };

  explicit BytePot(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  std::size_t bytes() const;
  std::size_t bytes_max() const { return bytes_max_; }
  std::size_t share_max() const { return bytes_max_ / kShares; }

 private:
  const std::size_t bytes_max_;
  mutable std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::size_t> shares_;  ///< by holder; only those with bytes
};

}  // namespace lanemq::http
