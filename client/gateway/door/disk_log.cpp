// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/disk_log.hpp"

#include <utility>

#include <lanemq/text.hpp>

#include "common/log/log.hpp"

namespace lanemq::gateway {

void DiskLog::note(std::string_view what) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) {
    ++untold_;
    return;
  }
  next_ = now + kBetween;
  log::event(log::Level::error, "disk.refuses",
             {{"reason", printable(what, 512)}, {"untold", std::exchange(untold_, 0)}});
}

}  // namespace lanemq::gateway
