// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/dead_job.hpp"

namespace lanemq::core {
namespace {

std::size_t bytes_of(const Attempt& attempt) {
  return sizeof(Attempt) + attempt.worker.size() + attempt.code.size() + attempt.message.size();
}

/// Cuts a text off between two characters of UTF-8.
void cut(std::string& text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return;
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xC0) == 0x80)
    --bytes_max;
  text.resize(bytes_max);
}

}  // namespace

std::ptrdiff_t History::add(Attempt attempt) {
  const auto before = static_cast<std::ptrdiff_t>(bytes_);
  cut(attempt.message, kMessageBytesMax);
  if (attempts_.size() == kAttemptsMax) {
    bytes_ -= bytes_of(attempts_.front());
    attempts_.erase(attempts_.begin());
  }
  bytes_ += bytes_of(attempt);
  attempts_.push_back(std::move(attempt));
  return static_cast<std::ptrdiff_t>(bytes_) - before;
}

std::size_t History::take_back(std::uint32_t number) {
  if (attempts_.empty() || attempts_.back().number != number) return 0;
  const std::size_t bytes = bytes_of(attempts_.back());
  attempts_.pop_back();
  bytes_ -= bytes;
  return bytes;
}

}  // namespace lanemq::core
