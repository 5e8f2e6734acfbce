// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "client/gateway/door/settings.hpp"
#include "common/http/server/server.hpp"
#include "common/service/notifier.hpp"

namespace lanemq::gateway {

/// Reads the settings again and applies them; invalid ones change nothing.
class Reload {
 public:
  using Read = std::function<Settings()>;
  using Tell = std::function<void(const Settings& before, const Settings& settings)>;
  Reload(Settings& settings, HttpServer& server, service::Notifier& notifier, Read read, Tell tell)
      : settings_(settings),
        server_(server),
        notifier_(notifier),
        read_(std::move(read)),
        tell_(std::move(tell)) {}

  void operator()() const;

 private:
  Settings& settings_;
  HttpServer& server_;
  service::Notifier& notifier_;
  const Read read_;
  const Tell tell_;
};

}  // namespace lanemq::gateway
