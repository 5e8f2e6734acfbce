// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/refusal_log.hpp"

#include <utility>

#include <lanemq/text.hpp>

#include "common/log/log.hpp"

namespace lanemq::gateway {

bool RefusalLog::Line::may_be_told(Loop::TimePoint now) {
  if (now < next) {
    ++untold;
    return false;
  }
  next = now + kBetween;
  return true;
}

void RefusalLog::note_connection(std::string_view address, std::string_view bound, Loop::TimePoint now) {
  if (!connections_.may_be_told(now)) return;
  log::event(log::Level::warning, "connection.refused",
             {{"address", address}, {"bound", bound}, {"untold", std::exchange(connections_.untold, 0)}});
}

void RefusalLog::note_unserved(std::string_view service, Loop::TimePoint now) {
  if (!services_.may_be_told(now)) return;
  log::event(log::Level::warning, "service.no_worker",
             {{"service", service},
              {"untold", std::exchange(services_.untold, 0)},
              {"do", "start a worker for it: lanemq-worker --service " + printable(service) + "=HANDLER"}});
}

void RefusalLog::note(const Refused& refused, Loop::TimePoint now) {
  if (!requests_.may_be_told(now)) return;
  log::event(log::Level::warning, "request.refused",
             {{"reason", refused.reason},
              {"address", refused.address},
              {"secret_sha256", refused.hash.substr(0, kHashDigits)},
              {"request", printable(refused.method, 16) + " " + printable(refused.path, 128)},
              {"untold", std::exchange(requests_.untold, 0)}});
}

}  // namespace lanemq::gateway
