// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/refusal_log.hpp"

#include <utility>

#include <lanemq/text.hpp>

#include "log/log.hpp"

namespace lanemq::gateway {

void RefusalLog::note(const Refused& refused, Loop::TimePoint now) {
  if (now < next_) {
    ++untold_;
    return;
  }
  next_ = now + kBetween;
  log::event(log::Level::warning, "request.refused",
             {{"reason", refused.reason},
              {"address", refused.address},
              {"secret_sha256", refused.hash.substr(0, kHashDigits)},
              {"request", printable(refused.method, 16) + " " + printable(refused.path, 128)},
              {"untold", std::exchange(untold_, 0)}});
}

}  // namespace lanemq::gateway
