// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/program/reload.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/gateway/program/certificate.hpp"
#include "client/gateway/run/options.hpp"
#include "common/log/log.hpp"
#include "common/settings/option.hpp"
#include "common/settings/usage_error.hpp"

namespace lanemq::gateway {

void Reload::operator()() const {
  const service::Reloading told(notifier_);
  try {
    const Settings wanted = read_(), before = settings_;
    std::shared_ptr<const TlsIdentity> identity = identity_of(wanted);
    const std::vector<NamedChange> changes = named_changes(settings_, wanted);
    const std::vector<std::string> left = take_over(wanted, settings_);
    // Whether TLS is spoken at all needs a restart.
    if (identity && !before.tls_certificate.empty()) encrypt(server_, std::move(identity));
    tell_(before, settings_);
    for (const lanemq::settings::Changed& change : changed(option_table(), before, settings_))
      log::event(log::Level::info, "config.changed",
                 {{"key", change.key}, {"from", change.before}, {"to", change.after}});
    log::event(log::Level::info, "config.reloaded",
               {{"keys", settings_.keys.size()}, {"models", settings_.models.size()}});
    // A file that was cut while it was copied may be valid; the log then shows what it lost.
    for (const auto& [what, done, names] : changes)
      log::event(done == "removed" ? log::Level::warning : log::Level::info,
                 "config." + std::string(what) + "s_" + std::string(done), {{"names", names}});
    for (const std::string& what : left)
      log::event(log::Level::warning, "config.needs_restart", {{"what", what}});
  } catch (const UsageError& error) {
    log::event(log::Level::error, "config.reload_failed",
               {{"reason", error.what()}, {"do", "nothing has changed; mend it and send SIGHUP again"}});
  }
}

}  // namespace lanemq::gateway
