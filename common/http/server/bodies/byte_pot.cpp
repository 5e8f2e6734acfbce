// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/bodies/byte_pot.hpp"

#include <algorithm>
#include <utility>

namespace lanemq::http {

BytePot::Hold::Hold(std::shared_ptr<BytePot> pot, std::vector<std::string> holders)
    : pot_(std::move(pot)), holders_(std::move(holders)) {
  std::erase(holders_, "");
}

BytePot::Hold::Hold(Hold&& other) noexcept
    : pot_(std::move(other.pot_)),
      holders_(std::move(other.holders_)),
      bytes_(std::exchange(other.bytes_, 0)) {}

BytePot::Hold& BytePot::Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  pot_ = std::move(other.pot_);
  holders_ = std::move(other.holders_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

BytePot::Over BytePot::Hold::take(std::size_t bytes) {
  const std::lock_guard lock(pot_->mutex_);
  if (bytes > pot_->bytes_max_ - pot_->bytes_) return Over::all;
  for (const std::string& holder : holders_) {
    const auto at = pot_->shares_.find(holder);
    const std::size_t held = at == pot_->shares_.end() ? 0 : at->second;
    if (bytes > pot_->share_max() - held) return Over::share;
  }
  for (const std::string& holder : holders_)
    pot_->shares_[holder] += bytes;
  pot_->bytes_ += bytes;
  bytes_ += bytes;
  return Over::nothing;
}

void BytePot::Hold::give_back() noexcept {
  if (!pot_ || bytes_ == 0) return;
  const std::lock_guard lock(pot_->mutex_);
  for (const std::string& holder : holders_) {
    const auto at = pot_->shares_.find(holder);
    if (at != pot_->shares_.end() && (at->second -= bytes_) == 0) pot_->shares_.erase(at);
  }
  pot_->bytes_ -= std::exchange(bytes_, 0);
}

std::size_t BytePot::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace lanemq::http
