// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace lanemq::gateway {

/// Bytes that are held for callers, bounded for all together and for each of them, so that nobody has all of
/// the room. From any thread.
class BytePot {
 public:
  /// Each caller may have this part of the whole.
  static constexpr std::size_t kShares = 4;

  enum class Over : unsigned char { nothing, all, share };

  /// What is held for one thing, a body or an upload; it is given back when this ends.
  class Hold {
   public:
    Hold() = default;
    /// `holders`: in whose shares it counts, like an address and a key; in none that is empty.
    Hold(std::shared_ptr<BytePot> pot, std::vector<std::string> holders);
    ~Hold() { give_back(); }
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    /// Takes so much more, or nothing where that would be over a bound. Requires: it was made with a pot.
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
  std::unordered_map<std::string, std::size_t> shares_;  ///< of those who hold something
};

}  // namespace lanemq::gateway
