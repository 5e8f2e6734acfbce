// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/io/desks/backup_desk.hpp"
#include "broker/io/desks/config_desk.hpp"
#include "broker/io/desks/key_desk.hpp"
#include "broker/io/desks/ownership_desk.hpp"
#include "broker/io/desks/reload_desk.hpp"
#include "broker/io/desks/service_watch.hpp"
#include "broker/io/plugins/plugin_desk.hpp"

namespace lanemq::io {

/// The desks that answer operators and the service manager about what the core does not know.
struct LoopDesks {
  BackupDesk backups;
  KeyDesk keys;
  ServiceWatch service;
  ReloadDesk reloads;
  PluginDesk plugins;
  ConfigDesk config;
  OwnershipDesk ownership;
};

}  // namespace lanemq::io
